// Speckle-reducing anisotropic diffusion of an image. One pass computes the coefficients, the update, and the
// statistics that the next step needs.

#include <algorithm>
#include <functional>
#include <span>
#include <string>

#include "apps/modes.hpp"
#include "apps/srad/formulas.hpp"
#include "apps/unified.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;
using namespace diffusion;

// Size of a block's tile. Each group of 32 lanes moves down `height` rows of 128 columns, four per lane, and writes the
// cells inside the halo. A cell depends on cells up to one above and to the left, and up to two below and to the right.
// Across, the halo is a whole lane wide, so that accesses stay aligned.
constexpr int lanes = 32, threads = 128, stride = 4 * (lanes - 2);
constexpr int width = 4 * threads, written = threads / lanes * stride;  // columns read and written
constexpr int chunk = 8, chunks = 12, height = chunk * chunks, top_halo = 1, cut_rows = height - 3;
constexpr int ahead = 4;  // rows that a lane loads ahead
constexpr unsigned ring = 2;

__host__ __device__ inline unsigned tiles_across(const Image& image) {
  return static_cast<unsigned>((image.columns + written - 1) / written);
}
__host__ __device__ inline unsigned tiles_of(const Image& image) {
  return tiles_across(image) * static_cast<unsigned>((image.rows + cut_rows - 1) / cut_rows);
}

/// Position of a tile including its halo, and the range of its rows that are in the image.
struct Tile {
  std::int64_t top, left;
  int first_row, last_row;

  __device__ Tile(const Image& image, unsigned across, unsigned number)
      : top(std::int64_t{number / across} * cut_rows - top_halo),
        left(std::int64_t{number % across} * written - 4),
        first_row(top < 0 ? top_halo : 0),
        last_row(below(image.rows - top, height) - 1) {}
  static __device__ int below(std::int64_t value, int most) {
    return value < 0 ? 0 : value < most ? static_cast<int>(value) : most;
  }
  /// Returns the number of steps that a lane makes down the tile; completing a row needs the two rows below it.
  __device__ int steps() const { return last_row + 3 < height ? last_row + 3 : height; }
};

/// Adds the sums of all threads of a warp to `sums`.
__device__ inline void add_statistics(Sum sum, Sum squares, Sum* sums) {
  for (int half = device::warp_size() / 2; half > 0; half /= 2) {
    sum += device::shuffle_down(device::full_warp(), sum, static_cast<unsigned>(half));
    squares += device::shuffle_down(device::full_warp(), squares, static_cast<unsigned>(half));
  }
  if (device::lane() != 0 || sum == 0) return;
  atomicAdd(sums, sum);
  atomicAdd(sums + 1, squares);
}

// Computes the statistics of the input image.
__global__ void __launch_bounds__(threads) srad_statistics(Image image, const float* __restrict__ from, Sum* sums) {
  Sum sum = 0, squares = 0;
  for (std::int64_t r = blockIdx.x; r < image.roi_rows; r += gridDim.x) {
#pragma unroll 4
    for (std::int64_t c = threadIdx.x; c < image.roi_columns; c += threads) {
      const float value = from[static_cast<std::size_t>(r) * image.pitch + static_cast<std::size_t>(c)];
      sum += counted(value);
      squares += counted(value * value);
    }
  }
  add_statistics(sum, squares, sums);
}

// Kernels of version 1: srad_extract converts pixels to intensities and computes their statistics, srad_compress
// converts intensities back to pixels.
__global__ void __launch_bounds__(threads)
    srad_extract(Image image, const float* __restrict__ pixels, float* __restrict__ to, Sum* sums) {
  Sum sum = 0, squares = 0;
  for (std::int64_t r = blockIdx.x; r < image.rows; r += gridDim.x) {
#pragma unroll 4
    for (std::int64_t c = threadIdx.x; c < image.columns; c += threads) {
      const std::size_t at = static_cast<std::size_t>(r) * image.pitch + static_cast<std::size_t>(c);
      const float value = intensity_of(pixels[at]);
      to[at] = value;
      sum += counted(value);
      squares += counted(value * value);
    }
  }
  add_statistics(sum, squares, sums);
}
__global__ void __launch_bounds__(threads) srad_compress(Image image, float* values) {
  for (std::int64_t r = blockIdx.x; r < image.rows; r += gridDim.x) {
#pragma unroll 4
    for (std::int64_t c = threadIdx.x; c < image.columns; c += threads) {
      const std::size_t at = static_cast<std::size_t>(r) * image.pitch + static_cast<std::size_t>(c);
      values[at] = pixel_of(values[at]);
    }
  }
}

/// Returns the speckle of a step: computed from the statistics of its input image, or as already computed by the host.
__device__ inline Speckle speckle_now(const Image& image, const Sum* sums) {
  __shared__ Speckle speckle;
  if (threadIdx.x == 0) speckle = speckle_of(sums[0], sums[1], image.roi_cells());
  __syncthreads();
  return speckle;
}
__device__ inline Speckle speckle_now(const Image&, const Sum*, const Speckle& known) {
  return known;
}

struct Four {
  float of[4];
};

// for (r = 0; r < rows; ++r)
//   for (c = 0; c < columns; ++c) k[r][c] = coefficient_of(from[r][c], its four neighbours, speckle);
// for (r = 0; r < rows; ++r)
//   for (c = 0; c < columns; ++c) to[r][c] = updated(from[r][c], …, k[r][c], k[r+1][c], k[r][c+1]);
//
// State of a lane as it moves down its four columns of a tile. The coefficients of a row need the row below; once they
// are known, the update of their row begins and that of the row above is completed.
class Descent {
 public:
  __device__ Descent(const Image& image, const Speckle& speckle, float* to)
      : image_(image), speckle_(speckle), to_(to) {}

  /// Returns the offset of this thread's columns in a row of a tile.
  static __device__ int offset() {
    return static_cast<int>(threadIdx.x) / lanes * stride + static_cast<int>(threadIdx.x) % lanes * 4;
  }

  __device__ void enter(const Tile& tile) {
    const int lane = static_cast<int>(threadIdx.x) % lanes;
    column_ = tile.left + offset();
    inside_ = column_ >= 0 && column_ + 4 <= image_.columns;
    row_ = to_ + (tile.top - 2) * static_cast<std::int64_t>(image_.pitch) + column_;
    steps_ = tile.steps();
    columns_ = lane == 0 || lane == lanes - 1 ? 0 : Tile::below(image_.columns - column_, 4);
    roi_steps_ = tile.left < image_.roi_columns ? Tile::below(image_.roi_rows - tile.top + 2, height) : 0;
  }

  /// Returns this thread's part of a row; `at` is the address of its first column. Cells outside the image have the
  /// value at the edge.
  __device__ Four read(const float* at) const {
    Four four;
    if (inside_) {
      const float4 all = *reinterpret_cast<const float4*>(at);
      four = {{all.x, all.y, all.z, all.w}};
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const std::int64_t c = column_ + k;
        four.of[k] = at[(c < 0 ? 0 : c < image_.columns ? c : image_.columns - 1) - column_];
      }
    }
    return four;
  }

  /// Processes row `r` of the tile, which is `below`, and completes row r - 2. Results for row 0 and rows before it,
  /// which are halo, are not written.
  __device__ void step(int r, const Four& below) {
    const auto warp = device::full_warp();
    float across[5] = {device::shuffle_up(warp, own_.of[3], 1u), 0, 0, 0, device::shuffle_down(warp, own_.of[0], 1u)};
    across[4] -= own_.of[3];
    across[0] = own_.of[0] - across[0];
    Differences d[4];
    float c[5];
    Four next;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (k < 3) across[k + 1] = own_.of[k + 1] - own_.of[k];
      d[k] = {-up_.of[k], below.of[k] - own_.of[k], -across[k], across[k + 1]};
      c[k] = coefficient_of(own_.of[k], d[k], speckle_);
      next.of[k] = updated(above_.of[k], begun_.of[k], up_.of[k], c[k], speckle_);
    }
    c[4] = device::shuffle_down(warp, c[0], 1u);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      begun_.of[k] = begun(d[k], c[k], c[k + 1]);
      up_.of[k] = d[k].below;
    }
    above_ = own_;
    own_ = below;
    if (r > top_halo + 1 && r < steps_) write(r, next);
    row_ += image_.pitch;
  }

  __device__ const Four& own() const { return own_; }
  __device__ void leave(Sum* sums) {
    if (roi_steps_ > 0) add_statistics(sum_, squares_, sums);
    sum_ = squares_ = 0;
  }

 private:
  __device__ void write(int r, const Four& next) {
    if (columns_ == 4) {
      *reinterpret_cast<float4*>(row_) = make_float4(next.of[0], next.of[1], next.of[2], next.of[3]);
    } else {
#pragma unroll
      for (int k = 0; k < 3; ++k) {
        if (k < columns_) row_[k] = next.of[k];
      }
    }
    if (r >= roi_steps_) return;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (k >= columns_ || column_ + k >= image_.roi_columns) continue;
      sum_ += counted(next.of[k]);
      squares_ += counted(next.of[k] * next.of[k]);
    }
  }

  const Image& image_;
  const Speckle speckle_;
  float* const to_;
  float* row_ = nullptr;  // destination of row r - 2
  std::int64_t column_ = 0;
  bool inside_ = false;
  int steps_ = 0, columns_ = 0, roi_steps_ = 0;
  Four above_{}, begun_{}, own_{}, up_{};  // row r - 2, its begun update; row r - 1, its difference from row r - 2
  Sum sum_ = 0, squares_ = 0;
};

template <class... Known>  // empty, or the speckle computed by the host
__global__ void __launch_bounds__(threads, 7)
    srad_plain(Image image, const float* __restrict__ from, float* __restrict__ to, Sum* sums, Known... known) {
  const Tile tile(image, tiles_across(image), blockIdx.x);
  const auto pitch = static_cast<std::uint32_t>(image.pitch);
  const float* corner = from + tile.top * static_cast<std::int64_t>(pitch) + tile.left + Descent::offset();
  Descent descent(image, speckle_now(image, sums, known...), to);
  descent.enter(tile);
  for (int first = 0; first < tile.steps(); first += ahead) {
    Four rows[ahead];
#pragma unroll
    for (int j = 0; j < ahead; ++j) {
      const int r = first + j;
      const int inside = max(tile.first_row, min(r, tile.last_row));
      rows[j] = descent.read(corner + std::uint64_t{pitch} * static_cast<unsigned>(inside));
    }
#pragma unroll
    for (int j = 0; j < ahead; ++j) descent.step(first + j, rows[j]);
  }
  descent.leave(sums + 2);
}

// Does the same as srad_plain, with each block's tiles copied into shared memory one after the other, a few rows at a
// time.
template <TileStaging staging, unsigned buffers, class... Known>
__global__ void __launch_bounds__(threads, 6)
    srad_staged(Image image, const float* from, float* __restrict__ to, Sum* sums, Known... known) {
  __shared__ BulkBarrier arrived[device::pipeline_barriers<staging, buffers>];
  float* rows = device::dynamic_shared<float>();
  const unsigned across = tiles_across(image), mine = (tiles_of(image) - blockIdx.x + gridDim.x - 1) / gridDim.x;
  const auto tile_of = [&](std::uint64_t i) {
    return Tile(image, across, blockIdx.x + static_cast<unsigned>(i) / chunks * gridDim.x);
  };
  Descent descent(image, speckle_now(image, sums, known...), to);
  int first_row = 0, last_row = 0;
  device::TilePipeline<staging, buffers, threads> pipeline(arrived);
  pipeline.run(
      std::uint64_t{mine} * chunks,
      [&](auto& copier, unsigned stage, std::uint64_t i) {
        const Tile tile = tile_of(i);
        const int row = static_cast<int>(static_cast<unsigned>(i) % chunks) * chunk;
        const std::int64_t columns = (image.columns - tile.left + 3) / 4 * 4;
        // The rows are not clamped to 0…chunk, because nvcc 13.0 seems to combine such a clamp wrongly with the
        // copier's test for whole tiles (NOTES.md).
        const device::TileWindow window{row == 0 ? static_cast<unsigned>(tile.first_row) : 0,
                                        static_cast<unsigned>(min(max(tile.last_row + 1, row), row + chunk) - row),
                                        tile.left < 0 ? 4u : 0, static_cast<unsigned>(Tile::below(columns, width))};
        const float* corner = from + (tile.top + row) * static_cast<std::int64_t>(image.pitch) + tile.left;
        copier.template rows<chunk, width>(rows + stage * chunk * width, width, window,
                                           [&](unsigned r) { return corner + r * image.pitch; });
      },
      [&](unsigned stage, std::uint64_t i) {
        const int row = static_cast<int>(static_cast<unsigned>(i) % chunks) * chunk;
        if (row == 0) {
          const Tile tile = tile_of(i);
          descent.enter(tile);
          first_row = tile.first_row;
          last_row = tile.last_row;
        }
        const float* mine_in_row = rows + stage * chunk * width + Descent::offset();
#pragma unroll 4
        for (int j = 0; j < chunk; ++j) {
          const int at = max(j, first_row - row);
          descent.step(row + j, row + at <= last_row ? descent.read(mine_in_row + at * width) : descent.own());
        }
        if (row + chunk == height) descent.leave(sums + 2);
      });
}

/// Random pixels of 8 bits, like those of an image file.
struct Pixels {
  std::uint64_t seed;
  float operator()(std::size_t i) const { return static_cast<float>(hash(seed, 0, i) >> 56); }
};

/// Returns a reader of a plain PGM file: P2, width, height, the largest value, and pixels row by row. Comments may
/// precede the pixels.
std::function<void(std::span<float>)> open_image(const InputFile& from, std::size_t rows, std::size_t columns) {
  TextNumbers text(from, "use a plain PGM (P2), and set rows and cols to match it");
  const auto header = [&] {
    for (;;) {
      const auto word = text.word();
      if (!word.starts_with('#')) return word;
      text.line();
    }
  };
  if (header() != "P2") text.fail("it is not a plain PGM");
  const auto expect = [&](const char* what, std::size_t size) {
    if (text.number_of(header(), 1, 0x1p31f) != static_cast<float>(size))
      text.fail(std::string("the image has a different number of ") + what);
  };
  expect("columns", columns);
  expect("rows", rows);
  const float largest = text.number_of(header(), 1, 255);
  return numbers_of(std::move(text), rows * columns, 0, largest);
}

/// Runs version 2 on generated intensities or version 1 on pixels. Version 1 computes statistics over the whole image,
/// begins with an exponential and ends with a logarithm.
template <class Generated>
void diffuse(Case& c, const Generated& generated) {
  constexpr bool pixels = std::is_same_v<Generated, Pixels>;
  const std::size_t rows = c.extent("rows"), columns = c.extent("cols"), steps = c.extent("steps");
  refuse_if(rows > std::size_t{1} << 31 || columns > std::size_t{1} << 31 || rows * columns > std::size_t{1} << 37,
            "sums have 64 bits and a cell adds at most 2^26: choose at most 2^37 cells");
  Values<float, Generated> values(generated);
  UserFile<float> file;
  if constexpr (pixels)
    file = {c, rows * columns, [=](const InputFile& from) { return open_image(from, rows, columns); }};
  values.take(file);
  auto image = c.input_matrix<float>("image", rows, columns, values);
  file.fills(c, image);
  auto result = c.output_matrix<float>("result", rows, columns);
  auto other = c.scratch<float>("other", result.size());
  auto sums = c.scratch<Sum>("statistics", 2 * (steps + 1));
  const auto side = pixels || c.integer("roi") == 0 ? std::max(rows, columns) : c.extent("roi");
  const Image shape{static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), image.pitch(),
                    static_cast<std::int64_t>(std::min(rows, side)),
                    static_cast<std::int64_t>(std::min(columns, side))};
  c.verify_all(result, [=](std::span<float> expected) {
    if constexpr (pixels) {
      reference(shape, [=](std::size_t i) { return intensity_of(values(i)); }, steps, expected);
      for (float& value : expected) value = pixel_of(value);
    } else {
      reference(shape, values, steps, expected);
    }
  });
  const Uniform intensities = uniform(c.seed(), 0, 1, 2.71828f);
  c.verify("the original's formulas in double", [=] { return formula_error(intensities); }, 0x1p-15);
  if constexpr (pixels) c.verify("exp and log in double", [] { return series_error(); }, 0x1p-13);
  c.verify_same(result);
  c.repeats(steps);

  const bool on_host = c.choice("loop") == "host";
  const auto measure = [&](auto kernel, auto kernel_told, unsigned blocks, std::size_t chunks_held) {
    const double cells = static_cast<double>(rows) * static_cast<double>(columns);
    const device::LaunchShape launch{
        .grid = blocks, .block = threads, .shared_bytes = chunks_held * width * chunk * sizeof(float)};
    c.measure(on_host ? Control::waits : Control::queued, [=](Run& run) {
      const std::size_t step = run.repeat();
      float* const buffers[] = {other.device(), result.device()};  // the last step writes to the second
      const bool last = (steps - step) % 2 == 1;
      const auto by_rows = [](std::int64_t high) {
        return device::LaunchShape{.grid = static_cast<unsigned>(std::min<std::int64_t>(high, 1024)), .block = threads};
      };
      const float* from = buffers[last ? 0 : 1];
      if (step == 0) {
        run.fill(sums, 0);
        if constexpr (pixels) {
          run.launch(ISTHMUS_KERNEL(srad_extract), by_rows(shape.rows),
                     {.bytes_read = 4 * cells, .bytes_written = 4 * cells, .flops = 21 * cells}, shape, image.device(),
                     buffers[last ? 0 : 1], sums.device());
        } else {
          run.launch(ISTHMUS_KERNEL(srad_statistics), by_rows(shape.roi_rows),
                     {.bytes_read = 4 * shape.roi_cells(), .flops = 4 * shape.roi_cells()}, shape, image.device(),
                     sums.device());
          from = image.device();
        }
      }
      const auto advance = [&](auto how, auto... known) {
        run.launch(how, launch, {.bytes_read = 4 * cells, .bytes_written = 4 * cells, .flops = 32 * cells}, shape, from,
                   buffers[last ? 1 : 0], sums.device() + 2 * step, known...);
      };
      if (on_host) {
        Sum now[2];
        run.read(sums, 2 * step, std::span<Sum>(now));
        advance(kernel_told, speckle_of(now[0], now[1], shape.roi_cells()));
      } else {
        advance(kernel);
      }
      if constexpr (pixels) {
        if (step + 1 == steps)
          run.launch(ISTHMUS_KERNEL(srad_compress), by_rows(shape.rows),
                     {.bytes_read = 4 * cells, .bytes_written = 4 * cells, .flops = 20 * cells}, shape,
                     result.device());
      }
    });
  };
  if (c.staging() == Staging::none)
    return measure(Kernel{"srad_plain", srad_plain<>}, Kernel{"srad_plain", srad_plain<Speckle>}, tiles_of(shape), 0);
  if constexpr (!pixels) {
    const auto resident = std::min(tiles_of(shape), static_cast<unsigned>(6 * c.device().multiprocessors));
    with_staging<ring>(c, [&](auto how, auto buffers) {
      measure(Kernel{"srad_staged", srad_staged<how(), buffers()>},
              Kernel{"srad_staged", srad_staged<how(), buffers(), Speckle>}, resident, buffers());
    });
  }
}

void srad(Case& c) {
  diffuse(c, uniform(c.seed(), 0, 1, 2.71828f));  // like the original's intensities after its exp()
}
void srad_v1(Case& c) {
  diffuse(c, Pixels{c.seed()});
}

const Registration registration =
    paper_program("apps/srad", srad, "Rodinia's srad, version 2", {{"loop", "host"}})
        .summary("speckle-reducing anisotropic diffusion of an image, statistics of the next step in the same pass")
        .stagings({Staging::none, Staging::direct, Staging::async, Staging::bulk})
        .axis(number_axis("rows", "rows of the image", 4096))
        .axis(number_axis("cols", "columns of the image", 4096))
        .axis(number_axis("steps", "steps of diffusion", 2))
        .axis(number_axis("roi", "side of the square at the first cell that defines the speckle; 0: all cells", 128, 0))
        .axis(loop_axis("where the speckle is computed from the sums"))
        .sizes({"rows", "cols"}, {512, 1024, 4096, 8192, 20480, 40960});

const Registration registration_of_version_1 = with_data(
    Workload("apps/srad_v1", srad_v1)
        .version(1)
        .summary("speckle-reducing diffusion of an image of pixels, with the statistics of all of it in each step")
        .source("mi300a-upm-2025, Table II (Rodinia's srad, version 1)")
        .tags({"app", "mi300a"})
        .placements(memory::all_placements())
        .stagings({Staging::none})
        .axis(number_axis("rows", "rows of the image", 2048))
        .axis(number_axis("cols", "columns of the image", 2048))
        .axis(number_axis("steps", "steps of diffusion", 100))
        .axis(loop_axis("where the speckle is computed from the sums"))
        .axis(submission_axis())
        .preset(unified_preset({{"loop", "host"}}))
        .sizes({"rows", "cols"}, {128, 1024, 2048, 4096, 8192, 16384})
        .sizes({"steps"}, {5, 100, 100, 100, 100, 100}),
    "ISTHMUS_SRAD", "a plain PGM (Rodinia's image.pgm)");

}  // namespace
}  // namespace isthmus::apps
