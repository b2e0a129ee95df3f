// Tracking of points on the wall of a heart through a video. Each point's template is searched for in every frame.

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "apps/heartwall/formulas.hpp"
#include "apps/unified.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;
using namespace tracking;

// A block loads a tile of the frame, the window that it searches for a point's template. A thread multiplies `strip`
// rows of the template by the pixels under `strip` adjacent candidates, `strip` columns at a time.
constexpr int tile = side + 2 * most, pitch = 76;  // 19 words, so that adjacent rows are in different banks
constexpr int strip = 7, strips = reach / strip, parts = side / strip;
constexpr int threads = 448;
static_assert(reach % strip == 0 && side % strip == 0 && reach * strips * parts <= threads && candidates <= threads);

// Static arrays for form=static, in the sizes that the original program needs.
constexpr int most_rows = 609, most_columns = 590, most_points = 51;
__device__ Pixel static_frames_even[most_rows * most_columns];
__device__ Pixel static_frames_odd[most_rows * most_columns];
__device__ Pixel static_templates[most_points * pixels];

struct InBuffers {
  const Pixel* at;
  Pixel* all;
  __device__ const Pixel* frame() const { return at; }
  __device__ Pixel* templates() const { return all; }
};
struct InArrays {
  bool odd;
  __device__ const Pixel* frame() const { return odd ? static_frames_odd : static_frames_even; }
  __device__ Pixel* templates() const { return static_templates; }
};

// Copies each point's template from the first frame, where the user has placed the points.
template <class Memory>
__global__ void __launch_bounds__(threads)
    heartwall_start(Memory memory, Shape shape, const int* __restrict__ starts, int* __restrict__ tracks) {
  const int* start = starts + 2 * blockIdx.x;
  const Pixel* corner = memory.frame() + static_cast<std::ptrdiff_t>(start[0] - half) * shape.columns + start[1] - half;
  Pixel* own = memory.templates() + std::size_t{blockIdx.x} * pixels;
  for (int i = static_cast<int>(threadIdx.x); i < pixels; i += threads)
    own[i] = corner[static_cast<std::ptrdiff_t>(i / side) * shape.columns + i % side];
  if (threadIdx.x < 2) tracks[2 * blockIdx.x + threadIdx.x] = start[threadIdx.x];
}

/// Shared memory of a block: the search for one point in one frame.
struct Search {
  Pixel window[tile][pitch], known[side][side];
  int sums[tile][reach], squares[tile][reach];  // sums over the pixels of one window row that a candidate covers
  int products[candidates], template_sum;
  double scores[threads];
  int best[threads];

  /// Computes the sums along one row, of the window or of the template.
  __device__ void add_along(int row) {
    if (row < tile) {
      int sum = 0, square = 0;
      for (int c = 0; c < tile; ++c) {
        const int in = window[row][c], out = c < side ? 0 : window[row][c - side];
        sum += in - out;
        square += in * in - out * out;
        if (c + 1 < side) continue;
        sums[row][c + 1 - side] = sum;
        squares[row][c + 1 - side] = square;
      }
    } else if (row < tile + side) {
      int sum = 0;
      for (int c = 0; c < side; ++c) sum += known[row - tile][c];
      atomicAdd(&template_sum, sum);
    }
  }

  /// Adds the products of `strip` rows of the template with `strip` candidates. Each pixel of the window is read once
  /// for all of these candidates.
  __device__ void multiply(int number) {
    const int down = number % reach, across = number / reach % strips * strip,
              first = number / (reach * strips) * strip;
    if (first >= side) return;
    int sum[strip] = {};
    for (int r = first; r < first + strip; ++r) {
      const Pixel *from = window[r + down] + across, *own = known[r];
      int line[strip];
#pragma unroll
      for (int k = 0; k < strip; ++k) line[k] = from[k];
#pragma unroll 1
      for (int c = 0; c < side; c += strip) {
#pragma unroll
        for (int j = 0; j < strip; ++j) {
          const int pixel = own[c + j];
#pragma unroll
          for (int k = 0; k < strip; ++k) sum[k] += pixel * line[(j + k) % strip];
          line[j] = from[c + j + strip];
        }
      }
    }
#pragma unroll
    for (int k = 0; k < strip; ++k) atomicAdd(&products[down * reach + across + k], sum[k]);
  }

  __device__ void judge(const Shape& shape, const Place& last, int number) {
    const int down = number / reach, across = number % reach;
    const Place there{last.row + down - most, last.column + across - most};
    double score = -std::numeric_limits<double>::infinity();
    if (number < candidates && may_move(down - most, across - most) && shape.holds(there)) {
      int sum = 0, square = 0;
      for (int r = down; r < down + side; ++r) {
        sum += sums[r][across];
        square += squares[r][across];
      }
      score = score_of(template_sum, sum, square, products[number]);
    }
    scores[number] = score;
    best[number] = number;
  }

  /// Returns the candidate with the largest score, the first if several have it.
  __device__ int choose(int number) {
    for (int width = 256; width > 0; width /= 2) {
      __syncthreads();
      const int other = number + width;
      if (number >= width || other >= threads) continue;
      if (scores[other] < scores[number] || (scores[other] == scores[number] && best[other] > best[number])) continue;
      scores[number] = scores[other];
      best[number] = best[other];
    }
    __syncthreads();
    return best[0];
  }
};

// for (p = 0; p < points; ++p) {
//   for (candidate : around(tracks[frame - 1][p]))
//     if (may_move(candidate) && holds(candidate)) score[candidate] = correlation(templates[p], frame, candidate);
//   tracks[frame][p] = the candidate of the largest score;
//   if (frame % renewal == 0) templates[p] = renewed(templates[p], frame, tracks[frame][p]);
// }
template <class Memory>
__global__ void __launch_bounds__(threads) heartwall_follow(Memory memory, Shape shape, int frame, int* tracks) {
  __shared__ Search search;
  const int thread = static_cast<int>(threadIdx.x);
  int* now = tracks + 2 * (static_cast<std::size_t>(frame) * static_cast<std::size_t>(shape.points()) + blockIdx.x);
  const int* before = now - 2 * shape.points();
  const Place last{before[0], before[1]};
  Pixel* templates = memory.templates() + std::size_t{blockIdx.x} * pixels;
  for (int i = thread; i < tile * tile; i += threads) {
    const int row = last.row - half - most + i / tile, column = last.column - half - most + i % tile;
    search.window[i / tile][i % tile] =
        memory.frame()[static_cast<std::ptrdiff_t>(max(0, min(row, shape.rows - 1))) * shape.columns +
                       max(0, min(column, shape.columns - 1))];
  }
  for (int i = thread; i < pixels; i += threads) search.known[i / side][i % side] = templates[i];
  if (thread < candidates) search.products[thread] = 0;
  if (thread == 0) search.template_sum = 0;
  __syncthreads();
  search.add_along(thread);
  search.multiply(thread);
  __syncthreads();
  search.judge(shape, last, thread);
  const int found = search.choose(thread), down = found / reach, across = found % reach;
  if (thread == 0) {
    now[0] = last.row + down - most;
    now[1] = last.column + across - most;
  }
  if (frame % renewal != 0) return;
  for (int i = thread; i < pixels; i += threads)
    templates[i] = renewed(search.known[i / side][i % side], search.window[i / side + down][i % side + across]);
}

void heartwall(Case& c) {
  const std::size_t frames = c.extent("frames"), rows = c.extent("rows"), columns = c.extent("cols");
  refuse_if(rows < 128 || columns < 128, "a wall and its templates need at least 128 rows and columns");
  refuse_if(rows > 1 << 15 || columns > 1 << 15, "a frame has at most 2^15 rows and columns");
  refuse_if(c.extent("inner") + c.extent("outer") > 1 << 20, "choose at most 2^20 points");
  refuse_if(frames > 1 << 20, "choose at most 2^20 frames");
  const Shape shape{static_cast<int>(rows), static_cast<int>(columns), static_cast<int>(c.extent("inner")),
                    static_cast<int>(c.extent("outer"))};
  const bool in_turn = c.choice("form") == "single", in_arrays = c.choice("form") == "static";
  refuse_if(in_arrays && (rows > most_rows || columns > most_columns || shape.points() > most_points),
            "static arrays have the size of the original's: choose at most 609 rows, 590 columns and 51 points");
  refuse_if(!in_turn && c.placement()->managed() && !c.device().concurrent_managed,
            "the host writes one frame while the GPU reads another, which this device's managed memory does not allow: "
            "choose form=single");
  const auto points = static_cast<std::size_t>(shape.points());
  auto video = c.shared<Video>("video", frames * shape.frame(),
                               [shape, frames, seed = c.seed()] { return Video(shape, frames, seed); });
  // Copy on the host that the video is read into, if it is read from a file.
  std::optional<Buffer<Pixel>> film;
  if (c.choice("data") == "written")
    film = c.on_host<Pixel>("film", frames * shape.frame(), [video](std::size_t i) { return video->pixels()[i]; });
  auto even = c.input<Pixel>("frame", shape.frame(), nullptr);
  auto odd = c.input<Pixel>("next frame", in_turn ? 1 : shape.frame(), nullptr);
  auto starts = c.input<int>("first places", 2 * points, [shape](std::size_t i) {
    const Place place = shape.start(static_cast<int>(i / 2));
    return i % 2 == 0 ? place.row : place.column;
  });
  auto tracks = c.output<int>("tracks", 2 * points * frames);
  auto templates = c.scratch<Pixel>("templates", in_arrays ? 1 : points * pixels);

  c.verify_all(tracks, [=](std::span<int> expected) { reference(shape, *video, frames, expected); });
  c.verify("the correlation's definition in double", [seed = c.seed()] { return score_error(seed); }, 1e-12);
  c.verify("the tissue's path", [=] { return distance_from_tissue(shape, frames, tracks.host()); }, 2);
  c.verify_same(tracks);
  c.repeats(frames);

  c.measure(Control::waits, [=](Run& run) {
    const std::size_t frame = run.repeat();
    const auto buffer = [&](std::size_t number) { return in_turn || number % 2 == 0 ? even : odd; };
    const auto prepare = [&](std::size_t number) {
      const auto pixels_of_all = film ? std::span<const Pixel>(film->host(), film->size()) : video->pixels();
      prepare_frame(shape, pixels_of_all, number, buffer(number).host());
    };
    // The host waits for the points' places in the previous frame, whose buffer is free after that.
    if (frame > 0) run.read(tracks, 2 * points * (frame - 1), 2 * points);
    if (in_turn || frame == 0) prepare(frame);
    const auto look = [&](auto memory) {
      using Memory = decltype(memory);
      const device::LaunchShape launch{.grid = static_cast<unsigned>(points), .block = threads};
      const auto bytes = [&](int of_point) { return static_cast<double>(points) * of_point; };
      if (frame == 0)
        run.launch(device::Kernel{"heartwall_start", heartwall_start<Memory>}, launch,
                   {.bytes_read = bytes(pixels), .bytes_written = bytes(pixels)}, memory, shape, starts.device(),
                   tracks.device());
      else
        run.launch(
            device::Kernel{"heartwall_follow", heartwall_follow<Memory>}, launch,
            {.bytes_read = bytes(tile * tile + pixels), .bytes_written = bytes(frame % renewal == 0 ? pixels : 0)},
            memory, shape, static_cast<int>(frame), tracks.device());
    };
    if (in_arrays) {
      const auto symbol = frame % 2 == 0 ? ISTHMUS_SYMBOL(static_frames_even) : ISTHMUS_SYMBOL(static_frames_odd);
      run.call("copy into an array", {}, [&](device::Stream& stream) {
        device::copy_to_symbol(symbol, buffer(frame).host(), shape.frame(), stream);
      });
      look(InArrays{frame % 2 == 1});
    } else {
      run.to_device(buffer(frame));
      look(InBuffers{buffer(frame).device(), templates.device()});
    }
    if (!in_turn && frame + 1 < frames) prepare(frame + 1);
  });
}

/// Returns the preset that runs the paper's versions v1 and v2.
Preset both_versions() {
  Preset preset = unified_preset();
  preset.sweep_axis = "form";
  preset.sweep = {"static", "double"};
  return preset;
}

const Registration registration = with_data(
    Workload("apps/heartwall", heartwall)
        .version(1)
        .summary("points on the wall of a heart followed through a video, prepared by the host frame by frame")
        .source("mi300a-upm-2025, Table II (Rodinia's heartwall)")
        .tags({"app", "mi300a"})
        .placements(memory::all_placements())
        .stagings({Staging::none})
        .no_flops()
        .axis(number_axis("frames", "frames of the video", 104))
        .axis(number_axis("rows", "rows of a frame", 609))
        .axis(number_axis("cols", "columns of a frame", 590))
        .axis(number_axis("inner", "points on the inside of the wall", 20))
        .axis(number_axis("outer", "points on its outside", 31))
        .axis(how(choice_axis("form",
                              "how frames are buffered: in two buffers, so that the host fills one while the GPU reads "
                              "the other; in one, used alternately; or in two, with static arrays on the device",
                              {"double", "single", "static"})))
        .preset(both_versions())
        .sizes({"frames"}, {12, 26, 52, 104, 208, 416}));

}  // namespace
}  // namespace isthmus::apps
