#pragma once

// Kernels that training needs in addition to those of a network's layers (apps/network/kernels.hpp): losses, the
// backward pass, and the update of learned numbers. Sums are always added up in the same order, without atomics.

#include "apps/network/kernels.hpp"

namespace isthmus::apps {

/// Returns the derivative of an activation, computed from its output.
__device__ inline float steepness(float out, unsigned activation) {
  switch (activation) {
    case 1:
      return out > 0 ? 1 : 0;
    case 2:
      return out > 0 ? 1 : 0.1f;
    case 3:
      return out * (1 - out);
    default:
      return 1;
  }
}

/// Destination of the gradient of a layer's input. The gradient is added to the one that later layers have written if
/// `adds`, otherwise it is stored.
struct Gradient {
  float* values;
  std::size_t pitch;
  bool adds;
  __device__ void give(unsigned c, unsigned n, float x) const {
    float& to = values[c * pitch + n];
    to = adds ? to + x : x;
  }
};

/// Output of a layer with its gradient. `activation` is the layer's activation.
struct Result {
  Planes out, gradient;
  unsigned activation;
  /// Returns the number of tensors that operator() reads.
  constexpr unsigned reads() const { return activation == 0 ? 1 : 2; }
  /// Returns the gradient of the activation's input.
  __device__ float operator()(unsigned c, unsigned n) const {
    const float above = gradient.values[c * gradient.pitch + n];
    if (activation == 0) return above;  // avoids a read of the output
    return above * steepness(out.values[c * out.pitch + n], activation);
  }
};

// --- weights ---------------------------------------------------------------------------------------

/// Transpose of the matrix of WindowShape: its rows are the output's numbers, its columns the places of the window.
struct TransposedShape : WindowShape {};

/// Source of tiles of a TransposedShape. A thread copies one place of the window, for one number after the other.
template <class Tile>
class TransposedSource {
 public:
  __device__ TransposedSource(const TransposedShape& w, const ProductRange& range) : w_(w), k_(range.k) {
    const unsigned own = range.column + threadIdx.x % Tile::columns;
    if (own >= range.columns) return;
    const unsigned place = own / w.in.channels, r = place / w.width;
    row_ = static_cast<int>(r) - static_cast<int>(w.before);
    column_ = static_cast<int>(place - r * w.width) - static_cast<int>(w.before);
    plane_ = w.in.values + (own - place * w.in.channels) * w.in.pitch;
  }
  template <class Copier>
  __device__ void bring(Copier& copier, float* to, unsigned k, unsigned) const {
    constexpr unsigned apart = device::matrix_threads / Tile::columns;  // distance between a thread's rows
    unsigned n = k + threadIdx.x / Tile::columns;
    PlaneSpot spot = spot_of(n, w_.out_height, w_.out_width);
    copier.template column<Tile::depth, Tile::columns>(to, [&](unsigned) {
      const float* value = n < k_ ? at(spot) : nullptr;
      n += apart;
      spot.column += apart;
      while (spot.column >= w_.out_width) {
        spot.column -= w_.out_width;
        if (++spot.row == w_.out_height) spot.row = 0, ++spot.image;
      }
      return value;
    });
  }

 private:
  __device__ const float* at(const PlaneSpot& spot) const {
    const unsigned y = static_cast<unsigned>(static_cast<int>(spot.row * w_.stride) + row_);
    const unsigned x = static_cast<unsigned>(static_cast<int>(spot.column * w_.stride) + column_);
    if (plane_ == nullptr || y >= w_.in.height || x >= w_.in.width) return nullptr;
    return plane_ + ((std::size_t{spot.image} * w_.in.height + y) * w_.in.width + x);
  }

  const TransposedShape& w_;
  const unsigned k_;
  int row_ = 0, column_ = 0;
  const float* plane_ = nullptr;
};

template <class Tile>
__device__ TransposedSource<Tile> source_of(const TransposedShape& b, const ProductRange& range) {
  return {b, range};
}

// --- inputs ----------------------------------------------------------------------------------------

/// Backward pass of a window along one direction, with `window` places over a plane of `plane` numbers. A number is in
/// class r if (number + before) mod stride is r, and a place is in class r if it is r mod stride. A number was an input
/// of windows only at places of its own class.
struct SpreadAxis {
  unsigned window, plane, stride, before;
  constexpr unsigned places(unsigned r) const { return window / stride + (r < window % stride ? 1 : 0); }
  constexpr unsigned places_before(unsigned r) const {  ///< number of places in all classes before r
    return r * (window / stride) + (r < window % stride ? r : window % stride);
  }
  constexpr unsigned first(unsigned r) const { return (r + stride - before % stride) % stride; }
  constexpr unsigned numbers(unsigned r) const {
    return first(r) < plane ? (plane - first(r) + stride - 1) / stride : 0;
  }
  /// Returns the last window that contains the first number of class r, which is at the window's first place of class
  /// r.
  constexpr unsigned window_of_first(unsigned r) const { return (first(r) + before) / stride; }
};

/// Second matrix of the backward pass; there is one for each pair of a class of rows and a class of columns. Its
/// columns are the numbers of the class, image by image. Its rows are the results, in `in`, of the windows that contain
/// them.
struct SpreadShape {
  static constexpr bool scatters = true;
  Planes in;
  SpreadAxis down, across;
  unsigned images;
  unsigned per_channel, per_row, per_longer_row;  ///< 2^32 / channels and 2^32 / places across, rounded up
  constexpr unsigned classes() const { return down.stride * across.stride; }
  /// Returns the number of columns of a class; rows() returns its number of rows, and weights() the offset of its
  /// weights, which is aligned to 16 bytes.
  constexpr unsigned columns(unsigned number) const {
    return images * down.numbers(number / across.stride) * across.numbers(number % across.stride);
  }
  constexpr unsigned rows(unsigned number) const {
    return down.places(number / across.stride) * across.places(number % across.stride) * in.channels;
  }
  constexpr std::size_t weights(unsigned number) const {
    const unsigned r = number / across.stride;
    const std::size_t before = std::size_t{down.places_before(r)} * across.window +
                               std::size_t{down.places(r)} * across.places_before(number % across.stride);
    return before * in.channels / 4 * 4 + 4 * number;
  }
};

/// Column of a SpreadShape's matrix, as seen by the thread that copies it.
class SpreadColumn {
 public:
  __device__ SpreadColumn(const SpreadShape& w, const ProductRange& range, unsigned n) : w_(w) {
    const unsigned r = range.number / w.across.stride, s = range.number % w.across.stride;
    const PlaneSpot spot = spot_of(n, w.down.numbers(r), w.across.numbers(s));
    width_ = w.across.places(s);
    per_row_ = s < w.across.window % w.across.stride ? w.per_longer_row : w.per_row;
    row_ = n < range.columns ? static_cast<int>(w.down.window_of_first(r) + spot.row) : -1;
    column_ = static_cast<int>(w.across.window_of_first(s) + spot.column);
    image_ = w.in.values + std::size_t{spot.image} * (w.in.height * w.in.width);
  }
  /// Returns the address of row k, or null if there is no such window.
  __device__ const float* at(unsigned k) const {
    const unsigned place = quotient(k, w_.in.channels, w_.per_channel), r = quotient(place, width_, per_row_);
    const auto y = static_cast<unsigned>(row_ - static_cast<int>(r)),
               x = static_cast<unsigned>(column_ - static_cast<int>(place - r * width_));
    if (y >= w_.in.height || x >= w_.in.width) return nullptr;
    return image_ + (k - place * w_.in.channels) * w_.in.pitch + (y * w_.in.width + x);
  }

 private:
  const SpreadShape& w_;
  unsigned width_, per_row_;
  int row_, column_;
  const float* image_;
};

/// Returns the range of a tile. Tiles of all classes alternate, so that adjacent numbers are written at about the same
/// time.
template <class Tile>
__device__ ProductRange range_of(const SpreadShape& b, const ProductShape&, unsigned tile) {
  const unsigned number = tile % b.classes();
  return {tile / b.classes() * Tile::columns, b.columns(number), b.rows(number), number, b.weights(number)};
}
template <class Tile>
__device__ WindowSource<Tile, SpreadColumn> source_of(const SpreadShape& b, const ProductRange& range) {
  return {SpreadColumn(b, range, range.column + threadIdx.x % Tile::columns), b.in, range.k};
}

/// Writes a thread's sums to the numbers of a class, or adds them to the existing values; the backward pass needs no
/// other epilogue. Does nothing and returns false if there is a single class, whose numbers are contiguous.
template <class Tile>
__device__ bool scatter(const SpreadShape& b, const ProductRange& range, const device::TileSums<Tile>& sums,
                        const device::TilePlace<Tile>& place, unsigned row, const ProductShape& p,
                        const Epilogue& epilogue) {
  if (b.classes() == 1) return false;
  const unsigned r = range.number / b.across.stride, s = range.number % b.across.stride;
  const bool is_part = p.partial != nullptr, adds = !is_part && epilogue.addend.other.values != nullptr;
  float* out = is_part ? p.partial + std::size_t{blockIdx.y} * p.m * epilogue.pitch : epilogue.out;
#pragma unroll
  for (unsigned j = 0; j < Tile::thread_columns; ++j) {
    const unsigned column = range.column + place.column_of(j);
    if (column >= range.columns) continue;
    const PlaneSpot spot = spot_of(column, b.down.numbers(r), b.across.numbers(s));
    const unsigned n = (spot.image * b.down.plane + b.down.first(r) + spot.row * b.down.stride) * b.across.plane +
                       b.across.first(s) + spot.column * b.across.stride;
    float there[Tile::thread_rows] = {};  // loaded together: a load after each store would wait for memory again
    if (adds) {
#pragma unroll
      for (unsigned i = 0; i < Tile::thread_rows; ++i) {
        const unsigned c = row + place.row_of(i);
        if (c < p.m) there[i] = out[c * epilogue.pitch + n];
      }
    }
#pragma unroll
    for (unsigned i = 0; i < Tile::thread_rows; ++i) {
      const unsigned c = row + place.row_of(i);
      if (c < p.m) out[c * epilogue.pitch + n] = adds ? sums[i][j] + there[i] : sums[i][j];
    }
  }
  return true;
}

constexpr unsigned turned_tile = 32;  // output channels and input channels per block; a block has one place

// turned[c][class][place][m] = weights[m][place][c]; zeros up to 16 bytes after each class
static __global__ void __launch_bounds__(layer_threads)
    turn_weights(const float* weights, std::size_t weights_pitch, unsigned channels, SpreadShape w, float* turned,
                 std::size_t pitch) {
  __shared__ float tile[turned_tile][turned_tile + 1];
  const unsigned m = w.in.channels, tiles = (m + turned_tile - 1) / turned_tile, place = blockIdx.x / tiles;
  const unsigned first_m = blockIdx.x % tiles * turned_tile, first_c = blockIdx.y * turned_tile;
  const unsigned lane = threadIdx.x % turned_tile, line = threadIdx.x / turned_tile;
  for (unsigned i = line; i < turned_tile; i += layer_threads / turned_tile) {
    if (first_m + i < m && first_c + lane < channels)
      tile[i][lane] = weights[(first_m + i) * weights_pitch + place * channels + first_c + lane];
  }
  __syncthreads();
  const unsigned y = place / w.across.window, x = place % w.across.window;
  const unsigned r = y % w.down.stride, s = x % w.across.stride, number = r * w.across.stride + s;
  const unsigned at = (y / w.down.stride * w.across.places(s) + x / w.across.stride) * m + first_m + lane;
  const unsigned end = w.rows(number);
  if (first_m + lane >= m) return;
  for (unsigned i = line; i < turned_tile && first_c + i < channels; i += layer_threads / turned_tile) {
    float* to = turned + ((first_c + i) * pitch + w.weights(number));
    to[at] = tile[lane][i];
    if (at + 1 == end)
      for (unsigned after = end; after % 4 != 0; ++after) to[after] = 0;
  }
}

// --- batch normalisation ---------------------------------------------------------------------------

struct TwoSums {
  float first, second;
};

/// Two partial sums per slice of each channel, stored as [2][channels][slices].
struct ChannelSums {
  float* values;
  unsigned channels, slices, per_slice, columns;
  __device__ unsigned size(unsigned slice) const {
    const unsigned left = columns - slice * per_slice;
    return left < per_slice ? left : per_slice;
  }
  __device__ float of(unsigned which, unsigned c) const {
    float sum = 0;
    for (unsigned s = 0; s < slices; ++s) sum += values[(which * channels + c) * slices + s];
    return sum;
  }
};

/// Mean and 1 / standard deviation of each channel, stored as [2][channels].
struct Statistics {
  float* values;
  unsigned channels;
  __device__ float mean(unsigned c) const { return values[c]; }
  __device__ float inverse(unsigned c) const { return values[channels + c]; }
};

/// Terms of two sums: gradients and, with batch normalisation, gradients times the normalized numbers.
struct SumOfGradients {
  Result result;
  const float* sums;
  std::size_t pitch;
  Statistics statistics;
  __device__ TwoSums operator()(unsigned c, unsigned n) const {
    const float gradient = result(c, n);
    if (sums == nullptr) return {gradient, 0};
    return {gradient, gradient * ((sums[c * pitch + n] - statistics.mean(c)) * statistics.inverse(c))};
  }
};

// for (n : slice) sums[0][c][slice] += of(c, n).first, sums[1][c][slice] += of(c, n).second;
static __global__ void __launch_bounds__(layer_threads) sum_gradients(SumOfGradients of, ChannelSums sums) {
  __shared__ float shared[layer_threads];
  const unsigned slice = blockIdx.x, c = blockIdx.y, begin = slice * sums.per_slice, end = begin + sums.size(slice);
  TwoSums own = {0, 0};
  for (unsigned n = begin + threadIdx.x; n < end; n += layer_threads) {
    const TwoSums x = of(c, n);
    own.first += x.first;
    own.second += x.second;
  }
  const auto add = [](float a, float b) { return a + b; };
  own.first = of_block(own.first, shared, add);
  own.second = of_block(own.second, shared, add);
  if (threadIdx.x != 0) return;
  sums.values[c * sums.slices + slice] = own.first;
  sums.values[(sums.channels + c) * sums.slices + slice] = own.second;
}

// sums[0][c][slice] = sum of the slice, sums[1][c][slice] = sum of squared differences from the slice's mean
//
// A slice is read twice; the second time it is in a cache.
static __global__ void __launch_bounds__(layer_threads)
    sum_moments(const float* values, std::size_t pitch, ChannelSums sums) {
  __shared__ float shared[layer_threads];
  const unsigned slice = blockIdx.x, c = blockIdx.y, begin = slice * sums.per_slice, end = begin + sums.size(slice);
  const auto add = [](float a, float b) { return a + b; };
  float sum = 0, squares = 0;
  for (unsigned n = begin + threadIdx.x; n < end; n += layer_threads) sum += values[c * pitch + n];
  sum = of_block(sum, shared, add);
  const float mean = sum / static_cast<float>(end - begin);
  for (unsigned n = begin + threadIdx.x; n < end; n += layer_threads) {
    const float x = values[c * pitch + n] - mean;
    squares += x * x;
  }
  squares = of_block(squares, shared, add);
  if (threadIdx.x != 0) return;
  sums.values[c * sums.slices + slice] = sum;
  sums.values[(sums.channels + c) * sums.slices + slice] = squares;
}

// Computes each channel's mean and 1 / deviation, and updates running = 0.99 running + 0.01 of this batch.
static __global__ void __launch_bounds__(layer_threads)
    find_statistics(ChannelSums sums, Statistics statistics, float* means, float* variances) {
  const unsigned c = own_column();
  if (c >= sums.channels) return;
  const auto count = static_cast<float>(sums.columns);
  const float mean = sums.of(0, c) / count;
  float squares = sums.of(1, c);
  for (unsigned s = 0; s < sums.slices; ++s) {
    const auto size = static_cast<float>(sums.size(s));
    const float off = sums.values[c * sums.slices + s] / size - mean;
    squares += size * (off * off);
  }
  const float variance = squares / count;
  statistics.values[c] = mean;
  statistics.values[sums.channels + c] = 1 / sqrtf(variance + 1e-6f);
  means[c] = 0.99f * means[c] + 0.01f * mean;
  variances[c] = 0.99f * variances[c] + 0.01f * variance;
}

// out[c][n] = activation(scale[c] * (sums[c][n] - mean) / deviation + bias[c]);
static __global__ void __launch_bounds__(layer_threads)
    normalize(const float* sums, Statistics statistics, const float* scales, const float* biases, unsigned activation,
              unsigned columns, float* out, std::size_t pitch) {
  const unsigned n = own_column(), c = blockIdx.y;
  if (n >= columns) return;
  const float x = (sums[c * pitch + n] - statistics.mean(c)) * statistics.inverse(c);
  out[c * pitch + n] = activate(x * scales[c] + biases[c], activation);
}

// biases[c], scales[c] = the channel's two sums
static __global__ void __launch_bounds__(layer_threads) add_slices(ChannelSums sums, float* biases, float* scales) {
  const unsigned c = own_column();
  if (c >= sums.channels) return;
  biases[c] = sums.of(0, c);
  if (scales != nullptr) scales[c] = sums.of(1, c);
}

/// Arguments for the backward pass of batch normalisation; without batch normalisation, `sums` is null.
struct Normalization {
  const float* sums;
  std::size_t pitch;
  Statistics statistics;
  const float *scales, *biases_gradient, *scales_gradient;
};

// Computes the gradient of a layer's sums of products, padded with zeros to 16 bytes.
static __global__ void __launch_bounds__(layer_threads)
    find_slopes(Result result, Normalization by, unsigned columns, float* slopes, std::size_t pitch) {
  const unsigned n = own_column(), c = blockIdx.y;
  if (n >= (columns + 3) / 4 * 4) return;
  float slope = n < columns ? result(c, n) : 0;
  if (by.sums != nullptr && n < columns) {
    const float inverse = by.statistics.inverse(c), x = (by.sums[c * by.pitch + n] - by.statistics.mean(c)) * inverse;
    const auto count = static_cast<float>(columns);
    slope = by.scales[c] * inverse * (slope - by.biases_gradient[c] / count - x * (by.scales_gradient[c] / count));
  }
  slopes[c * pitch + n] = slope;
}

// --- other layers ----------------------------------------------------------------------------------

// Computes a number's gradient: the sum of the gradients of all windows in which it is the first largest number.
static __global__ void __launch_bounds__(layer_threads)
    pool_largest_back(WindowShape w, Planes gradient, unsigned columns, Gradient to) {
  const unsigned n = own_column(), c = blockIdx.y;
  if (n >= columns) return;
  const PlaneSpot spot = spot_of(n, w.in.height, w.in.width);
  float sum = 0;
  // The loop visits the windows that contain the number, from the last to the first.
  const unsigned y = spot.row + w.before, x = spot.column + w.before;
  for (unsigned row = y / w.stride + 1; row-- > 0 && y - row * w.stride < w.height;) {
    for (unsigned column = x / w.stride + 1; column-- > 0 && x - column * w.stride < w.width;) {
      if (row >= w.out_height || column >= w.out_width) continue;
      const WindowColumn own(w, {spot.image, row, column});
      const float* largest = nullptr;
      for (unsigned r = 0; r < w.height; ++r) {
        for (unsigned s = 0; s < w.width; ++s) {
          const float* value = own.at(r, s, c);
          if (value != nullptr && (largest == nullptr || *value > *largest)) largest = value;
        }
      }
      const unsigned m = (spot.image * w.out_height + row) * w.out_width + column;
      if (largest == own.at(y - row * w.stride, x - column * w.stride, c))
        sum += gradient.values[c * gradient.pitch + m];
    }
  }
  to.give(c, n, sum);
}

static __global__ void __launch_bounds__(layer_threads)
    pool_average_back(Planes gradient, unsigned plane, unsigned columns, Gradient to) {
  const unsigned n = own_column(), c = blockIdx.y;
  if (n < columns) to.give(c, n, gradient.values[c * gradient.pitch + n / plane] / static_cast<float>(plane));
}

// Computes the gradient of one input of a shortcut. The second input has planes `stride` times as high and wide, and
// may have more channels than the output.
static __global__ void __launch_bounds__(layer_threads)
    shortcut_back(Result result, unsigned stride, unsigned height, unsigned width, unsigned columns, Gradient to) {
  const unsigned n = own_column(), c = blockIdx.y;
  if (n >= columns) return;
  const PlaneSpot spot = spot_of(n, height, width);
  const unsigned row = spot.row / stride, column = spot.column / stride;
  const auto& out = result.out;
  const bool was_added =
      c < out.channels && spot.row % stride == 0 && spot.column % stride == 0 && row < out.height && column < out.width;
  to.give(c, n, was_added ? result(c, (spot.image * out.height + row) * out.width + column) : 0);
}

// Computes the gradients of both inputs of a shortcut if they have equal shapes.
static __global__ void __launch_bounds__(layer_threads)
    shortcut_back_to_both(Result result, unsigned columns, Gradient to, Gradient other) {
  const unsigned n = own_column(), c = blockIdx.y;
  if (n >= columns) return;
  const float x = result(c, n);
  to.give(c, n, x);
  other.give(c, n, x);
}

static __global__ void __launch_bounds__(layer_threads)
    split(Planes gradient, unsigned first, unsigned columns, Gradient to) {
  const unsigned n = own_column(), c = blockIdx.y;
  if (n < columns) to.give(c, n, gradient.values[(first + c) * gradient.pitch + n]);
}

static __global__ void __launch_bounds__(layer_threads)
    enlarge_back(Planes gradient, unsigned factor, unsigned columns, Gradient to) {
  const unsigned n = own_column(), c = blockIdx.y;
  if (n >= columns) return;
  const PlaneSpot spot = spot_of(n, gradient.height / factor, gradient.width / factor);
  float sum = 0;
  for (unsigned r = 0; r < factor; ++r) {
    for (unsigned s = 0; s < factor; ++s) {
      const unsigned line = spot.image * gradient.height + spot.row * factor + r;
      sum += gradient.values[c * gradient.pitch + line * gradient.width + spot.column * factor + s];
    }
  }
  to.give(c, n, sum);
}

static __global__ void __launch_bounds__(layer_threads)
    find_boxes_back(Result result, unsigned entries, unsigned columns, Gradient to) {
  const unsigned n = own_column(), c = blockIdx.y, entry = c % entries;
  if (n >= columns) return;
  result.activation = entry == 2 || entry == 3 ? 0 : 3;
  to.give(c, n, result(c, n));
}

// --- the loss --------------------------------------------------------------------------------------

/// Expected results, image by image, and the loss function for differences from them.
struct Targets {
  const float* values;
  std::size_t of_an_image;
  bool entropy;  ///< true: -target · log(result), for a softmax's results; false: half the squared difference
  float factor;
};

constexpr unsigned loss_slices = 32;  // blocks per image

// losses[image][slice] = factor * sum of the losses of the slice's results
static __global__ void __launch_bounds__(layer_threads) find_losses(Planes out, Targets targets, float* losses) {
  __shared__ float shared[layer_threads];
  const unsigned plane = out.height * out.width, count = out.channels * plane;
  float sum = 0;
  for (unsigned i = blockIdx.y * layer_threads + threadIdx.x; i < count; i += loss_slices * layer_threads) {
    const float value = out.values[i / plane * out.pitch + std::size_t{blockIdx.x} * plane + i % plane];
    const float target = targets.values[blockIdx.x * targets.of_an_image + i], off = value - target;
    sum += targets.entropy ? (target == 0 ? 0 : -target * logf(fmaxf(value, 1e-30f))) : off * off / 2;
  }
  sum = of_block(sum, shared, [](float a, float b) { return a + b; });
  if (threadIdx.x == 0) losses[blockIdx.x * loss_slices + blockIdx.y] = targets.factor * sum;
}

// *loss = sum of all losses
static __global__ void __launch_bounds__(layer_threads) add_losses(const float* losses, unsigned count, float* loss) {
  __shared__ float shared[layer_threads];
  float sum = 0;
  for (unsigned i = threadIdx.x; i < count; i += layer_threads) sum += losses[i];
  sum = of_block(sum, shared, [](float a, float b) { return a + b; });
  if (threadIdx.x == 0) *loss = sum;
}

// Computes the gradient of the results, or of the softmax's input if a softmax computed the results.
static __global__ void __launch_bounds__(layer_threads)
    loss_back(Planes out, Targets targets, unsigned columns, Gradient to) {
  const unsigned n = own_column(), c = blockIdx.y, plane = out.height * out.width;
  if (n >= columns) return;
  const float target = targets.values[n / plane * targets.of_an_image + std::size_t{c} * plane + n % plane];
  to.give(c, n, (out.values[c * out.pitch + n] - target) * targets.factor);
}

// --- learning --------------------------------------------------------------------------------------

/// Array of learned numbers, with their gradients and velocities.
struct Learned {
  float *values, *velocities;
  const float* gradients;
  unsigned count;
  float decay;
  constexpr unsigned threads() const { return (count + layer_threads - 1) / layer_threads * layer_threads; }
};
/// Learned arrays of a layer, which one launch updates; `scales` is empty without batch normalisation.
struct LearnedArrays {
  Learned weights, biases, scales;
};

// velocity = momentum * velocity + gradient + decay * value, value -= rate * velocity
static __global__ void __launch_bounds__(layer_threads) learn(LearnedArrays all, float rate, float momentum) {
  Learned own = all.weights;
  unsigned i = own_column();
  if (i >= own.threads()) {
    i -= own.threads();
    own = all.biases;
    if (i >= own.threads()) {
      i -= own.threads();
      own = all.scales;
    }
  }
  if (i >= own.count) return;
  const float velocity = momentum * own.velocities[i] + own.gradients[i] + own.decay * own.values[i];
  own.velocities[i] = velocity;
  own.values[i] -= rate * velocity;
}

}  // namespace isthmus::apps
