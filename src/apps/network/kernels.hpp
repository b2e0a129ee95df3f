#pragma once

// Kernels of a network's layers, in strict fp32. A tensor is a matrix of channels × (images × plane) whose rows are
// padded to 128 bytes; results do not depend on the contents of the padding.

#include <cstddef>
#include <cstdint>

#include "device/kernel/matrix_tile.hpp"
#include "device/kernel/staging.hpp"

namespace isthmus::apps {

using device::TileStaging;

constexpr unsigned layer_threads = 256;

struct Tile128x128 : device::MatrixTile<128, 128, 16> {};
struct Tile64x256 : device::MatrixTile<64, 256, 16, 8, 1> {};
struct Tile64x64 : device::MatrixTile<64, 64, 16> {};

/// Applies f to a number, or to each of four numbers.
template <class F>
__device__ float each(float x, F f) {
  return f(x);
}
template <class F>
__device__ float4 each(const float4& v, F f) {
  return make_float4(f(v.x), f(v.y), f(v.z), f(v.w));
}

/// Applies an activation to a number, or to each of four: 0 is linear, 1 relu, 2 leaky, 3 logistic.
template <class Numbers>
__device__ Numbers activate(const Numbers& x, unsigned activation) {
  switch (activation) {
    case 1:
      return each(x, [](float one) { return one > 0 ? one : 0; });
    case 2:
      return each(x, [](float one) { return one > 0 ? one : 0.1f * one; });
    case 3:
      return each(x, [](float one) { return 1 / (1 + expf(-one)); });
    default:
      return x;
  }
}

/// Address and shape of a tensor's planes.
struct Planes {
  const float* values = nullptr;
  std::size_t pitch = 0;
  unsigned channels = 0, height = 0, width = 0;
};

/// Place in a plane of an image.
struct PlaneSpot {
  unsigned image, row, column;
};
__device__ inline PlaneSpot spot_of(unsigned n, unsigned height, unsigned width) {
  const unsigned line = n / width;
  return {line / height, line % height, n % width};
}

/// Second tensor of a shortcut. It adds every stride-th number of its planes, only for the channels that it has. If
/// other.values is null, there is no shortcut.
struct Addend {
  Planes other{};
  unsigned stride = 1, activation = 0;
  __device__ bool has(unsigned c) const { return other.values != nullptr && c < other.channels; }
  /// Returns the addend for channel c, column n of planes of height × width.
  __device__ float one(unsigned c, unsigned n, unsigned height, unsigned width) const {
    std::size_t at = n;
    if (stride != 1) {
      const PlaneSpot spot = spot_of(n, height, width);
      at = (std::size_t{spot.image} * other.height + spot.row * stride) * other.width + spot.column * stride;
    }
    return other.values[c * other.pitch + at];
  }
  /// Returns the addends for columns n to n + 3, with zeros from `columns` on; n is a multiple of 4.
  __device__ float4 four(unsigned c, unsigned n, unsigned columns, unsigned height, unsigned width) const {
    if (stride == 1) return *reinterpret_cast<const float4*>(other.values + c * other.pitch + n);
    const auto of = [&](unsigned i) { return n + i < columns ? one(c, n + i, height, width) : 0; };
    return make_float4(of(0), of(1), of(2), of(3));
  }
};

/// Operations after a sum of products: batch normalisation if `means` is not null, a bias if `biases` is not null, the
/// activation, and a shortcut.
struct Epilogue {
  const float *biases = nullptr, *scales = nullptr, *means = nullptr, *variances = nullptr;
  unsigned activation = 0;
  Addend addend{};
  unsigned height = 0, width = 0;  ///< extent of the output's planes
  float* out = nullptr;
  std::size_t pitch = 0;
};

/// Epilogue of columns n to n + 3 of a channel; n is a multiple of 4. The constructor does all reads, so that a thread
/// can wait for the reads of several channels at once.
struct ChannelEpilogue {
  float mean = 0, factor = 1, bias = 0;
  bool adds = false;
  __device__ ChannelEpilogue() {}
  __device__ ChannelEpilogue(const Epilogue& e, unsigned c)
      : bias(e.biases == nullptr ? 0 : e.biases[c]), adds(e.addend.has(c)) {
    if (e.means != nullptr) {
      mean = e.means[c];
      factor = e.scales[c] / sqrtf(e.variances[c] + 1e-6f);
    }
  }
  /// Returns the outputs. Columns beyond the last one are zero, because they are the row's padding.
  __device__ float4 operator()(const float4& sums, const float4& addends, const Epilogue& e, unsigned n,
                               unsigned columns) const {
    float4 v = activate(each(sums, [&](float sum) { return (sum - mean) * factor + bias; }), e.activation);
    if (adds) v = make_float4(v.x + addends.x, v.y + addends.y, v.z + addends.z, v.w + addends.w);
    v = activate(v, e.addend.activation);
    if (n + 1 >= columns) v.y = 0;
    if (n + 2 >= columns) v.z = 0;
    if (n + 3 >= columns) v.w = 0;
    return v;
  }
};
__device__ inline float4 addends_of(const ChannelEpilogue& own, const Epilogue& e, unsigned c, unsigned n,
                                    unsigned columns) {
  return own.adds ? e.addend.four(c, n, columns, e.height, e.width) : make_float4(0, 0, 0, 0);
}

/// Second matrix of a product, given as a window that moves over planes. Its rows are the places of the window, each
/// with all channels, and its columns are the output's numbers.
struct WindowShape {
  static constexpr bool scatters = false;
  Planes in;
  unsigned height, width, stride, before;
  unsigned out_height, out_width;
  unsigned per_channel, per_row;  ///< 2^32 / channels and 2^32 / width of the window, rounded up
};

__device__ inline unsigned high_product(unsigned a, unsigned b) {
  return static_cast<unsigned>(std::uint64_t{a} * b >> 32);
}

__device__ inline unsigned quotient(unsigned a, unsigned b, unsigned reciprocal) {
  return b == 1 ? a : high_product(a, reciprocal);
}

/// Column of the second matrix, as seen by the thread that copies it.
class WindowColumn {
 public:
  __device__ WindowColumn(const WindowShape& w, unsigned n, unsigned columns)
      : WindowColumn(w, spot_of(n, w.out_height, w.out_width)) {
    if (n >= columns) row_ = -(1 << 30);  // outside the plane at every place of the window
  }
  __device__ WindowColumn(const WindowShape& w, const PlaneSpot& spot) : w_(w) {
    row_ = static_cast<int>(spot.row * w.stride) - static_cast<int>(w.before);
    column_ = static_cast<int>(spot.column * w.stride) - static_cast<int>(w.before);
    image_ = w.in.values + std::size_t{spot.image} * (w.in.height * w.in.width);
  }
  /// Returns the address of channel c at the window's place (r, s), or null if the place is outside the plane.
  __device__ const float* at(unsigned r, unsigned s, unsigned c) const {
    const int y = row_ + static_cast<int>(r), x = column_ + static_cast<int>(s);
    if (static_cast<unsigned>(y) >= w_.in.height || static_cast<unsigned>(x) >= w_.in.width) return nullptr;
    return image_ + c * w_.in.pitch + (static_cast<unsigned>(y) * w_.in.width + static_cast<unsigned>(x));
  }
  /// Returns the address of row k of the matrix, or null if it is outside the plane.
  __device__ const float* at(unsigned k) const {
    const unsigned place = quotient(k, w_.in.channels, w_.per_channel), r = quotient(place, w_.width, w_.per_row);
    return at(r, place - r * w_.width, k - place * w_.in.channels);
  }

 private:
  const WindowShape& w_;
  int row_, column_;
  const float* image_;
};

/// Second matrix of a product, stored as a matrix.
struct PlainMatrix {
  static constexpr bool scatters = false;
  const float* values;
  std::size_t pitch;
};

/// Shape of a product. blockIdx.y is the number of a part of k; all parts except the last have length depth_of_part.
struct ProductShape {
  unsigned m, n, k, depth_of_part;
  std::size_t weights_pitch;
  float* partial;  ///< sums of parts, part by part, with the pitch of the output; null if there is one part
};

/// Range of a product that a block computes: columns from `column` on, out of `columns`, with rows of the first matrix
/// that begin at offset `weights` and have length k. If the second matrix has several classes of columns, these columns
/// are in class `number`.
struct ProductRange {
  unsigned column, columns, k, number = 0;
  std::size_t weights = 0;
};
template <class Tile, class Second>
__device__ ProductRange range_of(const Second&, const ProductShape& p, unsigned tile) {
  return {tile * Tile::columns, p.n, p.k};
}

/// Source of tiles of the second matrix.
template <class Tile>
class TileSource {
 public:
  __device__ TileSource(const PlainMatrix& b, unsigned column) : corner_(b.values + column), pitch_(b.pitch) {
    const std::size_t left = b.pitch - column;
    columns_ = left < Tile::columns ? static_cast<unsigned>(left) : Tile::columns;
  }
  template <class Copier>
  __device__ void bring(Copier& copier, float* to, unsigned k, unsigned depth) const {
    copier.template rows<Tile::depth, Tile::columns>(to, Tile::columns, {0, depth, 0, columns_},
                                                     [&](unsigned r) { return corner_ + (k + r) * pitch_; });
  }

 private:
  const float* corner_;
  std::size_t pitch_;
  unsigned columns_;
};

/// Source of tiles of a second matrix given by windows. Each thread copies a column; the matrix itself is never stored.
template <class Tile, class Column>
class WindowSource {
 public:
  __device__ WindowSource(const Column& own, const Planes& in, unsigned k) : own_(own), in_(in), k_(k) {}
  template <class Copier>
  __device__ void bring(Copier& copier, float* to, unsigned k, unsigned) const {
    if (in_.channels % Tile::depth == 0) {  // all of the tile's rows belong to one place
      const float* first = own_.at(k);
      if constexpr (Copier::way == TileStaging::direct) {
        copier.template column<Tile::depth, Tile::columns>(
            to, [&](unsigned row) { return first == nullptr ? nullptr : first + row * in_.pitch; });
      } else {  // stepped from row to row, because nvcc otherwise keeps an address per row, which needs more registers
                // than there are
        constexpr unsigned apart = device::matrix_threads / Tile::columns;
        const std::size_t step = first == nullptr ? 0 : apart * in_.pitch;
        if (first != nullptr) first += threadIdx.x / Tile::columns * in_.pitch;
        copier.template column<Tile::depth, Tile::columns>(to, [&](unsigned) {
          const float* value = first;
          first += step;
          return value;
        });
      }
    } else {
      copier.template column<Tile::depth, Tile::columns>(
          to, [&](unsigned row) { return k + row < k_ ? own_.at(k + row) : nullptr; });
    }
  }

 private:
  const Column own_;
  const Planes& in_;
  const unsigned k_;
};

template <class Tile>
__device__ TileSource<Tile> source_of(const PlainMatrix& b, const ProductRange& range) {
  return {b, range.column};
}
template <class Tile>
__device__ WindowSource<Tile, WindowColumn> source_of(const WindowShape& b, const ProductRange& range) {
  return {WindowColumn(b, range.column + threadIdx.x % Tile::columns, range.columns), b.in, range.k};
}

// for (c = 0; c < m; ++c)
//   for (n = 0; n < columns; ++n) {
//     for (sum = 0, l = 0; l < k; ++l) sum += weights[c][l] * b[l][n];
//     out[c][n] = epilogue(sum, c, n);
//   }
//
// A block computes a tile of the output, or of one part of its sums. With every staging and every tile, a part's sums
// are added up in the order of l.
template <TileStaging staging, unsigned Depth, class Tile, class Second>
__global__ void __launch_bounds__(device::matrix_threads, 2)
    multiply(const float* __restrict__ weights, Second b, ProductShape p, Epilogue epilogue) {
  float* buffers = device::dynamic_shared<float>();
  __shared__ device::BulkBarrier arrived[device::pipeline_barriers<staging, Depth>];
  device::TilePipeline<staging, Depth, device::matrix_threads> pipeline(arrived);
  constexpr unsigned buffer_elements = Tile::a_elements + Tile::b_elements;
  const device::TilePlace<Tile> place;
  const unsigned down = (p.m + Tile::rows - 1) / Tile::rows;
  const ProductRange range = range_of<Tile>(b, p, blockIdx.x / down);
  const unsigned row = blockIdx.x % down * Tile::rows, column = range.column;
  if (column >= range.columns) return;
  const unsigned before = blockIdx.y * p.depth_of_part, begin = before < range.k ? before : range.k;
  const unsigned end = range.k - begin < p.depth_of_part ? range.k : begin + p.depth_of_part;
  const unsigned rows = p.m - row < Tile::rows ? p.m - row : Tile::rows;
  const auto source = source_of<Tile>(b, range);
  const float* corner = weights + (row * p.weights_pitch + range.weights);
  device::TileSums<Tile> sums = {};
  pipeline.run((end - begin + Tile::depth - 1) / Tile::depth,
               [&](auto& copier, unsigned stage, std::uint64_t step) {
                 float* buffer = buffers + stage * buffer_elements;
                 const unsigned l = begin + static_cast<unsigned>(step) * Tile::depth;
                 const unsigned depth = end - l < Tile::depth ? end - l : Tile::depth;
                 copier.template rows<Tile::rows, Tile::depth>(
                     buffer, Tile::a_pitch, {0, rows, 0, (depth + 3) / 4 * 4},
                     [&](unsigned r) { return corner + r * p.weights_pitch + l; });
                 source.bring(copier, buffer + Tile::a_elements, l, depth);
               },
               [&](unsigned stage, std::uint64_t) {
                 const float* buffer = buffers + stage * buffer_elements;
                 device::multiply_tiles<Tile>(sums, place, buffer, buffer + Tile::a_elements);
               });
  if constexpr (Second::scatters) {
    if (scatter<Tile>(b, range, sums, place, row, p, epilogue)) return;
  }
  constexpr unsigned vectors = Tile::thread_columns / 4;
  const auto sums_at = [&](unsigned i, unsigned j) {
    return make_float4(sums[i][4 * j], sums[i][4 * j + 1], sums[i][4 * j + 2], sums[i][4 * j + 3]);
  };
  if (p.partial != nullptr) {
#pragma unroll
    for (unsigned i = 0; i < Tile::thread_rows; ++i) {
      const unsigned c = row + place.row_of(i);
      float* out = p.partial + (std::size_t{blockIdx.y} * p.m + c) * epilogue.pitch;
#pragma unroll
      for (unsigned j = 0; j < vectors; ++j) {
        const unsigned n = column + place.column_of(4 * j);
        if (c < p.m && n < p.n) *reinterpret_cast<float4*>(out + n) = sums_at(i, j);
      }
    }
    return;
  }
  // A row's addend may be in slow memory, so a quarter of a thread's rows, as many as registers allow, wait together.
  constexpr unsigned together = Tile::thread_rows / 4;
#pragma unroll
  for (unsigned first = 0; first < Tile::thread_rows; first += together) {
    ChannelEpilogue finish[together];
    float4 addends[together][vectors];
#pragma unroll
    for (unsigned i = 0; i < together; ++i) {
      const unsigned c = row + place.row_of(first + i);
      if (c < p.m) finish[i] = ChannelEpilogue(epilogue, c);
#pragma unroll
      for (unsigned j = 0; j < vectors; ++j) {
        const unsigned n = column + place.column_of(4 * j);
        if (c < p.m && n < p.n) addends[i][j] = addends_of(finish[i], epilogue, c, n, p.n);
      }
    }
#pragma unroll
    for (unsigned i = 0; i < together; ++i) {
      const unsigned c = row + place.row_of(first + i);
      float* out = epilogue.out + c * epilogue.pitch;
#pragma unroll
      for (unsigned j = 0; j < vectors; ++j) {
        const unsigned n = column + place.column_of(4 * j);
        if (c < p.m && n < p.n)
          *reinterpret_cast<float4*>(out + n) = finish[i](sums_at(first + i, j), addends[i][j], epilogue, n, p.n);
      }
    }
  }
}

/// Returns the column that the calling thread of an element-wise kernel processes; blockIdx.y is the channel.
__device__ inline unsigned own_column() {
  return blockIdx.x * layer_threads + threadIdx.x;
}

// out[c][n] = epilogue(sum over parts of partial[part][c][n], c, n);
//
// Each thread computes four columns.
static __global__ void __launch_bounds__(layer_threads)
    add_parts(const float* partial, unsigned parts, unsigned m, unsigned columns, Epilogue epilogue) {
  const unsigned n = 4 * own_column(), c = blockIdx.y;
  if (n >= columns) return;
  const ChannelEpilogue finish(epilogue, c);
  const float4 addends = addends_of(finish, epilogue, c, n, columns);
  float4 sums = make_float4(0, 0, 0, 0);
#pragma unroll 4
  for (unsigned part = 0; part < parts; ++part) {
    const float4 own = *reinterpret_cast<const float4*>(partial + (std::size_t{part} * m + c) * epilogue.pitch + n);
    sums = make_float4(sums.x + own.x, sums.y + own.y, sums.z + own.z, sums.w + own.w);
  }
  *reinterpret_cast<float4*>(epilogue.out + c * epilogue.pitch + n) = finish(sums, addends, epilogue, n, columns);
}

// for (k = 0; k < rows; ++k)
//   for (n = 0; n < columns; ++n) patches[k][n] = number at place k of window n, or 0 if outside;
static __global__ void __launch_bounds__(layer_threads)
    copy_windows(WindowShape w, unsigned columns, float* patches, std::size_t pitch) {
  const unsigned n = own_column();
  if (n >= columns) return;
  const WindowColumn own(w, n, columns);
  const unsigned rows = w.height * w.width * w.in.channels;
  for (unsigned k = blockIdx.y; k < rows; k += gridDim.y) {
    const float* from = own.at(k);
    patches[k * pitch + n] = from == nullptr ? 0 : *from;
  }
}

// out[c][image][y][x] = the largest of the window's numbers that are inside the plane;
static __global__ void __launch_bounds__(layer_threads)
    pool_largest(WindowShape w, unsigned columns, float* out, std::size_t pitch) {
  const unsigned n = own_column(), c = blockIdx.y;
  if (n >= columns) return;
  const WindowColumn own(w, n, columns);
  float largest = 0;
  bool any = false;
  for (unsigned r = 0; r < w.height; ++r) {
    for (unsigned s = 0; s < w.width; ++s) {
      const float* value = own.at(r, s, c);
      if (value == nullptr || (any && *value <= largest)) continue;
      largest = *value;
      any = true;
    }
  }
  out[c * pitch + n] = largest;
}

// out[c][image] = the sum of a plane / its size;
static __global__ void __launch_bounds__(layer_threads)
    pool_average(Planes in, unsigned images, float* out, std::size_t pitch) {
  const unsigned n = own_column(), c = blockIdx.y;
  if (n >= images) return;
  const unsigned plane = in.height * in.width;
  const float* from = in.values + c * in.pitch + std::size_t{n} * plane;
  float sum = 0;
  for (unsigned i = 0; i < plane; ++i) sum += from[i];
  out[c * pitch + n] = sum / static_cast<float>(plane);
}

// out[c][n] = activation(in[c][n] + other[c][n, every stride-th]);
static __global__ void __launch_bounds__(layer_threads)
    add_shortcut(Planes in, Addend addend, unsigned columns, float* out, std::size_t pitch) {
  const unsigned n = own_column(), c = blockIdx.y;
  if (n >= columns) return;
  float sum = in.values[c * in.pitch + n];
  if (addend.has(c)) sum += addend.one(c, n, in.height, in.width);
  out[c * pitch + n] = activate(sum, addend.activation);
}

// out[first + c][n] = in[c][n];
static __global__ void __launch_bounds__(layer_threads)
    join(Planes in, unsigned columns, unsigned first, float* out, std::size_t pitch) {
  const unsigned n = own_column(), c = blockIdx.y;
  if (n < columns) out[(first + c) * pitch + n] = in.values[c * in.pitch + n];
}

// out[c][image][y][x] = in[c][image][y / factor][x / factor];
static __global__ void __launch_bounds__(layer_threads)
    enlarge(Planes in, unsigned factor, unsigned columns, float* out, std::size_t pitch) {
  const unsigned n = own_column(), c = blockIdx.y;
  if (n >= columns) return;
  const PlaneSpot spot = spot_of(n, in.height * factor, in.width * factor);
  const std::size_t line = std::size_t{spot.image} * in.height + spot.row / factor;
  out[c * pitch + n] = in.values[c * in.pitch + line * in.width + spot.column / factor];
}

// for (all numbers of all boxes) out = is a width or height ? in : logistic(in);
static __global__ void __launch_bounds__(layer_threads)
    find_boxes(Planes in, unsigned entries, unsigned columns, float* out, std::size_t pitch) {
  const unsigned n = own_column(), c = blockIdx.y;
  if (n >= columns) return;
  const unsigned entry = c % entries;
  const float value = in.values[c * in.pitch + n];
  out[c * pitch + n] = activate(value, entry == 2 || entry == 3 ? 0 : 3);
}

/// Returns the reduction of all the block's values by `join_two`, always in the same order.
template <class JoinTwo>
__device__ float of_block(float value, float* shared, JoinTwo join_two) {
  shared[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = layer_threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] = join_two(shared[threadIdx.x], shared[threadIdx.x + half]);
    __syncthreads();
  }
  const float result = shared[0];
  __syncthreads();
  return result;
}

// for (all i of the image) out[i] = exp(in[i] - largest) / (sum of exp(in[j] - largest));
//
// Each block computes one image.
static __global__ void __launch_bounds__(layer_threads) soften(Planes in, float* out, std::size_t pitch) {
  __shared__ float shared[layer_threads];
  const unsigned plane = in.height * in.width, count = in.channels * plane;
  const auto place = [&](unsigned i, std::size_t row) { return i / plane * row + blockIdx.x * plane + i % plane; };
  float largest = in.values[place(0, in.pitch)], sum = 0;
  for (unsigned i = threadIdx.x; i < count; i += layer_threads) largest = fmaxf(largest, in.values[place(i, in.pitch)]);
  largest = of_block(largest, shared, [](float a, float b) { return fmaxf(a, b); });
  for (unsigned i = threadIdx.x; i < count; i += layer_threads) sum += expf(in.values[place(i, in.pitch)] - largest);
  sum = of_block(sum, shared, [](float a, float b) { return a + b; });
  for (unsigned i = threadIdx.x; i < count; i += layer_threads)
    out[place(i, pitch)] = expf(in.values[place(i, in.pitch)] - largest) / sum;
}

// Copies images, which are stored one after the other and channel by channel, to a tensor; leave() copies back.
static __global__ void __launch_bounds__(layer_threads)
    enter(const float* images, unsigned channels, unsigned plane, unsigned columns, float* out, std::size_t pitch) {
  const unsigned n = own_column(), c = blockIdx.y;
  if (n < columns) out[c * pitch + n] = images[(std::size_t{n / plane} * channels + c) * plane + n % plane];
}
static __global__ void __launch_bounds__(layer_threads)
    leave(Planes in, unsigned columns, float* results, std::size_t of_an_image) {
  const unsigned n = own_column(), c = blockIdx.y, plane = in.height * in.width;
  if (n < columns) results[n / plane * of_an_image + std::size_t{c} * plane + n % plane] = in.values[c * in.pitch + n];
}

}  // namespace isthmus::apps
