#pragma once

// Limits that the links set, from which the share of a figure is computed.

#include <vector>

#include "microbench/transfer/ends.hpp"
#include "workload/metric.hpp"

namespace isthmus::microbench::transfer {

using workload::Bound;

/// Returns the limit of the rate from one end to the other, in B/s. Each byte counts once.
Bound bound(const End& from, const End& to);
/// One of several simultaneous transfers.
struct Leg {
  End from, to;
};
/// Leg with its limit, in B/s.
struct Flow {
  End from, to;
  double rate;
};
/// Returns the limit of the sum of all flows, in B/s. Flows that leave a GPU share its widest outgoing link, and flows
/// that reach a GPU share its widest incoming link. The host sends and receives as much as the GPUs at the other ends.
double combined_rate(const std::vector<Flow>& flows);
/// Returns the limit of simultaneous legs; `bounds` has the limit of each single leg. It is unknown if one of those is
/// unknown.
Bound combined_bound(const std::vector<Leg>& legs, const std::vector<Bound>& bounds);

}  // namespace isthmus::microbench::transfer
