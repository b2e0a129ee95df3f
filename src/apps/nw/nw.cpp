// Needleman-Wunsch: the scores of all prefixes of two sequences, aligned with each other, in one launch.

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "apps/modes.hpp"
#include "device/relaxed.hpp"
#include "memory/parallel.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;
using device::BulkBarrier;

using Score = std::int32_t;
constexpr Score penalty = 10;  // of a symbol that has no counterpart
constexpr unsigned symbols = 10;
// BLOSUM62 for R N D C Q E G H I L, which are the original's symbols 1 to 10.
constexpr Score blosum62[symbols][symbols] = {
    {5, 0, -2, -3, 1, 0, -2, 0, -3, -2},    {0, 6, 1, -3, 0, 0, 0, 1, -3, -3},
    {-2, 1, 6, -3, 0, 2, -1, -1, -3, -4},   {-3, -3, -3, 9, -3, -4, -3, -3, -1, -1},
    {1, 0, 0, -3, 5, 2, -2, 0, -3, -2},     {0, 0, 2, -4, 2, 5, -2, 0, -3, -3},
    {-2, 0, -1, -3, -2, -2, 6, -2, -4, -4}, {0, 1, -1, -3, 0, 0, -2, 8, -3, -3},
    {-3, -3, -3, -1, -3, -3, -4, -3, 4, 2}, {-2, -3, -4, -1, -2, -3, -4, -3, 2, 4},
};

// A strip of the matrix is as wide as `lanes` lanes with `own` columns each.
constexpr int lanes = 32, own = 4, width = lanes * own;
constexpr int height = 64, threads = 128;          // of a staged tile; of its block
constexpr unsigned ahead = 16, ahead_in_tile = 2;  // rows that a lane fetches before it needs them
constexpr unsigned ring = 2;

struct Problem {
  int rows, columns;
  std::size_t pitch;

  __host__ __device__ int strips() const { return (columns + width - 1) / width; }
};

/// The next strip that no block has taken. A strip waits for those before it only, which others work on already.
__device__ inline int take_strip(unsigned* taken) {
  __shared__ int strip;
  if (threadIdx.x == 0) strip = static_cast<int>(atomicAdd(taken, 1u));
  __syncthreads();
  return strip;
}

// A warp goes down a strip, each lane a row behind its left neighbour. What it carries is raised by a penalty for every
// row and column that lies behind it. So a gap costs nothing, edges are 0, and none is negative.
class Wave {
 public:
  __device__ Wave(const Problem& problem, int strip, Score* edges)
      : lane_(device::lane()),
        rows_(problem.rows),
        column_(strip * width + lane_ * own),
        edge_(edges + std::int64_t{strip} * problem.rows),
        first_(strip == 0),
        last_(strip + 1 == problem.strips()) {}

  __device__ int lane() const { return lane_; }

  /// The next `count` rows, from `top` on: read(r) gives what a lane's columns are worth there, write(r, scores) takes
  /// their scores. r counts from the first of these rows.
  template <unsigned Ahead, class Read, class Write>
  __device__ void go_down(int top, int count, Read read, Write write) {
    const auto there = [&](int r) { return r >= 0 && r < count && lane_ < lanes; };
    int4 worth[Ahead];
#pragma unroll
    for (unsigned k = 0; k < Ahead; ++k) {
      const int r = static_cast<int>(k) - lane_;
      worth[k] = there(r) ? read(r) : make_int4(0, 0, 0, 0);
    }
    for (int begin = 0; begin < count + lanes - 1; begin += Ahead) {
#pragma unroll
      for (unsigned k = 0; k < Ahead; ++k) {
        const int step = begin + static_cast<int>(k), r = step - lane_;
        if (step % lanes == 0 && step < count) await(top + step);
        Score left = device::shuffle_up(device::full_warp(), above_[own - 1], 1);
        const Score edge = device::shuffle(device::full_warp(), incoming_, step % lanes);
        if (lane_ == 0) left = edge;
        if (there(r)) {
          advance(left, worth[k]);
          write(r, scores(top + r));
          if (lane_ == lanes - 1 && !last_) atomicExch(edge_ + top + r, above_[own - 1]);
        }
        if (there(r + static_cast<int>(Ahead))) worth[k] = read(r + static_cast<int>(Ahead));
      }
    }
  }

 private:
  /// What comes in from the strip to the left in the next rows: poison is negative, and nothing that is there is.
  __device__ void await(int row) {
    const bool wanted = !first_ && lane_ < lanes && row + lane_ < rows_;
    const Score* mine = edge_ - rows_ + row + lane_;
    device::spin_until([&] {
      if (!wanted) return true;
      incoming_ = device::load_relaxed(mine);
      return incoming_ >= 0;
    });
  }
  __device__ void advance(Score left, const int4& worth) {
    const Score values[own] = {worth.x, worth.y, worth.z, worth.w};
    Score diagonal = corner_;
    corner_ = left;
#pragma unroll
    for (int j = 0; j < own; ++j) {
      const Score both = diagonal + values[j] + 2 * penalty, above = above_[j], more = both > above ? both : above;
      diagonal = above;
      above_[j] = left = more > left ? more : left;
    }
  }
  __device__ int4 scores(int row) const {
    const Score raised = penalty * (row + column_ + 2);
    return make_int4(above_[0] - raised, above_[1] - raised - penalty, above_[2] - raised - 2 * penalty,
                     above_[3] - raised - 3 * penalty);
  }

  int lane_, rows_, column_;
  Score* edge_;  // of the strip's last column, for the next strip
  bool first_, last_;
  Score above_[own] = {}, corner_ = 0, incoming_ = 0;
};

/// Rows are padded to whole vectors, but what pads the result is not written.
__device__ inline void store(Score* to, const int4& value, int room) {
  if (room >= own) {
    *reinterpret_cast<int4*>(to) = value;
    return;
  }
  if (room > 0) to[0] = value.x;
  if (room > 1) to[1] = value.y;
  if (room > 2) to[2] = value.z;
}

// for (i = 0; i < rows; ++i)
//   for (j = 0; j < columns; ++j)
//     score[i][j] = max(score[i-1][j-1] + worth[i][j], score[i][j-1] - penalty, score[i-1][j] - penalty)
//
// score[i][-1] = -penalty * (i + 1), score[-1][j] likewise. Each block is one warp.
__global__ void __launch_bounds__(2 * lanes) nw_plain(Problem problem, const Score* __restrict__ worth,
                                                      Score* __restrict__ score, Score* edges, unsigned* taken) {
  const int strip = take_strip(taken);
  Wave wave(problem, strip, edges);
  const int column = strip * width + wave.lane() * own, room = problem.columns - column;
  const auto at = [&](int r) { return static_cast<std::size_t>(r) * problem.pitch + static_cast<std::size_t>(column); };
  wave.go_down<ahead>(
      0, problem.rows,
      [&](int r) { return room > 0 ? *reinterpret_cast<const int4*>(worth + at(r)) : make_int4(0, 0, 0, 0); },
      [&](int r, const int4& value) { store(score + at(r), value, room); });
}

// The same, with tiles of the strip brought into shared memory. Scores take the place of what was there, and all
// threads write them out.
template <TileStaging staging, unsigned depth>
__global__ void __launch_bounds__(threads)
    nw_staged(Problem problem, const Score* worth, Score* __restrict__ score, Score* edges, unsigned* taken) {
  __shared__ BulkBarrier arrived[device::pipeline_barriers<staging, depth>];
  Score* tiles = device::dynamic_shared<Score>();
  const int strip = take_strip(taken), left = strip * width, padded = static_cast<int>(problem.pitch) - left;
  const auto columns = static_cast<unsigned>(padded < width ? padded : width);
  Wave wave(problem, strip, edges);
  const auto count = [&](std::uint64_t tile) {
    const int rest = problem.rows - static_cast<int>(tile) * height;
    return rest < height ? rest : height;
  };
  device::TilePipeline<staging, depth, threads> pipeline(arrived);
  pipeline.run(
      static_cast<std::uint64_t>((problem.rows + height - 1) / height),
      [&](auto& copier, unsigned stage, std::uint64_t tile) {
        const Score* corner = worth + tile * height * problem.pitch + left;
        copier.template rows<height, width>(tiles + stage * height * width, width,
                                            {0, static_cast<unsigned>(count(tile)), 0, columns},
                                            [&](unsigned r) { return corner + r * problem.pitch; });
      },
      [&](unsigned stage, std::uint64_t tile) {
        int4* cells = reinterpret_cast<int4*>(tiles + stage * height * width);
        if (device::warp_in_block() == 0) {
          int4* mine = cells + wave.lane();
          wave.template go_down<ahead_in_tile>(
              static_cast<int>(tile) * height, count(tile), [&](int r) { return mine[r * lanes]; },
              [&](int r, const int4& value) { mine[r * lanes] = value; });
        }
        __syncthreads();
        Score* corner = score + tile * height * problem.pitch + left;
        const unsigned vectors = static_cast<unsigned>(count(tile)) * lanes;
#pragma unroll 4
        for (unsigned v = threadIdx.x; v < vectors; v += threads) {
          const unsigned r = v / lanes, c = v % lanes * own;
          store(corner + r * problem.pitch + c, cells[v], problem.columns - left - static_cast<int>(c));
        }
      });
}

using Sequence = std::vector<std::uint8_t>;

void reference(const Sequence& down, const Sequence& across, std::span<Score> scores) {
  const std::size_t columns = across.size();
  const auto at = [&](std::size_t i, std::size_t j) {  // with a row and a column more, before the first
    return i == 0 || j == 0 ? -penalty * static_cast<Score>(i + j) : scores[(i - 1) * columns + j - 1];
  };
  for (std::size_t i = 1; i <= down.size(); ++i) {
    for (std::size_t j = 1; j <= columns; ++j)
      scores[(i - 1) * columns + j - 1] = std::max(
          {at(i - 1, j - 1) + blosum62[down[i - 1]][across[j - 1]], at(i, j - 1) - penalty, at(i - 1, j) - penalty});
  }
}

/// How far any score is from what follows from its neighbours. Where none is, all are right: row by row, from the
/// first.
double error_of(const Sequence& down, const Sequence& across, const Score* scores, std::size_t pitch) {
  std::vector<double> errors(down.size());
  memory::parallel_for(down.size(), 16, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      const Score *row = scores + i * pitch, *above = i > 0 ? row - pitch : nullptr;
      const auto edge = -penalty * static_cast<Score>(i);
      Score diagonal = edge, left = edge - penalty;
      std::int64_t error = 0;
      for (std::size_t j = 0; j < across.size(); ++j) {
        const Score up = i > 0 ? above[j] : -penalty * static_cast<Score>(j + 1);
        const Score right = std::max({diagonal + blosum62[down[i]][across[j]], left - penalty, up - penalty});
        error = std::max(error, std::abs(std::int64_t{row[j]} - right));
        diagonal = up;
        left = row[j];
      }
      errors[i] = static_cast<double>(error);
    }
  });
  return *std::max_element(errors.begin(), errors.end());
}

void nw(Case& c) {
  const std::size_t rows = c.extent("rows"), columns = c.extent("cols");
  if (rows > std::size_t{1} << 25 || columns > std::size_t{1} << 25)
    throw Skip("scores are counted in 32 bits: take at most 33554432 rows and columns", SkipKind::not_applicable);
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
  auto edges = c.scratch<Score>("edges", strips * rows);
  auto taken = c.scratch<unsigned>("taken", 1);
  if (rows * columns <= std::size_t{1} << 24)
    c.verify_all(score, [=](std::span<Score> scores) { reference(*down, *across, scores); });
  c.verify("every score from its neighbours", [=] { return error_of(*down, *across, score.host(), score.pitch()); }, 0);
  c.verify_same(score);

  const auto measure = [&](auto kernel, unsigned block, std::size_t tiles) {
    c.measure(Control::queued, [=](Run& run) {
      const double cells = static_cast<double>(rows) * static_cast<double>(columns);
      run.fill(edges, 0x80);
      run.fill(taken, 0);
      run.launch(kernel,
                 {.grid = static_cast<unsigned>(strips),
                  .block = block,
                  .shared_bytes = tiles * height * width * sizeof(Score)},
                 {.bytes_read = 4 * cells, .bytes_written = 4 * cells, .flops = 5 * cells}, problem, worth.device(),
                 score.device(), edges.device(), taken.device());
    });
  };
  if (c.staging() == Staging::none)
    return measure(ISTHMUS_KERNEL(nw_plain), static_cast<unsigned>(c.device().warp_size), 0);
  with_staging<ring>(c, [&](auto how, auto depth) {
    measure(device::Kernel{"nw_staged", nw_staged<how(), depth()>}, threads, depth());
  });
}

Workload workload() {
  Workload w("apps/nw", nw);
  w.version(1)
      .summary("Needleman-Wunsch: scores of all prefixes of two sequences, all diagonals in one launch")
      .source("pipelining-taco2025, Table 2 (Rodinia's nw)")
      .tags({"app", "modes"})
      .placements(memory::all_placements())
      .stagings({Staging::none, Staging::direct, Staging::async, Staging::bulk})
      .axis(number_axis("rows", "symbols of the first sequence", 4096))
      .axis(number_axis("cols", "symbols of the second sequence", 4096));
  for (const auto& [name, n] : {std::pair{"tiny", 512},
                                {"small", 1024},
                                {"medium", 4096},
                                {"large", 8192},
                                {"super", 20480},
                                {"mega", 40960}})  // the paper's super and mega
    w.size(name, {{"rows", n}, {"cols", n}});
  add_paper_preset(w);
  return w;
}

const Registration registration = workload();

}  // namespace
}  // namespace isthmus::apps
