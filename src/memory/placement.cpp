#include "memory/placement.hpp"

#include <array>
#include <limits>
#include <stdexcept>

#include "memory/placement_facts.hpp"

namespace isthmus::memory {

namespace {

constexpr PlacementFacts kFacts[] = {
    // placement                name              host memory             device memory      in                    out
    {Placement::pageable, "pageable", HostWay::plain, DeviceWay::plain, Travel::blocking, Travel::blocking},
    {Placement::pinned, "pinned", HostWay::pinned, DeviceWay::plain, Travel::asynchronous, Travel::asynchronous},
    {Placement::streamed, "streamed", HostWay::pinned, DeviceWay::plain, Travel::asynchronous, Travel::asynchronous},
    {Placement::pool, "pool", HostWay::pinned, DeviceWay::pool, Travel::asynchronous, Travel::asynchronous},
    {Placement::mapped, "mapped", HostWay::pinned_mapped, DeviceWay::mapped, Travel::none, Travel::none},
    {Placement::managed_in, "managed_in", HostWay::managed, DeviceWay::same, Travel::prefetch, Travel::host_access},
    {Placement::managed, "managed", HostWay::managed, DeviceWay::same, Travel::prefetch, Travel::prefetch},
    {Placement::managed_demand, "managed_demand", HostWay::managed, DeviceWay::same, Travel::none, Travel::host_access},
    {Placement::managed_advise, "managed_advise", HostWay::managed, DeviceWay::same, Travel::none, Travel::host_access,
     true},
    {Placement::system, "system", HostWay::plain, DeviceWay::same, Travel::none, Travel::host_access},
    {Placement::unified, "unified", HostWay::device, DeviceWay::same, Travel::none, Travel::none},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < std::size(kFacts); ++i) {
    if (static_cast<std::size_t>(kFacts[i].placement) != i) return false;
  }
  return true;
}
static_assert(in_order(), "the table is indexed by placement");

constexpr auto kPlacements = [] {
  std::array<Placement, std::size(kFacts)> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = kFacts[i].placement;
  return all;
}();

}  // namespace

const PlacementFacts& facts(Placement placement) noexcept {
  return kFacts[static_cast<std::size_t>(placement)];
}

std::span<const Placement> all_placements() noexcept {
  return kPlacements;
}

std::string_view name(Placement placement) noexcept {
  return facts(placement).name;
}

std::optional<Placement> parse_placement(std::string_view text) noexcept {
  for (const auto& row : kFacts) {
    if (row.name == text) return row.placement;
  }
  return std::nullopt;
}

std::optional<std::string> unsupported_reason(Placement placement, const device::DeviceInfo& info) {
  const auto& row = facts(placement);
  const auto lacks = [&](std::string_view what) {
    return info.name + " (" + info.arch + ") " + std::string(what) + ", which placement " + std::string(row.name) +
           " needs";
  };
  if (row.device == DeviceWay::pool && !info.memory_pools) return lacks("has no stream-ordered allocation");
  if (row.host == HostWay::pinned_mapped && !info.can_map_host) return lacks("cannot map host memory");
  if (row.host == HostWay::managed && !info.managed) return lacks("has no managed memory");
  if (row.host == HostWay::managed && (row.in == Travel::prefetch || row.advice) && !info.concurrent_managed)
    return lacks("cannot use managed memory at the same time as the CPU, so takes no prefetch and no advice");
  if (row.host == HostWay::plain && row.device == DeviceWay::same && !info.pageable_access)
    return lacks("cannot read plain malloc memory (no HMM, ATS or XNACK)");
  if (row.host == HostWay::device && !info.integrated) return lacks("does not share its memory with the CPU");
  return std::nullopt;
}

bool has_two_copies(Placement placement) noexcept {
  const auto way = facts(placement).device;
  return way == DeviceWay::plain || way == DeviceWay::pool;
}

bool is_managed(Placement placement) noexcept {
  return facts(placement).host == HostWay::managed;
}

bool host_allocation_is_device_allocation(Placement placement) noexcept {
  const auto way = facts(placement).host;
  return way == HostWay::managed || way == HostWay::device;
}

Travel travel_in(Placement placement) noexcept {
  return facts(placement).in;
}
Travel travel_out(Placement placement) noexcept {
  return facts(placement).out;
}

std::size_t byte_count(std::size_t elements, std::size_t size) {
  if (size != 0 && elements > std::numeric_limits<std::ptrdiff_t>::max() / size)
    throw std::length_error("a buffer of " + std::to_string(elements) + " elements of " + std::to_string(size) +
                            " bytes is larger than any address space");
  return elements * size;
}

std::vector<Range> cut(std::size_t units, std::size_t chunks) {
  std::vector<Range> ranges;
  const std::size_t count = std::min(units, std::max<std::size_t>(chunks, 1));
  for (std::size_t i = 0; i < count; ++i) {
    const auto edge = [&](std::size_t k) {
      return static_cast<std::size_t>(static_cast<unsigned __int128>(units) * k / count);
    };
    ranges.push_back({edge(i), edge(i + 1) - edge(i)});
  }
  return ranges;
}

}  // namespace isthmus::memory
