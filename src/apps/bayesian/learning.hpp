#pragma once

// The data that apps/bayesian learns from, the sets of parents and the orders that it searches, and the host's check of
// the results.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "device/kernel/kernel.hpp"
#include "memory/parallel.hpp"
#include "workload/values.hpp"

namespace isthmus::apps::learning {

using Word = std::uint32_t;
using Key = unsigned long long;  // score above inverted number of the set: the maximum is the first of the best sets
using Name = std::uint8_t;       // number of a node

// The data of a node is a line of bits, one per row. A line of ones precedes the lines of all nodes, and two lines of
// zeros follow them.
constexpr unsigned words = 19, words_pitch = 20, most_rows = 32 * words, most_nodes = 256;
constexpr unsigned most_swaps = 5;  // swaps per round

__host__ __device__ inline unsigned choose(unsigned n, unsigned k) {
  return k == 1   ? n
         : k == 2 ? n * (n - 1) / 2
         : k == 3 ? n * (n - 1) * (n - 2) / 6
                  : n * (n - 1) * (n - 2) * (n - 3) / 24;
}

/// Numbering of the sets of parents that a node can have. Members are numbered among the other nodes only. Sets are
/// ordered by size, then by their last member, then by the one before that, and so on.
struct Sets {
  unsigned others;
  __host__ __device__ unsigned start(unsigned size) const {
    unsigned sum = size > 0 ? 1 : 0;
    for (unsigned k = 1; k < size; ++k) sum += choose(others, k);
    return sum;
  }
  __host__ __device__ unsigned count() const { return start(5); }
};
__host__ __device__ inline unsigned node_of(unsigned other, unsigned x) {
  return other + (other >= x ? 1 : 0);
}

__host__ __device__ inline Key key_of(float score, unsigned rank) {
  Word bits;
  __builtin_memcpy(&bits, &score, sizeof bits);
  return static_cast<Key>((bits >> 31) != 0 ? ~bits : bits | 1u << 31) << 32 | static_cast<Word>(~rank);
}
__host__ __device__ inline double total(const Key* found, unsigned nodes) {
  double sum = 0;
  for (unsigned x = 0; x < nodes; ++x) {
    const auto high = static_cast<Word>(found[x] >> 32), bits = (high >> 31) != 0 ? high & ~(1u << 31) : ~high;
    float score;
    __builtin_memcpy(&score, &bits, sizeof score);
    sum += static_cast<double>(score);
  }
  return sum;
}

/// Swaps of one round: pairs of places in the order whose nodes are exchanged, one pair after the other.
struct Swaps {
  unsigned count;
  Name first[most_swaps], second[most_swaps];
  __host__ __device__ void make(Name* order) const {
    for (unsigned k = 0; k < count; ++k) {
      const Name kept = order[first[k]];
      order[first[k]] = order[second[k]];
      order[second[k]] = kept;
    }
  }
};

/// Generator of the data and of each round's random numbers. In the data, each node depends on two earlier nodes and on
/// noise.
struct Learning {
  std::uint64_t seed;
  unsigned nodes, rows;
  Sets sets() const { return {nodes - 1}; }
  unsigned below(std::uint64_t stream, std::size_t i, unsigned end) const {
    return static_cast<unsigned>((workload::hash(seed, stream, i) >> 32) * end >> 32);
  }
  std::vector<std::uint8_t> data() const {
    std::vector<std::uint8_t> states(std::size_t{nodes} * rows);
    for (std::size_t r = 0; r < rows; ++r) {
      std::uint8_t* row = &states[r * nodes];
      for (unsigned x = 0; x < nodes; ++x) {
        const unsigned random = below(0, r * nodes + x, 16);
        const unsigned one = row[below(1, 2 * x, std::max(x, 1u))], two = row[below(1, 2 * x + 1, std::max(x, 1u))];
        row[x] = static_cast<std::uint8_t>(x < 2 || random < 4 ? random & 1 : x % 2 == 0 ? one ^ two : one & two);
      }
    }
    return states;
  }
  Word packed(const std::vector<std::uint8_t>& data, std::size_t i) const {
    const std::size_t line = i / words_pitch, first = i % words_pitch * 32;
    Word bits = 0;
    for (std::size_t r = first; r < std::min<std::size_t>(first + 32, rows); ++r)
      bits |= Word{line == 0 || (line <= nodes && data[r * nodes + line - 1] != 0)} << (r - first);
    return bits;
  }
  Swaps swaps(std::size_t round) const {
    Swaps made{};
    made.count = round == 0 ? 0 : below(2, 16 * round, most_swaps + 1);
    for (unsigned k = 0; k < made.count; ++k) {
      const unsigned first = below(2, 16 * round + 2 * k + 1, nodes);
      made.first[k] = static_cast<Name>(first);
      made.second[k] = static_cast<Name>((first + 1 + below(2, 16 * round + 2 * k + 2, nodes - 1)) % nodes);
    }
    return made;
  }
  /// Returns the largest drop in score that this round still accepts, as a negative number.
  double worse(std::size_t round) const {
    return std::log((static_cast<double>(workload::hash(seed, 3, round) >> 11) + 1) * 0x1p-53);
  }
  std::vector<double> logs() const {
    std::vector<double> sums(rows + 2);
    for (unsigned i = 2; i < sums.size(); ++i) sums[i] = sums[i - 1] + std::log(i);
    return sums;
  }
};

/// Returns the score of node `x` with set `rank` of parents, computed by counting rows of the data.
inline double counted(const Learning& problem, const std::vector<std::uint8_t>& data, const std::vector<double>& logs,
                      unsigned x, unsigned rank) {
  unsigned size = 0, member[4], all[16] = {}, ones[16] = {};
  while (size < 4 && rank >= problem.sets().start(size + 1)) ++size;
  rank -= problem.sets().start(size);
  for (unsigned k = size, m = problem.sets().others; k > 0; --k) {
    for (--m; choose(m, k) > rank;) --m;
    rank -= choose(m, k);
    member[k - 1] = node_of(m, x);
  }
  for (std::size_t r = 0; r < problem.rows; ++r) {
    unsigned state = 0;
    for (unsigned k = 0; k < size; ++k) state |= unsigned{data[r * problem.nodes + member[k]]} << k;
    ++all[state];
    ones[state] += data[r * problem.nodes + x];
  }
  double sum = 0;
  for (unsigned s = 0; s < 16; ++s) sum += logs[ones[s]] + logs[all[s] - ones[s]] - logs[all[s] + 1];
  return sum;
}

/// Returns each node's best set of parents in an order, according to the table of scores.
inline std::vector<Key> best_sets(const Learning& problem, const std::vector<Name>& order, const float* scores,
                                  std::size_t pitch) {
  std::vector<Key> found(problem.nodes);
  memory::parallel_for(problem.nodes, 1, [&](std::size_t first, std::size_t last) {
    for (std::size_t x = first; x < last; ++x) {
      std::vector<unsigned> before;
      for (const Name* node = order.data(); *node != x; ++node) before.push_back(*node - (*node > x ? 1u : 0u));
      std::ranges::sort(before);
      found[x] = key_of(scores[x * pitch], 0);
      const auto walk = [&](const auto& self, std::size_t end, unsigned size, unsigned rank) -> void {
        for (std::size_t i = 0; i < end; ++i) {
          if (size > 1) self(self, i, size - 1, rank + choose(before[i], size));
          if (size == 1) found[x] = std::max(found[x], key_of(scores[x * pitch + rank + before[i]], rank + before[i]));
        }
      };
      for (unsigned size = 1; size <= 4; ++size) walk(walk, before.size(), size, problem.sets().start(size));
    }
  });
  return found;
}

/// Returns the number of rounds with a wrong score. The right score of a round follows from its order and the table of
/// scores; its order follows from the scores of the previous rounds. Checks all rounds if that is cheap, otherwise only
/// the first, the last and the best. The sets of the best round are checked as well.
inline double wrong_rounds(const Learning& problem, const float* scores, std::size_t pitch,
                           std::span<const double> candidates, std::span<const Key> graph) {
  const double looks = static_cast<double>(problem.nodes) * problem.sets().count();
  const bool every = looks * static_cast<double>(candidates.size()) < 0x1p28;
  const auto best = static_cast<std::size_t>(std::ranges::max_element(candidates) - candidates.begin());
  std::vector<Name> order(problem.nodes);
  std::iota(order.begin(), order.end(), Name{0});
  double wrong = 0, score = 0;
  for (std::size_t round = 0; round < candidates.size(); ++round) {
    auto proposal = order;
    problem.swaps(round).make(proposal.data());
    if (every || round == 0 || round + 1 == candidates.size() || round == best) {
      const auto found = best_sets(problem, proposal, scores, pitch);
      const bool right = total(found.data(), problem.nodes) == candidates[round];
      if (!right || (round == best && !std::ranges::equal(found, graph))) ++wrong;
    }
    if (round == 0 || candidates[round] - score > problem.worse(round)) order = proposal, score = candidates[round];
  }
  return wrong;
}

}  // namespace isthmus::apps::learning
