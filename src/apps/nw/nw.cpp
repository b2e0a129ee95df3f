// Needleman-Wunsch: one launch computes the alignment scores of all pairs of prefixes of two sequences.

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "apps/checks.hpp"
#include "apps/modes.hpp"
#include "device/kernel/relaxed.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;
using Score = std::int32_t;
constexpr Score penalty = 10;  // cost of a symbol that has no counterpart
constexpr unsigned symbols = 10;
// BLOSUM62 for R N D C Q E G H I L, which are symbols 1 to 10 of the original program.
constexpr Score blosum62[symbols][symbols] = {
    {5, 0, -2, -3, 1, 0, -2, 0, -3, -2},    {0, 6, 1, -3, 0, 0, 0, 1, -3, -3},
    {-2, 1, 6, -3, 0, 2, -1, -1, -3, -4},   {-3, -3, -3, 9, -3, -4, -3, -3, -1, -1},
    {1, 0, 0, -3, 5, 2, -2, 0, -3, -2},     {0, 0, 2, -4, 2, 5, -2, 0, -3, -3},
    {-2, 0, -1, -3, -2, -2, 6, -2, -4, -4}, {0, 1, -1, -3, 0, 0, -2, 8, -3, -3},
    {-3, -3, -3, -1, -3, -3, -4, -3, 4, 2}, {-2, -3, -4, -1, -2, -3, -4, -3, 2, 4},
};

// A strip of the matrix is as wide as `lanes` lanes with `own` columns each. In each step, a lane computes `deep` rows
// of its columns.
constexpr int lanes = 32, own = 4, width = lanes * own, deep = 4;
constexpr int steps = 16, threads = 256;       // steps per staged tile; threads per block of nw_staged
constexpr int ahead = 4, ahead_in_tile = 2;    // steps that a lane fetches ahead
constexpr int vectors = steps * deep * lanes;  // vectors of 16 bytes in a staged tile
constexpr unsigned ring = 2;

struct Problem {
  int rows, columns;
  std::size_t pitch;

  __host__ __device__ int strips() const { return (columns + width - 1) / width; }
  /// Returns the number of scores that a strip passes to the next one: the rows, rounded up to a multiple of `deep`.
  __host__ __device__ int handed() const { return (rows + deep - 1) / deep * deep; }
  /// Returns the number of steps until all lanes are done; each lane is one step behind its left neighbour.
  __host__ __device__ int waves() const { return (rows + deep - 1) / deep + lanes - 1; }
  /// Returns the row of the matrix nearest to `row`, for fetches whose result is not used.
  __device__ int nearest(int row) const { return row < 0 ? 0 : row < rows ? row : rows - 1; }
};

/// Takes the next strip that has not been taken by a block, and returns its number. A strip waits only for earlier
/// strips, which blocks are already processing, so there is no deadlock.
__device__ inline int take_strip(unsigned* taken) {
  __shared__ int strip;
  if (threadIdx.x == 0) strip = static_cast<int>(atomicAdd(taken, 1u));
  __syncthreads();
  return strip;
}

// State of a warp that moves down a strip, each lane one step behind its left neighbour. A score in it is raised by one
// penalty for every row and column before it, so that gaps cost nothing, edges are 0, and scores are never negative.
class Wave {
 public:
  __device__ Wave(const Problem& problem, int strip, Score* edges)
      : lane_(device::lane()),
        rows_(problem.rows),
        handed_(problem.handed()),
        column_(strip * width + lane_ * own),
        edge_(edges + std::int64_t{strip} * problem.handed()),
        first_(strip == 0),
        last_(strip + 1 == problem.strips()) {}

  __device__ int lane() const { return lane_; }
  /// Returns whether this lane has columns; a warp of 64 lanes uses half of them.
  __device__ bool at_work() const { return device::warp_size() == lanes || lane_ < lanes; }

  /// Does steps [begin, end). read(step, b) returns the worths of a lane's columns in row b of a step; write(step, b,
  /// row, scores) receives their scores. Both are also called for rows outside the matrix.
  template <int Ahead, class Read, class Write>
  __device__ void go_down(int begin, int end, Read read, Write write) {
    int4 worth[Ahead][deep];
    const auto fetch = [&](int4* to, int step) {
#pragma unroll
      for (int b = 0; b < deep; ++b) to[b] = read(step, b);
    };
#pragma unroll
    for (int k = 0; k < Ahead; ++k) fetch(worth[k], begin + k);
    for (int first = begin; first < end; first += Ahead) {
#pragma unroll
      for (int k = 0; k < Ahead; ++k) {
        const int step = first + k, row = deep * (step - lane_);
        if ((deep * step & (lanes - 1)) == 0) await(deep * step);
        device::sync_warp(device::full_warp());
        Score left[deep];
#pragma unroll
        for (int b = 0; b < deep; ++b) {
          left[b] = device::shuffle_up(device::full_warp(), right_[b], 1);
          const Score edge = device::shuffle(device::full_warp(), incoming_, (deep * step + b) & (lanes - 1));
          if (lane_ == 0) left[b] = edge;
        }
        if (row == 0) start();
#pragma unroll
        for (int b = 0; b < deep; ++b) {
          advance(b, left[b], worth[k][b]);
          write(step, b, row + b, scores(row + b));
        }
        if (lane_ == lanes - 1 && !last_ && row >= 0 && row < rows_) {
#pragma unroll
          for (int b = 0; b < deep; ++b) device::store_relaxed(edge_ + row + b, right_[b]);
        }
        fetch(worth[k], step + Ahead);
      }
    }
  }

 private:
  /// Waits for the scores of the next rows from the strip to the left. The buffer is initially negative, and scores are
  /// not, so a score is valid once it is not negative.
  __device__ void await(int row) {
    const bool wanted = !first_ && lane_ < lanes && row + lane_ < rows_;
    const Score* mine = edge_ - handed_ + row + lane_;
    device::spin_until([&] {
      if (!wanted) return true;
      incoming_ = device::load_relaxed(mine);
      return incoming_ >= 0;
    });
  }
  /// Sets the scores above the first row.
  __device__ void start() {
    corner_ = 0;
#pragma unroll
    for (int j = 0; j < own; ++j) above_[j] = 0;
  }
  __device__ void advance(int b, Score left, const int4& worth) {
    const Score values[own] = {worth.x, worth.y, worth.z, worth.w};
    Score diagonal = corner_;
    corner_ = left;
#pragma unroll
    for (int j = 0; j < own; ++j) {
      const Score both = diagonal + values[j] + 2 * penalty, above = above_[j], more = both > above ? both : above;
      diagonal = above;
      above_[j] = left = more > left ? more : left;
    }
    right_[b] = left;
  }
  __device__ int4 scores(int row) const {
    const Score raised = penalty * (row + column_ + 2);
    return make_int4(above_[0] - raised, above_[1] - raised - penalty, above_[2] - raised - 2 * penalty,
                     above_[3] - raised - 3 * penalty);
  }

  int lane_, rows_, handed_, column_;
  Score* edge_;  // scores of the strip's last column, for the next strip
  bool first_, last_;
  Score above_[own] = {}, right_[deep] = {}, corner_ = 0, incoming_ = 0;
};

// for (i = 0; i < rows; ++i)
//   for (j = 0; j < columns; ++j)
//     score[i][j] = max(score[i-1][j-1] + worth[i][j], score[i][j-1] - penalty, score[i-1][j] - penalty)
//
// The edges are score[i][-1] = -penalty * (i + 1), and likewise score[-1][j]. Rows are written with their padding to
// whole vectors. Each block is one warp.
__global__ void __launch_bounds__(2 * lanes) nw_plain(Problem problem, const Score* __restrict__ worth,
                                                      Score* __restrict__ score, Score* edges, unsigned* taken) {
  const int strip = take_strip(taken);
  Wave wave(problem, strip, edges);
  const int lane = wave.lane(), column = strip * width + lane * own;
  const bool mine = wave.at_work() && column < problem.columns;
  const Score* from = worth + (mine ? column : 0);
  Score* to = score + column;
  wave.go_down<ahead>(
      0, problem.waves(),
      [&](int step, int b) {
        const auto row = static_cast<std::size_t>(problem.nearest(deep * (step - lane) + b));
        return *reinterpret_cast<const int4*>(from + row * problem.pitch);
      },
      [&](int, int, int row, const int4& value) {
        if (mine && row >= 0 && row < problem.rows)
          *reinterpret_cast<int4*>(to + static_cast<std::size_t>(row) * problem.pitch) = value;
      });
}

// Does the same as nw_plain with tiles of the strip copied into shared memory. A tile is slanted like the wave: it has
// the rows that each lane processes in the same steps. Scores replace the inputs in place, and all threads write them
// out.
template <TileStaging staging, unsigned depth>
__global__ void __launch_bounds__(threads)
    nw_staged(Problem problem, const Score* worth, Score* __restrict__ score, Score* edges, unsigned* taken) {
  int4* tiles = device::dynamic_shared<int4>();
  const int strip = take_strip(taken), left = strip * width;
  Wave wave(problem, strip, edges);
  // Rows are stored in shared memory at their number in the matrix modulo the rows of a tile, so that the rows of
  // adjacent lanes are adjacent as in the matrix.
  const auto row_of = [](int tile, int v) {
    const int lane = v % lanes, begins = tile * steps - lane, step = (v / (deep * lanes) - begins) & (steps - 1);
    return deep * (begins + step) + v / lanes % deep;
  };
  device::TilePipeline<staging, depth, threads> pipeline(nullptr);
  pipeline.run(
      static_cast<std::uint64_t>((problem.waves() + steps - 1) / steps),
      [&](auto& copier, unsigned stage, std::uint64_t tile) {
        copier.gather(tiles + stage * vectors, vectors, [&](unsigned v) {
          const int row = problem.nearest(row_of(static_cast<int>(tile), static_cast<int>(v)));
          const int column = left + static_cast<int>(v) % lanes * own;
          return reinterpret_cast<const int4*>(worth + static_cast<std::size_t>(row) * problem.pitch +
                                               (column < problem.columns ? column : 0));
        });
      },
      [&](unsigned stage, std::uint64_t tile) {
        int4* cells = tiles + stage * vectors;
        const int begin = static_cast<int>(tile) * steps, lane = wave.lane() % lanes;
        const auto cell = [&](int step, int b) {
          return cells + (((step - lane) & (steps - 1)) * deep + b) * lanes + lane;
        };
        if (device::warp_in_block() == 0) {
          wave.template go_down<ahead_in_tile>(
              begin, begin + steps, [&](int step, int b) { return *cell(step, b); },
              [&](int step, int b, int, const int4& value) {
                if (wave.at_work()) *cell(step, b) = value;
              });
        }
        __syncthreads();
#pragma unroll 4
        for (int v = static_cast<int>(threadIdx.x); v < vectors; v += threads) {
          const int row = row_of(static_cast<int>(tile), v), column = left + v % lanes * own;
          if (row >= 0 && row < problem.rows && column < problem.columns)
            *reinterpret_cast<int4*>(score + static_cast<std::size_t>(row) * problem.pitch + column) = cells[v];
        }
      });
}

using Sequence = std::vector<std::uint8_t>;

/// Scores on the host. Rows and columns are numbered from 1; number 0 is the edge.
struct Table {
  const Sequence &down, &across;
  const Score* scores;
  std::size_t pitch;

  Score at(std::size_t i, std::size_t j) const {
    return i == 0 || j == 0 ? -penalty * static_cast<Score>(i + j) : scores[(i - 1) * pitch + j - 1];
  }
  Score by_neighbours(std::size_t i, std::size_t j) const {
    const Score pair = blosum62[down[i - 1]][across[j - 1]];
    return std::max({at(i - 1, j - 1) + pair, at(i, j - 1) - penalty, at(i - 1, j) - penalty});
  }
  /// Returns the largest difference between a score and the value that follows from its neighbours. If it is 0, all
  /// scores are right by induction from the edges.
  double error() const {
    return worst_of(down.size(), 16, [&](std::size_t row) {
      std::int64_t error = 0;
      for (std::size_t i = row + 1, j = 1; j <= across.size(); ++j)
        error = std::max(error, std::abs(std::int64_t{at(i, j)} - by_neighbours(i, j)));
      return static_cast<double>(error);
    });
  }
};

void nw(Case& c) {
  const std::size_t rows = c.extent("rows"), columns = c.extent("cols");
  refuse_if(rows > std::size_t{1} << 25 || columns > std::size_t{1} << 25,
            "scores are counted in 32 bits: choose at most 33554432 rows and columns");
  const auto sequence = [&](const char* name, std::uint64_t stream, std::size_t n) {
    return c.shared<Sequence>(name, n, [=, seed = c.seed()] {
      Sequence all(n);
      for (std::size_t i = 0; i < n; ++i)
        all[i] = static_cast<std::uint8_t>((hash(seed, stream, i) >> 32) * symbols >> 32);
      return all;
    });
  };
  const auto down = sequence("sequence of rows", 0, rows), across = sequence("sequence of columns", 1, columns);
  auto worth = c.input_matrix<Score>(
      "worth", rows, columns, [=](std::size_t i) { return blosum62[(*down)[i / columns]][(*across)[i % columns]]; });
  auto score = c.output_matrix<Score>("score", rows, columns);
  const Problem problem{static_cast<int>(rows), static_cast<int>(columns), worth.pitch()};
  const auto strips = static_cast<std::size_t>(problem.strips());
  auto edges = c.scratch<Score>("edges", strips * static_cast<std::size_t>(problem.handed()));
  auto taken = c.scratch<unsigned>("taken", 1);
  if (rows * columns <= std::size_t{1} << 24)
    c.verify_all(score, [=](std::span<Score> scores) {
      const Table table{*down, *across, scores.data(), columns};
      for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = table.by_neighbours(i / columns + 1, i % columns + 1);
    });
  c.verify(
      "every score from its neighbours", [=] { return Table{*down, *across, score.host(), score.pitch()}.error(); }, 0);
  c.verify_same(score);

  const auto measure = [&](auto kernel, int block, std::size_t tiles) {
    c.measure(Control::queued, [=](Run& run) {
      const double cells = static_cast<double>(rows) * static_cast<double>(columns);
      run.fill(edges, 0x80);
      run.fill(taken, 0);
      run.launch(kernel,
                 {.grid = static_cast<unsigned>(strips),
                  .block = static_cast<unsigned>(block),
                  .shared_bytes = tiles * vectors * sizeof(int4)},
                 {.bytes_read = 4 * cells, .bytes_written = 4 * cells, .flops = 5 * cells}, problem, worth.device(),
                 score.device(), edges.device(), taken.device());
    });
  };
  if (c.staging() == Staging::none) return measure(ISTHMUS_KERNEL(nw_plain), c.device().warp_size, 0);
  with_staging<ring>(c, [&](auto how, auto depth) {
    if constexpr (how() != TileStaging::bulk) measure(Kernel{"nw_staged", nw_staged<how(), depth()>}, threads, depth());
  });
}

const Registration registration =
    paper_program("apps/nw", nw, "Rodinia's nw")
        .summary("Needleman-Wunsch: scores of all prefixes of two sequences, all diagonals in one launch")
        .stagings({Staging::none, Staging::direct, Staging::async})
        .axis(number_axis("rows", "symbols of the first sequence", 4096))
        .axis(number_axis("cols", "symbols of the second sequence", 4096))
        .sizes({"rows", "cols"}, {512, 1024, 4096, 8192, 20480, 40960});

}  // namespace
}  // namespace isthmus::apps
