#pragma once

// What the links allow at most, for the share of each figure.

#include <optional>
#include <string>
#include <vector>

#include "microbench/transfer/ends.hpp"

namespace isthmus::microbench::transfer {

struct Bound {
  std::optional<double> rate;  ///< B/s
  std::string source;          ///< what it is, or why it is not known
};

/// Of bytes that go from one end to the other, counted once.
Bound bound(const End& from, const End& to);
/// Of all that go at once: what leaves each GPU and what reaches it has its link; what bounds the sum is the smaller.
Bound bound(const std::vector<std::pair<End, End>>& at_once);

}  // namespace isthmus::microbench::transfer
