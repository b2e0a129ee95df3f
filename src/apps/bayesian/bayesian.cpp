// Learning of a Bayesian network. The program scores each node with each set of up to four parents. It then searches
// for the order of the nodes with the highest total score, where each node gets the best of the sets that precede it.

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "apps/bayesian/learning.hpp"
#include "apps/modes.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {
namespace {

using namespace learning;
using namespace workload;
constexpr unsigned threads = 256, at_once = 8;        // threads per block; nodes that are scored between two barriers
constexpr unsigned ring = 2, segments_a_block = 128;  // tiles in the ring; segments of scores per block
constexpr double unit = 0x1p-19;                      // unit of integer logarithms, whose sums are exact in any order

/// Computes the pair a < b that has this number; pairs are numbered by b, then by a.
__host__ __device__ inline void pair_of(unsigned number, unsigned& a, unsigned& b) {
  unsigned end = 1u << 9;
  for (b = 1; end - b > 1;) {
    const unsigned middle = (b + end) / 2;
    (choose(middle, 2) <= number ? b : end) = middle;
  }
  a = number - choose(b, 2);
}

struct Problem {
  unsigned nodes, rows;
  std::size_t pitch;  // pitch of the scores, which have one row per node
  const Word* bits;
  const int* logs;  // ln i! for each i, in multiples of `unit`
  __device__ Sets sets() const { return {nodes - 1}; }
  __device__ const Word* line(unsigned node) const { return bits + (node + 1) * words_pitch; }
};
/// Line of bits, as in learning.hpp, in registers.
struct Line {
  alignas(16) Word word[words_pitch];
  Line() = default;
  __device__ explicit Line(const Word* from) {
#pragma unroll
    for (unsigned w = 0; w < words_pitch; w += 4)
      *reinterpret_cast<uint4*>(word + w) = *reinterpret_cast<const uint4*>(from + w);
  }
};

/// Two numbers of matching rows in each member: the low half counts all rows, the high half only those with c = 1.
/// `with_d` counts only rows with d = 1.
struct Counts {
  unsigned any_d, with_d;
  __device__ Counts operator-(const Counts& other) const { return {any_d - other.any_d, with_d - other.with_d}; }
};
struct Outer {
  Word c[words], d[words];
};
/// Counts the rows in which both lines have a 1.
__device__ inline Counts counts(const Line& one, const Line& other, const Outer& outer) {
  unsigned n[4] = {};
#pragma unroll
  for (unsigned w = 0; w < words; ++w) {
    const Word both = one.word[w] & other.word[w];
    n[0] += static_cast<unsigned>(__popc(both));
    n[1] += static_cast<unsigned>(__popc(both & outer.c[w]));
    n[2] += static_cast<unsigned>(__popc(both & outer.d[w]));
    n[3] += static_cast<unsigned>(__popc(both & outer.c[w] & outer.d[w]));
  }
  return {n[0] + (n[1] << 16), n[2] + (n[3] << 16)};
}

// for (x in nodes)
//   for (each set of up to four others) scores[x][set] = Σ over the parents' states s of
//     ln all[s, x = 0]! + ln all[s, x = 1]! - ln (all[s] + 1)!
//
// All sets of a block share the parents c and d, and each thread has a pair a < b < c. A state that never occurs adds
// nothing, so a missing parent is treated as a node that is always 0. d may be missing, or both c and d; in the latter
// case b, or a and b, may be missing as well.
struct Four {
  const Problem& problem;
  unsigned a, b, c, d, limit;  // parents, missing unless below problem.nodes; a and b are below `limit`
  bool there;
  Line ab{};
  int sum_of_all = 0;
  unsigned all[8] = {};  // numbers of rows per state of a, b and d: with c = 0 (low half) and c = 1 (high half)

  __device__ explicit Four(const Problem& problem_) : problem(problem_) {
    const unsigned nodes = problem.nodes, both = choose(nodes, 2);
    pair_of(blockIdx.y, c, d);
    if (blockIdx.y >= both) c = blockIdx.y - both, d = nodes;
    limit = c < nodes ? c : nodes + 2;
    pair_of(blockIdx.x * threads + threadIdx.x, a, b);
    there = b < limit && (b <= nodes || a == nodes);
    if (!there) return;
    const Line of_a(problem.line(a)), of_b(problem.line(b));
#pragma unroll
    for (unsigned w = 0; w < words; ++w) ab.word[w] = of_a.word[w] & of_b.word[w];
  }

  /// Counts, for each state of the parents, the rows whose node is 1. The number of rows with exactly these parents set
  /// follows by subtraction from the numbers of rows with at least these parents set.
  __device__ void states(const Line& own, const Outer& outer, const Counts* with, unsigned (&out)[8]) const {
    const Counts both = counts(own, ab, outer);
    const Counts of_a = with[a + 1] - both, of_b = with[b + 1] - both;
    const Counts just[4] = {with[0] - of_a - of_b - both, of_a, of_b, both};
#pragma unroll
    for (unsigned s = 0; s < 4; ++s) {
      const unsigned without_d = just[s].any_d - just[s].with_d, with_d = just[s].with_d;
      out[s] = without_d - (without_d >> 16);
      out[s + 4] = with_d - (with_d >> 16);
    }
  }
  __device__ unsigned rank(unsigned x) const {
    const auto other = [x](unsigned node) { return node - (node > x ? 1 : 0); };
    const unsigned nodes = problem.nodes, size = d < nodes ? 4 : c < nodes ? 3 : b < nodes ? 2 : a < nodes ? 1 : 0;
    return problem.sets().start(size) + (size > 3 ? choose(other(d), 4) : 0) + (size > 2 ? choose(other(c), 3) : 0) +
           (size > 1 ? choose(other(b), 2) : 0) + (size > 0 ? other(a) : 0);
  }
  /// Writes the score of line `number`. Line 0, which is all ones, must be passed first: it sets `all` and
  /// `sum_of_all`.
  __device__ void score(unsigned number, const Outer& outer, const Counts* with, const int* logs, float* scores) {
    unsigned ones[8];
    const unsigned x = number - 1;
    if (number > 0 && (x == a || x == b || x == c || x == d)) return;
    states(Line(problem.line(x)), outer, with, ones);
    if (number == 0) {
#pragma unroll
      for (unsigned s = 0; s < 8; ++s) {
        all[s] = ones[s];
        sum_of_all += logs[(all[s] & 0xffff) + 1] + logs[(all[s] >> 16) + 1];
      }
      return;
    }
    int sum = -sum_of_all;
#pragma unroll
    for (unsigned s = 0; s < 8; ++s) {
      const unsigned zeros = all[s] - ones[s];
      sum += logs[ones[s] & 0xffff] + logs[ones[s] >> 16] + logs[zeros & 0xffff] + logs[zeros >> 16];
    }
    scores[x * problem.pitch + rank(x)] = static_cast<float>(sum) * static_cast<float>(unit);
  }
};

__global__ void __launch_bounds__(threads, 2) bayesian_scores(Problem problem, float* scores) {
  __shared__ int logs[most_rows + 2];
  __shared__ Outer outer;
  __shared__ Counts
      with[at_once][most_nodes + 3];  // rows in which a line is 1: in all, and together with each node below the limit
  Four four(problem);
  if (blockIdx.x * threads >= choose(four.limit, 2)) return;
  for (unsigned i = threadIdx.x; i < problem.rows + 2; i += threads) logs[i] = problem.logs[i];
  if (threadIdx.x < words) {
    outer.c[threadIdx.x] = problem.line(four.c)[threadIdx.x];
    outer.d[threadIdx.x] = problem.line(four.d)[threadIdx.x];
  }
  for (unsigned first = 0; first <= problem.nodes; first += at_once) {
    const unsigned left = problem.nodes + 1 - first, count = left < at_once ? left : at_once;
    __syncthreads();
    for (unsigned i = threadIdx.x; i < count * (four.limit + 1); i += threads) {
      const unsigned k = i / (four.limit + 1), other = i % (four.limit + 1);
      with[k][other] =
          counts(Line(problem.bits + (first + k) * words_pitch), Line(problem.bits + other * words_pitch), outer);
    }
    __syncthreads();
    for (unsigned k = 0; four.there && k < count; ++k) four.score(first + k, outer, with[k], logs, scores);
  }
}

struct State {
  Name order[most_nodes], proposal[most_nodes], place[most_nodes];  // accepted; proposed; places in the proposal
  double score, best;                                               // scores of the accepted and of the best order
};

constexpr unsigned pair_words = ((most_nodes - 1) * (most_nodes - 2) / 2 + 31) / 32;
struct Consistent {
  Word pairs[pair_words];            // bit per pair a < b, set if both precede the node
  std::uint16_t before[most_nodes];  // the other nodes that precede the node
  bool comes[most_nodes];
};

/// Search for a node's best set among those whose members all precede it. The scores of sets with the same c and d are
/// contiguous and in the order of their pairs; they form a segment.
struct Best {
  Sets sets;
  const float* scores;
  const Consistent& consistent;
  unsigned kept = 0;  // number of nodes that precede the node
  Key best = 0;

  __device__ Best(const Problem& problem, const State* state, const float* all_scores, Consistent& to)
      : sets(problem.sets()), scores(all_scores + blockIdx.y * problem.pitch), consistent(to) {
    const unsigned mine = threadIdx.x, x = blockIdx.y;
    to.comes[mine] = mine < sets.others && state->place[node_of(mine, x)] < state->place[x];
    __syncthreads();
    unsigned number = 0;
    for (unsigned y = 0; y < sets.others; ++y) {
      number += y < mine && to.comes[y] ? 1 : 0;
      kept += to.comes[y] ? 1 : 0;
    }
    if (to.comes[mine]) to.before[number] = static_cast<std::uint16_t>(mine);
    for (unsigned w = mine; 32 * w < choose(sets.others, 2); w += threads) {
      unsigned a, b;
      pair_of(32 * w, a, b);
      Word bits = 0;
      for (unsigned i = 0; i < 32 && b < sets.others; ++i) {
        bits |= to.comes[a] && to.comes[b] ? 1u << i : 0;
        if (++a == b) a = 0, ++b;
      }
      to.pairs[w] = bits;
    }
    if (mine == 0) best = key_of(scores[0], 0);
    if (to.comes[mine]) look(1 + mine, scores[1 + mine]);
    __syncthreads();
  }

  __device__ unsigned segments() const { return choose(kept, 2) + kept + 1; }
  /// Returns where a segment begins and sets `length` to its number of scores. Segments exist for each pair of c and d,
  /// for each c without d, and for neither.
  __device__ unsigned segment(unsigned number, unsigned& length) const {
    const unsigned both = choose(kept, 2);
    length = choose(sets.others, 2);
    if (number == both + kept) return sets.start(2);
    unsigned i = number - both, j = 0;
    if (number < both) pair_of(number, i, j);
    const unsigned c = consistent.before[i];
    length = choose(c, 2);
    return choose(c, 3) + (number < both ? sets.start(4) + choose(consistent.before[j], 4) : sets.start(3));
  }
  __device__ bool allowed(unsigned pair) const { return (consistent.pairs[pair / 32] >> pair % 32 & 1) != 0; }
  __device__ void look(unsigned rank, float score) {
    const Key key = key_of(score, rank);
    best = key > best ? key : best;
  }
  /// Combines the threads' results; all threads must call it.
  __device__ void finish(Key* found) {
    for (int half = device::warp_size() / 2; half > 0; half /= 2) {
      const Key other = device::shuffle_down(device::full_warp(), best, static_cast<unsigned>(half));
      best = other > best ? other : best;
    }
    if (device::lane() == 0 && best != 0) atomicMax(found + blockIdx.y, best);
  }
};

// for (x in nodes)
//   for (each set whose members come before x) found[x] = max(found[x], its score)
// A warp processes one segment at a time.
__global__ void __launch_bounds__(threads)
    bayesian_best(Problem problem, unsigned, const State* state, const float* __restrict__ scores, Key* found) {
  __shared__ Consistent consistent;
  Best best(problem, state, scores, consistent);
  const auto lanes = static_cast<unsigned>(device::warp_size()), warps = threads / lanes;
  for (unsigned number = blockIdx.x * warps + static_cast<unsigned>(device::warp_in_block()); number < best.segments();
       number += gridDim.x * warps) {
    unsigned length = 0;
    const unsigned first = best.segment(number, length);
#pragma unroll 4
    for (unsigned pair = static_cast<unsigned>(device::lane()); pair < length; pair += lanes)
      if (best.allowed(pair)) best.look(first + pair, best.scores[first + pair]);
  }
  best.finish(found);
}
// Does the same as bayesian_best, with the segments copied into shared memory in parts. Copies begin at multiples of 16
// bytes, so they may include up to three scores before the part.
template <TileStaging staging, unsigned depth>
__global__ void __launch_bounds__(threads)
    bayesian_best_staged(Problem problem, unsigned part, const State* state, const float* scores, Key* found) {
  __shared__ Consistent consistent;
  __shared__ BulkBarrier arrived[device::pipeline_barriers<staging, depth>];
  float* tiles = device::dynamic_shared<float>();
  Best best(problem, state, scores, consistent);
  const unsigned all = best.segments(), mine = blockIdx.x < all ? (all - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
  const unsigned parts = (choose(problem.nodes - 1, 2) + part - 1) / part;
  const auto use = [&](std::uint64_t number, auto act) {
    unsigned length = 0;
    const auto tile = static_cast<unsigned>(number), begin = tile % parts * part;
    const unsigned first = best.segment(blockIdx.x + tile / parts * gridDim.x, length) + begin;
    if (begin < length) act(first, begin, length - begin < part ? length - begin : part);
  };
  device::TilePipeline<staging, depth, threads> pipeline(arrived);
  pipeline.run(
      std::uint64_t{mine} * parts,
      [&](auto& copier, unsigned stage, std::uint64_t tile) {
        use(tile, [&](unsigned first, unsigned, unsigned count) {
          copier.run(tiles + stage * (part + 4), best.scores + first / 4 * 4, first % 4 + count);
        });
      },
      [&](unsigned stage, std::uint64_t tile) {
        use(tile, [&](unsigned first, unsigned begin, unsigned count) {
          for (unsigned i = threadIdx.x; i < count; i += threads)
            if (best.allowed(begin + i)) best.look(first + i, tiles[stage * (part + 4) + first % 4 + i]);
        });
      });
  best.finish(found);
}

/// Decision on whether an order with this score is accepted; `known` if the host has already decided.
struct Verdict {
  double worse, score;  // largest drop in score that is still accepted, as a negative number; the score
  bool known, accepted, best;
  __host__ __device__ void decide(bool first, double now, double& accepted_score, double& best_score) {
    score = now;
    accepted = first || now - accepted_score > worse;
    best = first || now > best_score;
    if (accepted) accepted_score = now;
    if (best) best_score = now;
  }
};

__global__ void bayesian_propose(bool first, Swaps swaps, State* state, Key* found) {
  const unsigned i = threadIdx.x;
  state->proposal[i] = first ? static_cast<Name>(i) : state->order[i];
  found[i] = 0;
  __syncthreads();
  if (i == 0) swaps.make(state->proposal);
  __syncthreads();
  state->place[state->proposal[i]] = static_cast<Name>(i);
}
__global__ void bayesian_accept(unsigned nodes, unsigned round, Verdict verdict, State* state, const Key* found,
                                Key* graph, double* candidates) {
  __shared__ Verdict made;
  const unsigned i = threadIdx.x;
  if (i == 0) {
    if (!verdict.known) verdict.decide(round == 0, total(found, nodes), state->score, state->best);
    candidates[round] = verdict.score;
    made = verdict;
  }
  __syncthreads();
  if (made.accepted) state->order[i] = state->proposal[i];
  if (made.best && i < nodes) graph[i] = found[i];
}

void bayesian(Case& c) {
  const std::size_t nodes = c.extent("nodes"), rows = c.extent("rows"), rounds = c.extent("rounds");
  refuse_if(nodes < 2, "an order of one node cannot change: choose at least 2 nodes");
  refuse_if(nodes > most_nodes, "a node's name is one byte and sets are counted in 32 bits: choose at most 256 nodes");
  refuse_if(rows > most_rows, "a node's bits are kept in 19 registers of 32 bits: choose at most 608 rows");
  refuse_if(rounds >> 31 != 0, "rounds are counted in 32 bits: choose fewer than 2^31");
  const std::size_t part = (c.extent("part") + 3) / 4 * 4;
  refuse_if(part > c.device().shared_per_block / (2 * ring * sizeof(float)),
            "tiles of this size do not fit into half of a block's shared memory: choose a smaller part");
  const Learning problem{c.seed(), static_cast<unsigned>(nodes), static_cast<unsigned>(rows)};
  const auto sets = problem.sets();
  using Data = std::vector<std::uint8_t>;
  const auto data = c.shared<Data>("data", nodes * rows, [=] { return problem.data(); });
  auto bits = c.input<Word>("bits", (nodes + 3) * words_pitch, [=](std::size_t i) { return problem.packed(*data, i); });
  auto logs = c.input<int>("logarithms", rows + 2, [exact = problem.logs()](std::size_t i) {
    return static_cast<int>(std::lround(exact[i] / unit));
  });
  auto scores = c.output_matrix<float>("scores", nodes, sets.count());
  auto candidates = c.output<double>("candidates", rounds + 1);  // score of each round's order
  auto graph = c.output<Key>("graph", nodes);                    // sets of the best order
  auto found = c.scratch<Key>("found", most_nodes);
  auto state = c.scratch<State>("state", 1);
  c.verify(
      scores,
      [=, exact = problem.logs(), count = sets.count()](std::size_t i) {
        return counted(problem, *data, exact, static_cast<unsigned>(i / count), static_cast<unsigned>(i % count));
      },
      {.absolute = 48 * unit / 2, .relative = 0x1p-23}, "direct count of the rows");
  c.verify(
      "orders, by the table of scores",
      [=] {
        return wrong_rounds(problem, scores.host(), scores.pitch(), {candidates.host(), rounds + 1},
                            {graph.host(), nodes});
      },
      0);
  c.verify_same(scores);
  c.verify_same(candidates);
  c.verify_same(graph);
  c.repeats(rounds + 1);

  const bool on_host = c.choice("loop") == "host";
  const auto measure = [&](auto best, std::size_t shared_bytes) {
    double consistent = 0;
    for (unsigned before = 0; before < nodes; ++before) consistent += Sets{before}.count();
    const auto accepted = std::make_shared<std::pair<double, double>>();  // the host's scores: accepted order, best
    c.measure(on_host ? Control::waits : Control::queued, [=](Run& run) {
      const auto count = static_cast<unsigned>(nodes), segments = choose(count - 1, 2) + count;
      const Problem shape{count, static_cast<unsigned>(rows), scores.pitch(), bits.device(), logs.device()};
      const std::size_t round = run.repeat();
      if (round == 0)
        run.launch(
            ISTHMUS_KERNEL(bayesian_scores),
            {.grid = {(choose(count + 2, 2) + threads - 1) / threads, choose(count, 2) + count + 1}, .block = threads},
            {.bytes_written = 4.0 * static_cast<double>(nodes) * sets.count()}, shape, scores.device());
      run.launch(ISTHMUS_KERNEL(bayesian_propose), {.block = most_nodes}, {}, round == 0, problem.swaps(round),
                 state.device(), found.device());
      run.launch(best,
                 {.grid = {(segments + segments_a_block - 1) / segments_a_block, count},
                  .block = threads,
                  .shared_bytes = shared_bytes},
                 {.bytes_read = 4 * consistent}, shape, part, state.device(), scores.device(), found.device());
      Verdict verdict{};
      verdict.worse = problem.worse(round);
      if (on_host) {
        const auto keys = run.read(found, 0, nodes);
        verdict.known = true;
        verdict.decide(round == 0, total(keys.data(), count), accepted->first, accepted->second);
      }
      run.launch(ISTHMUS_KERNEL(bayesian_accept), {.block = most_nodes}, {}, count, round, verdict, state.device(),
                 found.device(), graph.device(), candidates.device());
    });
  };
  if (c.staging() == Staging::none) return measure(ISTHMUS_KERNEL(bayesian_best), 0);
  with_staging<ring>(c, [&](auto how, auto depth) {
    if constexpr (how() != TileStaging::bulk)
      measure(Kernel{"bayesian_best_staged", bayesian_best_staged<how(), depth()>},
              depth() * (part + 4) * sizeof(float));
  });
}

const Registration registration =
    paper_program("apps/bayesian", bayesian, "UVMBench's bayesian", {{"loop", "host"}})
        .no_flops()
        .summary("learning of a Bayesian network: scores of all sets of up to four parents, then a search over orders")
        .stagings({Staging::none, Staging::direct, Staging::async})
        .axis(number_axis("nodes", "nodes of the network", 30))
        .axis(number_axis("rows", "rows of the data", 600))
        .axis(number_axis("rounds", "orders that are tried after the first", 100))
        .axis(how(number_axis("part", "scores per staged tile", 2048)))
        .axis(loop_axis("where it is decided whether an order is accepted"))
        .sizes({"nodes"}, {7, 20, 30, 40, 50, 125})
        .size("tiny", {{"rounds", 5}});

}  // namespace
}  // namespace isthmus::apps
