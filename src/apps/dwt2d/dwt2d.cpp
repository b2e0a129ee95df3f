// Discrete wavelet transform of an image, level after level. One pass over a level transforms both directions.

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "apps/checks.hpp"
#include "apps/dwt2d/formulas.hpp"
#include "apps/unified.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;
using namespace wavelets;

// Each group of 32 lanes moves down a tile of 128 columns, four per lane. A result depends on four samples to either
// side, so the lane at either end is the halo.
constexpr int lanes = 32, threads = 128, own = 4, stride = own * (lanes - 2), written = threads / lanes * stride;
constexpr int pairs = 48;                           // pairs of rows that a tile writes
constexpr int ahead = 2;                            // pairs of rows that a lane loads ahead
constexpr int most_down = 1 << 16, side = 1 << 22;  // exclusive limit of components; limit of a side

template <class T>
struct alignas(own * sizeof(T)) Four {
  T of[own];
};
template <class T>
struct alignas(own / 2 * sizeof(T)) Two {
  T of[own / 2];
};

/// Samples stored component by component, and row by row within each.
template <class T>
struct Plane {
  T* samples;
  std::size_t pitch, component;

  __device__ T* row(int r) const { return samples + blockIdx.z * component + static_cast<std::size_t>(r) * pitch; }
};

/// Image of a level, and the destinations of its bands: `low` for the band that is low in both directions, `to` for the
/// other three.
template <class T>
struct Level {
  int rows, columns;
  Plane<const T> from;
  Plane<T> low, to;
};

/// Lifts along a row. Shuffles provide the samples of neighbouring lanes; the lanes at either end compute invalid
/// results, which are not written.
template <class Wavelet, class T>
__device__ inline void lift_across(T (&x)[own]) {
#pragma unroll
  for (int i = 0; i < Wavelet::lifts; i += 2) {
    const T after = device::shuffle_down(device::full_warp(), x[0], 1u);
    x[1] = Wavelet::lift(i, x[1], x[0], x[2]);
    x[3] = Wavelet::lift(i, x[3], x[2], after);
    const T before = device::shuffle_up(device::full_warp(), x[3], 1u);
    x[0] = Wavelet::lift(i + 1, x[0], before, x[1]);
    x[2] = Wavelet::lift(i + 1, x[2], x[1], x[3]);
  }
}

/// Lifting down a column: each step reads two rows and completes two earlier ones. Each pair of lifts keeps the last
/// even sample that it has not updated and the odd sample before that.
template <class Wavelet>
class Column {
 public:
  using T = typename Wavelet::Value;
  static constexpr int stages = Wavelet::lifts / 2;
  static constexpr int halo = 2 * stages;  // rows above the first pair
  static constexpr int behind = halo - 1;  // steps until the first pair is complete

  __device__ void begin(T even) { even_[0] = even; }
  /// Replaces the two incoming samples by one sample each of the high and the low band.
  __device__ void step(T& odd, T& even) {
#pragma unroll
    for (int j = 0; j < stages; ++j) {
      const T high = Wavelet::lift(2 * j, odd, even_[j], even);
      const T low = Wavelet::lift(2 * j + 1, even_[j], odd_[j], high);
      const bool last = j + 1 == stages;
      odd = last ? high : odd_[j];
      even_[j] = even;
      even = low;
      odd_[j] = high;
    }
  }

 private:
  T even_[stages] = {}, odd_[stages] = {};
};

/// Writers of two adjacent samples of a band: as one vector, or one by one and only as many as the band has.
struct InVectors {
  template <class T>
  __device__ static void write(T* to, T first, T second, int) {
    *reinterpret_cast<Two<T>*>(to) = {{first, second}};
  }
};
struct OneByOne {
  template <class T>
  __device__ static void write(T* to, T first, T second, int count) {
    if (count > 0) to[0] = first;
    if (count > 1) to[1] = second;
  }
};

// for (r = 0; r < rows; ++r) x[r][…] = transformed(x[r][…]);             even samples come first, then the odd ones
// for (c = 0; c < columns; ++c) x[…][c] = transformed(x[…][c]);
template <class Wavelet>
__global__ void __launch_bounds__(threads, 7) dwt2d_level(Level<typename Wavelet::Value> level) {
  using T = typename Wavelet::Value;
  const int lane = static_cast<int>(threadIdx.x) % lanes, group = static_cast<int>(threadIdx.x) / lanes;
  const int column = (static_cast<int>(blockIdx.x) * (threads / lanes) + group) * stride + (lane - 1) * own;
  const int low_rows = (level.rows + 1) / 2, low_columns = (level.columns + 1) / 2;
  const int first_pair = static_cast<int>(blockIdx.y) * pairs, top = 2 * first_pair - Column<Wavelet>::halo;
  const int steps = Column<Wavelet>::behind + min(pairs, low_rows - first_pair);

  const bool whole = column >= 0 && column + own <= level.columns;
  const bool writes = lane > 0 && lane + 1 < lanes;
  const int low_count = writes ? min(max(low_columns - column / 2, 0), 2) : 0;
  const int high_count = writes ? min(max(level.columns / 2 - column / 2, 0), 2) : 0;
  const bool in_vectors = low_count == 2 && high_count == 2 && low_columns % 2 == 0;
  int at[own];
#pragma unroll
  for (int k = 0; k < own; ++k) at[k] = reflected(column + k, level.columns);
  const auto read = [&]<int count>(Four<T>(&rows)[count], int first) {
    const T* row[count];
#pragma unroll
    for (int j = 0; j < count; ++j) {
      const int r = first + j;
      row[j] = level.from.row(r >= 0 && r < level.rows ? r : reflected(r, level.rows));
    }
    if (whole) {
#pragma unroll
      for (int j = 0; j < count; ++j) rows[j] = *reinterpret_cast<const Four<T>*>(row[j] + column);
    } else {
#pragma unroll
      for (int j = 0; j < count; ++j) {
#pragma unroll
        for (int k = 0; k < own; ++k) rows[j].of[k] = row[j][at[k]];
      }
    }
  };
  const auto write = [&](auto how, int pair, const T(&low)[own], const T(&high)[own]) {
    how.write(level.low.row(pair) + column / 2, Wavelet::scaled_low(low[0]), Wavelet::scaled_low(low[2]), low_count);
    how.write(level.to.row(pair) + low_columns + column / 2, low[1], low[3], high_count);
    if (2 * pair + 1 >= level.rows) return;
    T* row = level.to.row(low_rows + pair) + column / 2;
    how.write(row, high[0], high[2], low_count);
    how.write(row + low_columns, Wavelet::scaled_high(high[1]), Wavelet::scaled_high(high[3]), high_count);
  };

  Column<Wavelet> columns[own];
  Four<T> first[1];
  read(first, top);
  lift_across<Wavelet>(first[0].of);
#pragma unroll
  for (int k = 0; k < own; ++k) columns[k].begin(first[0].of[k]);
  for (int step = 0; step < steps; step += ahead) {
    Four<T> rows[2 * ahead];
    read(rows, top + 2 * step + 1);
#pragma unroll
    for (int j = 0; j < ahead; ++j) {
      T(&high)[own] = rows[2 * j].of, (&low)[own] = rows[2 * j + 1].of;
      lift_across<Wavelet>(high);
      lift_across<Wavelet>(low);
#pragma unroll
      for (int k = 0; k < own; ++k) columns[k].step(high[k], low[k]);
      const int pair = first_pair + step + j - Column<Wavelet>::behind;
      if (pair < first_pair || step + j >= steps) continue;
      if (in_vectors) {
        write(InVectors{}, pair, low, high);
      } else if (low_count > 0) {  // with an odd number of columns, the low band has one more
        write(OneByOne{}, pair, low, high);
      }
    }
  }
}

/// Extents of an image, and the number of levels of its transform.
struct Shape {
  std::size_t components, rows, columns;
  unsigned levels;
};

/// Input image of a wavelet: generated, or from the user's file.
template <class Wavelet>
using ImageOf = Values<typename Wavelet::Value, typename Wavelet::Image>;

/// Returns a reader of the original program's format: one byte per component, with the components of a pixel next to
/// each other. The reader returns one component after the other, each as a plane.
template <class T>
std::function<void(std::span<T>)> open_image(const InputFile& from, const Shape& shape) {
  const std::size_t pixels = shape.rows * shape.columns;
  if (from.bytes() != pixels * shape.components)
    throw std::runtime_error("the file " + from.path() + " has " + std::to_string(from.bytes()) +
                             " bytes, but the requested image has " + std::to_string(pixels * shape.components) +
                             "; set rows, cols and components to match it, and remove any header before the pixels");
  return [bytes = from.text(), pixels, components = shape.components, at = std::size_t{0}](std::span<T> row) mutable {
    for (T& sample : row) {
      const auto byte = static_cast<unsigned char>(bytes[at % pixels * components + at / pixels]);
      sample = static_cast<T>(byte - 128);
      ++at;
    }
  };
}

/// Returns a rectangle of a component's samples, starting at (top, left).
template <class Values>
auto cut(const Shape& shape, const Values& values, std::size_t component, std::size_t top, std::size_t left,
         std::size_t rows, std::size_t columns) {
  Rectangle<decltype(values(0))> image(rows, columns);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c)
      image.at(r, c) = values((component * shape.rows + top + r) * shape.columns + left + c);
  }
  return image;
}

/// Returns the number of wrong coefficients in a window of a component, in all bands. A coefficient depends only on
/// samples within a margin, which doubles with each level and ends at the image's edge.
template <class Wavelet>
double wrong_in_window(const Shape& shape, const ImageOf<Wavelet>& values, std::size_t component,
                       std::array<std::size_t, 2> first, std::size_t size, const typename Wavelet::Value* result,
                       std::size_t pitch) {
  const std::size_t extent[] = {shape.rows, shape.columns}, margin = std::size_t{Wavelet::lifts} << shape.levels;
  std::size_t begin[2], end[2], last[2];
  for (int d = 0; d < 2; ++d) {
    last[d] = std::min(extent[d], first[d] + size);
    begin[d] = first[d] - std::min(first[d], margin);  // a multiple of 2^levels, like first[d]
    end[d] = std::min(extent[d], last[d] + margin);
  }
  auto right = cut(shape, values, component, begin[0], begin[1], end[0] - begin[0], end[1] - begin[1]);
  transform<Wavelet>(right, shape.levels);
  double wrong = 0;
  const auto compare = [&](unsigned level, bool high_row, bool high_column) {
    const bool high[] = {high_row, high_column};
    std::size_t from[2], to[2], here[2], there[2];  // indices in the band; offsets of the band in window and result
    for (int d = 0; d < 2; ++d) {
      const auto band = [&](std::size_t n) { return high[d] ? halved(n, level - 1) / 2 : halved(n, level); };
      from[d] = first[d] >> level;
      to[d] = last[d] == extent[d] ? band(extent[d]) : last[d] >> level;
      here[d] = high[d] ? halved(end[d] - begin[d], level) : 0;
      there[d] = high[d] ? halved(extent[d], level) : 0;
      here[d] -= begin[d] >> level;  // may wrap; adding an index wraps back
    }
    for (std::size_t r = from[0]; r < to[0]; ++r) {
      for (std::size_t c = from[1]; c < to[1]; ++c) {
        wrong += right.at(here[0] + r, here[1] + c) !=
                 result[(component * shape.rows + there[0] + r) * pitch + there[1] + c];
      }
    }
  };
  for (unsigned level = 1; level <= shape.levels; ++level) {
    compare(level, false, true);
    compare(level, true, false);
    compare(level, true, true);
  }
  compare(shape.levels, false, false);
  return wrong;
}

/// Returns the number of wrong coefficients of all components. Large components are checked only in windows, which
/// include the corners.
template <class Wavelet>
double count_wrong(const Shape& shape, const ImageOf<Wavelet>& values, std::uint64_t seed,
                   const typename Wavelet::Value* result, std::size_t pitch) {
  const bool large = shape.rows * shape.columns > std::size_t{1} << 20;
  const std::size_t size = large ? std::size_t{128} : std::max(shape.rows, shape.columns), windows = large ? 12 : 1;
  std::array<double, 1> wrong = sums_of<double, 1>(shape.components * windows, 1, [&](std::size_t i, auto& sums) {
    const auto place = [&](std::size_t n, bool far, std::uint64_t stream) {
      const std::size_t room = n - std::min(n, size), number = i % windows;
      const std::size_t at = number < 4 ? (far ? room : 0) : hash(seed, stream, i) % (room + 1);
      return at >> shape.levels << shape.levels;
    };
    const std::array first{place(shape.rows, i % windows / 2 == 1, 1), place(shape.columns, i % 2 == 1, 2)};
    sums[0] += wrong_in_window<Wavelet>(shape, values, i / windows, first, size + (1 << shape.levels), result, pitch);
  });
  return wrong[0];
}

/// Returns how many samples the inverse transform does not restore.
double count_lost(const Shape& shape, const ImageOf<Exact>& values, const int* result, std::size_t pitch) {
  return sums_of<double, 1>(shape.components, 1, [&](std::size_t component, auto& sums) {
    Rectangle<int> image(shape.rows, shape.columns);
    for (std::size_t r = 0; r < shape.rows; ++r) {
      for (std::size_t c = 0; c < shape.columns; ++c) image.at(r, c) = result[(component * shape.rows + r) * pitch + c];
    }
    restore(image, shape.levels);
    const auto right = cut(shape, values, component, 0, 0, shape.rows, shape.columns);
    for (std::size_t i = 0; i < image.samples.size(); ++i) sums[0] += image.samples[i] != right.samples[i];
  })[0];
}

template <class Wavelet>
void dwt2d(Case& c, const char* name) {
  using T = typename Wavelet::Value;
  const Shape shape{c.extent("components"), c.extent("rows"), c.extent("cols"),
                    static_cast<unsigned>(c.extent("levels"))};
  refuse_if(shape.rows > side || shape.columns > side, "a side is limited to 2^22 samples");
  refuse_if(shape.levels > 16, "16 levels reduce 65536 rows to one: choose at most 16 levels");
  refuse_if(shape.components >= most_down, "a grid has at most 65535 components");
  const std::size_t rows = shape.components * shape.rows;
  ImageOf<Wavelet> values(typename Wavelet::Image{c.seed()});
  const UserFile<T> file(c, rows * shape.columns,
                         [shape](const InputFile& from) { return open_image<T>(from, shape); });
  values.take(file);
  auto image = c.input_matrix<T>("image", rows, shape.columns, values, shape.rows);
  file.fills(c, image);
  auto result = c.output_matrix<T>("coefficients", rows, shape.columns, shape.rows);
  // Two low bands are kept, so that one can be read while the next one is written.
  const auto low_pitch = [&](unsigned level) { return row_pitch<T>(halved(shape.columns, level)); };
  const auto low_size = [&](unsigned level) { return halved(shape.rows, level) * low_pitch(level); };
  auto odd = c.scratch<T>("low bands of odd levels", shape.components * low_size(1));
  auto even = c.scratch<T>("low bands of even levels", shape.components * low_size(2));
  c.chunks(shape.components);

  c.verify(
      shape.rows * shape.columns > std::size_t{1} << 20 ? "serial reference of sampled windows" : "serial reference",
      [=, seed = c.seed()] { return count_wrong<Wavelet>(shape, values, seed, result.host(), result.pitch()); }, 0);
  if constexpr (std::is_integral_v<T>) {
    if (shape.rows * shape.columns <= std::size_t{1} << 24) {
      c.verify(
          "the inverse gives the image", [=] { return count_lost(shape, values, result.host(), result.pitch()); }, 0);
    }
  } else {
    // Values stay below 2^10, so each of eight roundings is at most 2^-15, and no factor is above 1.6.
    c.verify("the published filters in double", [seed = c.seed()] { return filter_error(seed); }, 0x1p-11);
  }
  c.verify_same(result);

  const bool merged = c.choice("form") == "merged";
  c.measure(Control::queued, [=](Run& run) {
    const std::size_t first = run.chunk().first, count = run.chunk().count;
    const std::size_t at_once = merged ? count : 1;
    for (std::size_t component = first; component < first + count; component += at_once) {
      const Plane<T> whole{result.device() + component * shape.rows * result.pitch(), result.pitch(),
                           shape.rows * result.pitch()};
      Plane<const T> from{image.device() + component * shape.rows * image.pitch(), image.pitch(),
                          shape.rows * image.pitch()};
      for (unsigned level = 0; level < shape.levels; ++level) {
        const std::size_t high = halved(shape.rows, level), wide = halved(shape.columns, level);
        const unsigned kept = level % 2 + 1;
        Plane<T> low{(kept == 1 ? odd : even).device() + component * low_size(kept), low_pitch(kept), low_size(kept)};
        if (level + 1 == shape.levels) low = whole;
        const double samples = static_cast<double>(at_once) * static_cast<double>(high) * static_cast<double>(wide);
        const double bytes = sizeof(T) * samples;
        run.launch(device::Kernel{name, dwt2d_level<Wavelet>},
                   {.grid = {static_cast<unsigned>((wide + written - 1) / written),
                             static_cast<unsigned>((half(high) + pairs - 1) / pairs), static_cast<unsigned>(at_once)},
                    .block = threads},
                   {.bytes_read = bytes, .bytes_written = bytes, .flops = samples * Wavelet::flops},
                   Level<T>{static_cast<int>(high), static_cast<int>(wide), from, low, whole});
        from = {low.samples, low.pitch, low.component};
      }
    }
  });
}

void run(Case& c) {
  if (c.choice("filter") == "5/3") return dwt2d<Exact>(c, "dwt2d_53");
  dwt2d<Smooth>(c, "dwt2d_97");
}

const Registration registration =
    with_data(Workload("apps/dwt2d", run)
                  .version(1)
                  .summary("wavelet transform of an image, rows and columns of a level in one pass")
                  .source("mi300a-upm-2025, Table II (Rodinia's dwt2d)")
                  .tags({"app", "mi300a"})
                  .placements(memory::all_placements())
                  .stagings({Staging::none})
                  .axis(choice_axis("filter", "9/7 in fp32, or the lossless 5/3 in integers", {"9/7", "5/3"}))
                  .axis(number_axis("rows", "rows of the image", 2048))
                  .axis(number_axis("cols", "columns of the image", 2048))
                  .axis(number_axis("components", "components of the image, each a separate plane", 3))
                  .axis(number_axis("levels", "number of times that the low band is transformed", 3))
                  .axis(how(choice_axis("form", "all components together, or one after another as in the original",
                                        {"merged", "parts"})))
                  .preset(unified_preset({{"form", "parts"}}))
                  .sizes({"rows", "cols"}, {256, 1024, 2048, 4096, 8192, 16384}),
              "ISTHMUS_DWT2D", "a file of bytes with the components of each pixel together");

}  // namespace
}  // namespace isthmus::apps
