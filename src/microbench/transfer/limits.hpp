#pragma once

// What the links allow at most, for the share of each figure.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "microbench/transfer/ends.hpp"

namespace isthmus::microbench::transfer {

struct Bound {
  std::optional<double> rate;  ///< B/s
  std::string source;          ///< what it is, or why it is not known
};

/// Of bytes that go from one end to the other, counted once.
Bound bound(const End& from, const End& to);
/// One of several transfers at once, with the bound that it has by itself.
struct Flow {
  End from, to;
  double rate;
};
/// What bounds the sum of flows: what leaves each GPU shares the widest link it is given there, and so does what
/// reaches it; the host gives and takes as much as the GPUs at the other ends.
double combined_rate(const std::vector<Flow>& flows);
Bound bound(const std::vector<std::pair<End, End>>& at_once);

}  // namespace isthmus::microbench::transfer
