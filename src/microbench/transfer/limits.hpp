#pragma once

// What the links allow at most, for the share of each figure.

#include <vector>

#include "microbench/transfer/ends.hpp"
#include "workload/metric.hpp"

namespace isthmus::microbench::transfer {

using workload::Bound;

/// Of bytes that go from one end to the other, counted once; in B/s.
Bound bound(const End& from, const End& to);
/// One of several transfers at once.
struct Leg {
  End from, to;
};
/// The same with the rate that bounds it by itself, in B/s.
struct Flow {
  End from, to;
  double rate;
};
/// What bounds the sum of flows: what leaves each GPU shares the widest link it is given there, and so does what
/// reaches it; the host gives and takes as much as the GPUs at the other ends.
double combined_rate(const std::vector<Flow>& flows);
/// The bound of legs at once, `bounds` being each one's own; not known where one of them is not.
Bound combined_bound(const std::vector<Leg>& legs, const std::vector<Bound>& bounds);

}  // namespace isthmus::microbench::transfer
