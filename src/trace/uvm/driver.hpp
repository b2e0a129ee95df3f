#pragma once

// What differs between branches of the driver, and the numbers of its requests.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace isthmus::trace::uvm {

struct DriverVersion {
  int branch = 0, minor = 0, patch = 0;
};

/// "580.159.04", alone or somewhere in a sentence such as that of /proc/driver/nvidia/version.
std::optional<DriverVersion> parse_driver_version(std::string_view text);

/// Whether the branch is one whose queue was looked at: 515 to 595.
bool is_known_branch(int branch) noexcept;

/// Where the answer to the request for a queue has its status. The version of the entries that is asked for, 1, is
/// written at both places where a branch may look for it; nothing else is there in the others.
std::size_t status_of_init(int branch) noexcept;
inline constexpr std::size_t kInitVersionAt[] = {48, 52};

namespace request {
// Of the descriptor of the queue.
inline constexpr unsigned long init = 56, enable = 58, disable = 59;
// Of the process's own descriptor of unified memory.
inline constexpr unsigned long flush = 67;
inline constexpr unsigned long create_group = 23, destroy_group = 24, set_group = 31;
}  // namespace request

/// What a descriptor of unified memory answers that is not the process's own address space: take the other one.
inline constexpr std::uint32_t kWrongDescriptor = 0x16;

/// The arguments of `init`.
struct InitArguments {
  std::uint64_t queue = 0, entries = 0, control = 0;
  std::uint8_t processor[16] = {};
  std::uint32_t all_processors = 0, descriptor = 0;
  std::uint32_t words[4] = {};  ///< status and version, where the branch has them
};
static_assert(sizeof(InitArguments) == 64 && offsetof(InitArguments, all_processors) == 40 &&
              offsetof(InitArguments, words) == 48);

/// The arguments of `enable` and `disable`.
struct MaskArguments {
  std::uint64_t types = 0;  ///< bit n is type n
  std::uint32_t status = 0, unused = 0;
};

/// The arguments of `create_group`, which answers with the number, and of `destroy_group`.
struct GroupArguments {
  std::uint64_t group = 0;
  std::uint32_t status = 0, unused = 0;
};

/// The arguments of `set_group`: whole pages of managed memory go into the group, or out of all of them (0).
struct SetGroupArguments {
  std::uint64_t group = 0, base = 0, bytes = 0;
  std::uint32_t status = 0, unused = 0;
};
static_assert(offsetof(SetGroupArguments, status) == 24);

/// Shared with the driver: it puts entries, the reader gets them.
struct Control {
  std::uint32_t get_ahead, get_behind, put_ahead, put_behind;
  std::uint64_t dropped[64];  ///< by type
};
static_assert(sizeof(Control) == 528);

}  // namespace isthmus::trace::uvm
