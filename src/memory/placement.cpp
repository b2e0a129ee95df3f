#include "memory/placement.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <stdexcept>

namespace isthmus::memory {

namespace {

constexpr PlacementFacts kRows[] = {
    // name, host memory, memory of kernels, travel in, travel out, advised, chunked
    {"pageable", Kind::pageable, Kind::device, Travel::blocking, Travel::blocking},
    {"pinned", Kind::pinned, Kind::device, Travel::asynchronous, Travel::asynchronous},
    {"streamed", Kind::pinned, Kind::device, Travel::asynchronous, Travel::asynchronous, false, true},
    {"pool", Kind::pinned, Kind::pool, Travel::asynchronous, Travel::asynchronous},
    {"mapped", Kind::mapped, Kind::mapped, Travel::none, Travel::none},
    {"managed_in", Kind::managed, Kind::managed, Travel::prefetch,
     Travel::host_access},  // called "uvm" in the pipelining paper
    {"managed", Kind::managed, Kind::managed, Travel::prefetch, Travel::prefetch},
    {"managed_demand", Kind::managed, Kind::managed, Travel::none, Travel::host_access},
    {"managed_advise", Kind::managed, Kind::managed, Travel::none, Travel::host_access, true},
    {"system", Kind::pageable, Kind::pageable, Travel::none, Travel::host_access},
    {"unified", Kind::device, Kind::device, Travel::none, Travel::none},
};

/// Table of all placements; a deque, so that rows keep their addresses when others are added.
struct Table {
  std::deque<PlacementFacts> rows{std::begin(kRows), std::end(kRows)};
  std::vector<Placement> all{rows.begin(), rows.end()};
};
Table& table() {
  static Table table;
  return table;
}

}  // namespace

PlacementRegistration::PlacementRegistration(PlacementFacts row) {
  if (parse_placement(row.name)) throw std::logic_error("there are two placements " + std::string(row.name));
  table().all.emplace_back(table().rows.emplace_back(row));
}

const std::vector<Placement>& all_placements() {
  return table().all;
}

Placement plain_placement() {
  return all_placements().front();
}

std::string_view name(Placement placement) noexcept {
  return placement->name;
}

std::optional<Placement> parse_placement(std::string_view text) {
  const auto& all = all_placements();
  const auto found = std::ranges::find(all, text, [](const auto& placement) { return placement->name; });
  return found == all.end() ? std::nullopt : std::optional(*found);
}

std::optional<std::string> unsupported_reason(Placement placement, const device::DeviceInfo& info) {
  const auto& row = *placement;
  auto why =
      row.two_memories() ? unsupported_reason(row.device, info) : unsupported_reason(row.device, Reader::gpu, info);
  if (!why)
    why = row.two_memories() ? unsupported_reason(row.host, info) : unsupported_reason(row.host, Reader::cpu, info);
  if (!why && row.managed() && (row.in == Travel::prefetch || row.advised) && !info.concurrent_managed)
    why = info.name + " (" + info.arch +
          ") cannot use managed memory at the same time as the CPU, so it supports neither prefetch nor advice";
  if (why) *why += ", which placement " + std::string(row.name) + " needs";
  return why;
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
