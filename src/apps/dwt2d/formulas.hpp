#pragma once

// Formulas of apps/dwt2d: the lifting steps that host and device share, the serial reference, and checks independent of
// both, which use the published filter taps of the 9/7 wavelet and the inverse of the 5/3 wavelet.

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/kernel/kernel.hpp"
#include "workload/values.hpp"
#include "workload/worst.hpp"

namespace isthmus::apps::wavelets {

/// Returns the index in [0, n) that `i` is reflected to, about the first or the last sample: …2 1 0 1 2….
__host__ __device__ inline int reflected(int i, int n) {
  if (n == 1) return 0;
  const int period = 2 * (n - 1);
  i = (i < 0 ? -i : i) % period;  // NOLINT(clang-analyzer-core.DivideZero): n is at least 2
  return i < n ? i : period - i;
}
/// Returns the number of samples in the low band of `n` samples.
__host__ __device__ inline std::size_t half(std::size_t n) {
  return (n + 1) / 2;
}
inline std::size_t halved(std::size_t n, unsigned times) {
  for (; times > 0; --times) n = half(n);
  return n;
}

// Lifting works in place: odd samples are predicted from their even neighbours, even samples are then updated from
// their odd neighbours, and so on. At the end the even samples are the low band and the odd ones the high band.
//
// for (i = 0; i < lifts; ++i)
//   for (k = 1 - i % 2; k < n; k += 2) x[k] = lift(i, x[k], x[k-1], x[k+1]);
struct Exact {  // JPEG 2000's reversible 5/3 wavelet, for whole numbers
  using Value = int;
  static constexpr int lifts = 2;
  static constexpr double flops = 0;
  static __host__ __device__ int lift(int i, int own, int before, int after) {
    return i == 0 ? own - ((before + after) >> 1) : own + ((before + after + 2) >> 2);
  }
  static __host__ __device__ int scaled_low(int value) { return value; }
  static __host__ __device__ int scaled_high(int value) { return value; }
  /// Samples from -128 to 127, the range of a component after its level shift.
  struct Image {
    std::uint64_t seed;
    int operator()(std::size_t i) const { return static_cast<int>(workload::hash(seed, 0, i) >> 56) - 128; }
  };
};
struct Smooth {  // JPEG 2000's irreversible 9/7 wavelet, by Cohen, Daubechies and Feauveau
  using Value = float;
  static constexpr int lifts = 4;
  static constexpr double flops = 12;  // per sample: two lifts in each of two directions, each an addition and an fma
  static __host__ __device__ float lift(int i, float own, float before, float after) {
    const float factor = i == 0 ? -1.586134342f : i == 1 ? -0.052980119f : i == 2 ? 0.882911076f : 0.443506852f;
    return fmaf(factor, before + after, own);  // explicit fma: the same bits on the host and on every GPU
  }
  /// Scaling divides a low sample by 1.230174105 for each direction and multiplies a high one by it, so a level's two
  /// mixed bands need no scaling.
  static __host__ __device__ float scaled_low(float value) { return value * 0.660795137f; }
  static __host__ __device__ float scaled_high(float value) { return value * 1.513328328f; }
  struct Image {
    std::uint64_t seed;
    float operator()(std::size_t i) const { return workload::uniform(seed, 0, -128, 128)(i); }
  };
};

/// Rectangle of samples, stored row by row.
template <class T>
struct Rectangle {
  std::size_t rows, columns;
  std::vector<T> samples;

  Rectangle(std::size_t rows_, std::size_t columns_) : rows(rows_), columns(columns_), samples(rows_ * columns_) {}
  T& at(std::size_t r, std::size_t c) { return samples[r * columns + c]; }
  const T& at(std::size_t r, std::size_t c) const { return samples[r * columns + c]; }
};

/// Transforms a line of a level on the host; the low band comes first.
template <class Wavelet>
void transform_line(std::vector<typename Wavelet::Value>& line) {
  const auto length = line.size();
  if (length == 1) line.assign(3, line[0]);  // reflected at both ends, a single sample repeats forever
  const auto n = static_cast<int>(line.size());
  const auto sample = [&](int k) { return line[static_cast<std::size_t>(reflected(k, n))]; };
  for (int i = 0; i < Wavelet::lifts; ++i) {
    for (int k = 1 - i % 2; k < n; k += 2)
      line[static_cast<std::size_t>(k)] = Wavelet::lift(i, sample(k), sample(k - 1), sample(k + 1));
  }
  std::vector<typename Wavelet::Value> bands;
  for (std::size_t first = 0; first < 2; ++first) {
    for (std::size_t k = first; k < length; k += 2) bands.push_back(line[k]);
  }
  line = std::move(bands);
}
template <class T, class Change>
void change_lines(Rectangle<T>& image, std::size_t rows, std::size_t columns, bool along_rows, const Change& change) {
  std::vector<T> line;
  for (std::size_t i = 0; i < (along_rows ? rows : columns); ++i) {
    line.resize(along_rows ? columns : rows);
    for (std::size_t k = 0; k < line.size(); ++k) line[k] = along_rows ? image.at(i, k) : image.at(k, i);
    change(line);
    for (std::size_t k = 0; k < line.size(); ++k) (along_rows ? image.at(i, k) : image.at(k, i)) = line[k];
  }
}
template <class Wavelet>
void transform(Rectangle<typename Wavelet::Value>& image, unsigned levels) {
  for (unsigned level = 0; level < levels; ++level) {
    const std::size_t rows = halved(image.rows, level), columns = halved(image.columns, level);
    change_lines(image, rows, columns, true, transform_line<Wavelet>);
    change_lines(image, rows, columns, false, transform_line<Wavelet>);
    for (std::size_t r = 0; r < rows; ++r) {
      const bool low = r < half(rows);
      for (std::size_t c = low ? 0 : half(columns); c < (low ? half(columns) : columns); ++c)
        image.at(r, c) = low ? Wavelet::scaled_low(image.at(r, c)) : Wavelet::scaled_high(image.at(r, c));
    }
  }
}

/// Restores a line from its bands: the inverse of the 5/3 wavelet as the standard defines it.
inline void restore_line(std::vector<int>& bands) {
  const auto n = static_cast<int>(bands.size()), low = (n + 1) / 2;
  if (n == 1) return;
  std::vector<int> line(bands.size());
  const auto sample = [&](int k) -> int& { return line[static_cast<std::size_t>(reflected(k, n))]; };
  const auto floor_of = [](double value) { return static_cast<int>(std::floor(value)); };
  for (int k = 0; k < n; ++k) sample(k) = bands[static_cast<std::size_t>(k % 2 == 0 ? k / 2 : low + k / 2)];
  for (int k = 0; k < n; k += 2) sample(k) -= floor_of((sample(k - 1) + sample(k + 1) + 2) / 4.0);
  for (int k = 1; k < n; k += 2) sample(k) += floor_of((sample(k - 1) + sample(k + 1)) / 2.0);
  bands = line;
}
inline void restore(Rectangle<int>& image, unsigned levels) {
  for (unsigned level = levels; level-- > 0;) {
    const std::size_t rows = halved(image.rows, level), columns = halved(image.columns, level);
    change_lines(image, rows, columns, false, restore_line);
    change_lines(image, rows, columns, true, restore_line);
  }
}

/// Returns the largest difference between lifting and the published filters in double, at 10,000 places of a random
/// signal.
inline double filter_error(std::uint64_t seed) {
  constexpr std::array low{0.602949018236, 0.266864118443, -0.078223266529, -0.016864118443, 0.026748757411};
  constexpr std::array high{1.115087052457, -0.591271763114, -0.057543526229, 0.091271763114};
  constexpr double gain = 1.230174104914;  // gain per direction
  const Smooth::Image values{seed};
  std::vector<float> line(20001);
  for (std::size_t i = 0; i < line.size(); ++i) line[i] = values(i);
  const std::vector<float> signal = line;
  transform_line<Smooth>(line);
  const auto filtered = [&](const auto& taps, std::size_t at) {
    double sum = taps[0] * signal[at];
    for (std::size_t k = 1; k < taps.size(); ++k) sum += taps[k] * (double{signal[at - k]} + double{signal[at + k]});
    return sum;
  };
  double error = 0;
  for (std::size_t k = 2; k + 2 < line.size() / 2; ++k) {
    error = workload::worst(error, std::abs(line[k] / gain - filtered(low, 2 * k)));
    error = workload::worst(error, std::abs(line[half(line.size()) + k] * gain - filtered(high, 2 * k + 1)));
  }
  // The scales apply to both directions at once. Rounding a constant changes it by at most 2^-25 of its value.
  error = workload::worst(error, 0x1p12 * std::abs(Smooth::scaled_low(1) - 1 / (gain * gain)));
  return workload::worst(error, 0x1p12 * std::abs(Smooth::scaled_high(1) - gain * gain));
}

}  // namespace isthmus::apps::wavelets
