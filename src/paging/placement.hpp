#pragma once

// Paged memory as a placement: docs/placements.md. What a body has paged lies in page-locked memory of the host, with
// frames on the device. All else is copied.

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

/// Makes it known to the table, once.
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
/// Throws std::invalid_argument for a name that is in no row.
template <class Value, std::size_t rows>
Value value_named(const Named<Value> (&table)[rows], std::string_view name) {
  const auto* const found = std::ranges::find(table, name, &Named<Value>::name);
  if (found == std::end(table)) throw std::invalid_argument("nothing is called " + std::string(name));
  return found->value;
}

/// So many pages of memory, and the frames that a share of them in percent gives: one at least.
std::size_t pages_of(std::size_t bytes, std::size_t page_bytes);
std::size_t frames_of(std::size_t pages, std::size_t percent);

}  // namespace isthmus::paging
