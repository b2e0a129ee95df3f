#pragma once

// Paged memory as a placement: docs/placements.md. Buffers that a body declares as paged are in page-locked host
// memory, with frames on the device. All other buffers are copied.

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "memory/placement.hpp"
#include "paging/pager.hpp"

namespace isthmus::paging {

/// Returns the placement; the first call registers it in the table.
memory::Placement placement();

template <class Value>
struct Named {
  Value value;
  std::string_view name;
};
inline constexpr Named<Eviction> kEvictionNames[] = {
    {Eviction::fifo, "fifo"},
    {Eviction::second_chance, "second_chance"},
    {Eviction::scan_resistant, "scan_resistant"},
};
inline constexpr Named<Transport> kTransportNames[] = {
    {Transport::pull, "pull"},
    {Transport::relay, "relay"},
    {Transport::pull_and_relay, "pull_and_relay"},
    {Transport::proxy, "proxy"},
};
/// Returns the value with this name; throws std::invalid_argument if the table has no such name.
template <class Value, std::size_t rows>
Value value_named(const Named<Value> (&table)[rows], std::string_view name) {
  const auto* const found = std::ranges::find(table, name, &Named<Value>::name);
  if (found == std::end(table)) throw std::invalid_argument("unknown name: " + std::string(name));
  return found->value;
}

/// Return a number of at least one: pages_of() the pages that `bytes` bytes need, frames_of() the given percentage of
/// `pages`.
std::size_t pages_of(std::size_t bytes, std::size_t page_bytes);
std::size_t frames_of(std::size_t pages, std::size_t percent);

}  // namespace isthmus::paging
