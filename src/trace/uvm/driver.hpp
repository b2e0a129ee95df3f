#pragma once

// Differences between branches of the driver, and the numbers of the driver's requests.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace isthmus::trace::uvm {

struct DriverVersion {
  int branch = 0, minor = 0, patch = 0;
};

/// Finds a version such as "580.159.04", alone or in a sentence such as in /proc/driver/nvidia/version.
std::optional<DriverVersion> parse_driver_version(std::string_view text);

/// Returns whether the queue of this branch has been examined: branches 515 to 595.
bool is_known_branch(int branch) noexcept;

/// Returns the offset of the status in the driver's answer to `init`. The requested version of the entries, 1, is
/// written at both offsets where a branch may expect it; other branches do not use these offsets.
std::size_t status_of_init(int branch) noexcept;
inline constexpr std::size_t kInitVersionAt[] = {48, 52};

namespace request {
// Requests on the descriptor of the queue.
inline constexpr unsigned long init = 56, enable = 58, disable = 59;
// Requests on the process's own descriptor of unified memory.
inline constexpr unsigned long flush = 67;
inline constexpr unsigned long create_group = 23, destroy_group = 24, set_group = 31;
}  // namespace request

/// Status returned if the descriptor of unified memory is for another address space than the process's own: another
/// descriptor must be tried.
inline constexpr std::uint32_t kWrongDescriptor = 0x16;

/// Arguments of `init`.
struct InitArguments {
  std::uint64_t queue = 0, entries = 0, control = 0;
  std::uint8_t processor[16] = {};
  std::uint32_t all_processors = 0, descriptor = 0;
  std::uint32_t words[4] = {};  ///< status and version, in branches that have them
};
static_assert(sizeof(InitArguments) == 64 && offsetof(InitArguments, all_processors) == 40 &&
              offsetof(InitArguments, words) == 48);

/// Arguments of `enable` and `disable`.
struct MaskArguments {
  std::uint64_t types = 0;  ///< bit n enables type n
  std::uint32_t status = 0, unused = 0;
};

/// Arguments of `create_group`, which returns the group's number, and of `destroy_group`.
struct GroupArguments {
  std::uint64_t group = 0;
  std::uint32_t status = 0, unused = 0;
};

/// Arguments of `set_group`: puts whole pages of managed memory into the group; group 0 removes them from all groups.
struct SetGroupArguments {
  std::uint64_t group = 0, base = 0, bytes = 0;
  std::uint32_t status = 0, unused = 0;
};
static_assert(offsetof(SetGroupArguments, status) == 24);

/// Indices shared with the driver: the driver puts entries into the queue, and the reader gets them out.
struct Control {
  std::uint32_t get_ahead, get_behind, put_ahead, put_behind;
  std::uint64_t dropped[64];  ///< number of dropped entries of each type
};
static_assert(sizeof(Control) == 528);

}  // namespace isthmus::trace::uvm
