#pragma once

// Paged memory as a placement: docs/placements.md. What a body has paged lies in page-locked memory of the host, with
// frames on the device. All else is copied.

#include <optional>
#include <string_view>

#include "memory/placement.hpp"
#include "paging/pager.hpp"

namespace isthmus::paging {

/// Makes it known to the table, once.
memory::Placement placement();

struct EvictionName {
  Eviction eviction;
  std::string_view name;
};
inline constexpr EvictionName kEvictionNames[] = {
    {Eviction::fifo, "fifo"},
    {Eviction::second_chance, "second_chance"},
    {Eviction::scan_resistant, "scan_resistant"},
};
struct TransportName {
  Transport transport;
  std::string_view name;
};
inline constexpr TransportName kTransportNames[] = {
    {Transport::pull, "pull"},
    {Transport::relay, "relay"},
    {Transport::pull_and_relay, "pull_and_relay"},
    {Transport::proxy, "proxy"},
};
/// They throw std::invalid_argument for a name that is none.
Eviction eviction_named(std::string_view name);
Transport transport_named(std::string_view name);

/// So many pages of memory, and the frames that a share of them in percent gives: one at least.
std::size_t pages_of(std::size_t bytes, std::size_t page_bytes);
std::size_t frames_of(std::size_t pages, std::size_t percent);

}  // namespace isthmus::paging
