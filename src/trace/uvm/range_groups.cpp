#include "trace/uvm/range_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

namespace isthmus::trace::uvm {

namespace {

constexpr std::size_t kArgumentBytes = 4096;

constexpr const char* kInstead = "; measure with driver_prefetch=default";

[[noreturn]] void refuse(const std::string& why) {
  throw Unavailable("the driver's prefetcher cannot be set for this process: " + why + kInstead);
}

void check_version(System& system, bool forced) {
  if (forced) return;
  const auto text = system.driver_version();
  const auto version = parse_driver_version(text);
  if (!version) refuse(fmt::format("the driver's version is unknown ('{}')", text));
  if (!is_known_branch(version->branch))
    refuse(fmt::format("range groups of driver branch {} were not examined (set ISTHMUS_UVM=force to try anyway)",
                       version->branch));
}

std::string answer(int failure, std::uint32_t status) {
  return failure != 0 ? std::strerror(-failure) : fmt::format("status {:#x}", status);
}

}  // namespace

RangeGroups::RangeGroups(System& system, std::uint64_t address, std::uint64_t bytes, std::uint64_t piece, bool forced)
    : system_(system),
      arguments_(kArgumentBytes),
      begin_(address / kPageBytes * kPageBytes),
      end_((address + bytes + kPageBytes - 1) / kPageBytes * kPageBytes) {
  if (piece < kPageBytes || !std::has_single_bit(piece) || bytes == 0)
    throw std::logic_error("the size of a piece of a range group must be a power of two and at least a page");
  check_version(system, forced);
  create();
  try {
    for (std::uint64_t at = begin_; at < end_;) {
      const std::uint64_t next = std::min((at / piece + 1) * piece, end_);
      set(groups_[pieces_++ % 2], at, next - at);
      at = next;
    }
  } catch (...) {
    release();
    throw;
  }
}

RangeGroups::~RangeGroups() {
  release();
}

template <class Arguments>
int RangeGroups::ask(unsigned long request, Arguments& arguments) {
  std::memset(arguments_.data(), 0, kArgumentBytes);
  std::memcpy(arguments_.data(), &arguments, sizeof arguments);
  const int failure = system_.control(descriptor_, request, arguments_.data());
  std::memcpy(&arguments, arguments_.data(), sizeof arguments);
  return failure;
}

/// Creates the two groups. Requests succeed only on the descriptor that owns the address space.
void RangeGroups::create() {
  const auto candidates = system_.descriptors_of(kMemoryNode);
  if (candidates.empty())
    refuse(
        fmt::format("it has not opened {}, which managed memory on a GPU needs (give the container this device node)",
                    kMemoryNode));
  for (const int candidate : candidates) {
    descriptor_ = candidate;
    GroupArguments first;
    const int failure = ask(request::create_group, first);
    if (failure == 0 && first.status == kWrongDescriptor && candidate != candidates.back()) continue;
    if (failure != 0 || first.status != 0)
      refuse(fmt::format("{} provides no range group ({})", kMemoryNode, answer(failure, first.status)));
    groups_[0] = first.group;
    break;
  }
  GroupArguments second;
  const int failure = ask(request::create_group, second);
  if (failure != 0 || second.status != 0) {
    release();
    refuse(fmt::format("{} provides no second range group ({})", kMemoryNode, answer(failure, second.status)));
  }
  groups_[1] = second.group;
}

void RangeGroups::set(std::uint64_t group, std::uint64_t base, std::uint64_t bytes) {
  SetGroupArguments arguments{.group = group, .base = base, .bytes = bytes};
  const int failure = ask(request::set_group, arguments);
  if (failure != 0 || arguments.status != 0)
    refuse(fmt::format("it refuses a range group of {} bytes at {:#x} ({})", bytes, base,
                       answer(failure, arguments.status)));
}

/// Removes the groups. If that fails, the driver removes them when the process ends.
void RangeGroups::release() noexcept {
  SetGroupArguments out{.group = 0, .base = begin_, .bytes = end_ - begin_};
  if (pieces_ > 0) ask(request::set_group, out);
  for (auto& group : groups_) {
    GroupArguments arguments{.group = group};
    if (group != 0) ask(request::destroy_group, arguments);
    group = 0;
  }
}

}  // namespace isthmus::trace::uvm
