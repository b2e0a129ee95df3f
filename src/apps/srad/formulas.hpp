#pragma once

// Formulas of apps/srad and apps/srad_v1: those that host and device share, the serial reference, and the difference
// between these formulas and the original program's.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "apps/checks.hpp"
#include "device/kernel/reciprocal.hpp"
#include "memory/parallel.hpp"
#include "workload/worst.hpp"

namespace isthmus::apps::diffusion {

using Sum = unsigned long long;

/// Parameters of a step that depend on the speckle's strength q0, the squared coefficient of variation.
struct Speckle {
  float steepness, limit, rate;  // 8 / q0²; q0 / (1 + q0); a quarter of the original's lambda, divided by limit
};
/// Returns an intensity, or its square, as a whole number, 2^23 times its value. Sums of whole numbers are exact in any
/// order.
__host__ __device__ inline Sum counted(float value) {
  return static_cast<Sum>(value * 0x1p23f);
}
__host__ __device__ inline Speckle speckle_with(double q0) {
  const double limit = q0 / (1 + q0);
  return {static_cast<float>(8 / (q0 * q0)), static_cast<float>(limit), static_cast<float>(0.25 * 0.5 / limit)};
}
__host__ __device__ inline Speckle speckle_of(Sum sum, Sum squares, double cells) {
  const double mean = static_cast<double>(sum) / cells * 0x1p-23;
  const double variance = fma(-mean, mean, static_cast<double>(squares) / cells * 0x1p-23);
  const double ratio = variance / (mean * mean);
  return speckle_with(ratio > 0x1p-40 ? ratio : 0x1p-40);
}

// Every product that is part of a sum is in an explicit fma, so that the host and every GPU compute the same bits.
struct Differences {
  float above, below, left, right;
};
/// Returns the original program's coefficient times `limit`: s / (s + (8 g - l²) / q0²), where g is the sum of the
/// squares of the differences, l their sum and s the square of the four neighbours' sum. It is never negative.
__host__ __device__ inline float coefficient_of(float own, const Differences& d, const Speckle& speckle) {
  const float squares = fmaf(d.above, d.above, fmaf(d.below, d.below, fmaf(d.left, d.left, d.right * d.right)));
  const float sum = (d.above + d.below) + (d.left + d.right), root = fmaf(4, own, sum), square = root * root;
  const float c = square * device::reciprocal(fmaf(fmaf(-0.125f * sum, sum, squares), speckle.steepness, square));
  return fminf(c, speckle.limit);
}
/// Returns the part of a cell's update that its own coefficient and the one to its right determine; updated() adds the
/// part of the cell below.
__host__ __device__ inline float begun(const Differences& d, float c, float c_right) {
  return fmaf(c, d.above + d.left, c_right * d.right);
}
__host__ __device__ inline float updated(float own, float begun, float d_below, float c_below, const Speckle& speckle) {
  return fmaf(speckle.rate, fmaf(c_below, d_below, begun), own);
}

// Version 1 begins with exp(pixel / 255) and ends with 255 times the logarithm. Both are computed as series with fused
// multiply-adds, because library functions produce different bits on different machines.
constexpr float root_of_e = 1.64872127f;
__host__ __device__ inline float intensity_of(float pixel) {  // series around the middle of the pixels' range, 0 to 255
  const float x = fmaf(pixel, 1 / 255.0f, -0.5f);
  float value = 4.0890905e-5f;  // root_of_e / 8!
  value = fmaf(value, x, 3.2712724e-4f);
  value = fmaf(value, x, 2.28989065e-3f);
  value = fmaf(value, x, 0.0137393439f);
  value = fmaf(value, x, 0.0686967196f);
  value = fmaf(value, x, 0.274786878f);
  value = fmaf(value, x, 0.824360635f);
  return fmaf(fmaf(value, x, root_of_e), x, root_of_e);
}
__host__ __device__ inline float pixel_of(float intensity) {  // series of the inverse tanh, for intensities from 1 to e
  const float t = (intensity - root_of_e) * device::reciprocal(intensity + root_of_e), square = t * t;
  float value = 1 / 11.0f;
  value = fmaf(value, square, 1 / 9.0f);
  value = fmaf(value, square, 1 / 7.0f);
  value = fmaf(value, square, 1 / 5.0f);
  value = fmaf(value, square, 1 / 3.0f);
  value = fmaf(value, square, 1.0f);
  return fmaf(510 * t, value, 127.5f);
}

struct Image {
  std::int64_t rows, columns;
  std::size_t pitch;
  std::int64_t roi_rows, roi_columns;  // region of the statistics, which begins at the first cell

  __host__ __device__ double roi_cells() const {
    return static_cast<double>(roi_rows) * static_cast<double>(roi_columns);
  }
};

template <class Values>
void reference(const Image& image, const Values& values, std::size_t steps, std::span<float> out) {
  std::vector<float> other(out.size()), coefficients(out.size());
  std::span<float> from = out, to = other;
  const auto rows = static_cast<std::size_t>(image.rows), columns = static_cast<std::size_t>(image.columns);
  const auto each = [&](std::span<float> result, auto value) {
    memory::parallel_for(rows, 16, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first * columns, c = 0; i < last * columns; ++i, c = c + 1 < columns ? c + 1 : 0) {
        const std::size_t below = i + columns < out.size() ? i + columns : i, right = c + 1 < columns ? i + 1 : i;
        const float own = from[i];
        const Differences d{from[i < columns ? i : i - columns] - own, from[below] - own, from[c > 0 ? i - 1 : i] - own,
                            from[right] - own};
        result[i] = value(own, d, i, below, right);
      }
    });
  };
  each(from, [&](float, const Differences&, std::size_t i, auto...) { return values(i); });
  for (std::size_t step = 0; step < steps; ++step, std::swap(from, to)) {
    const auto sums = sums_of<Sum, 2>(static_cast<std::size_t>(image.roi_rows), 16, [&](std::size_t r, auto& part) {
      for (const float value : from.subspan(r * columns, static_cast<std::size_t>(image.roi_columns))) {
        part[0] += counted(value);
        part[1] += counted(value * value);
      }
    });
    const Speckle now = speckle_of(sums[0], sums[1], image.roi_cells());
    each(coefficients, [&](float own, const Differences& d, auto...) { return coefficient_of(own, d, now); });
    each(to, [&](float own, const Differences& d, std::size_t i, std::size_t below, std::size_t right) {
      return updated(own, begun(d, coefficients[i], coefficients[right]), d.below, coefficients[below], now);
    });
  }
  if (steps % 2 == 1) std::copy(from.begin(), from.end(), out.begin());
}

/// Returns the largest error of our arithmetic compared with the original program's formulas in double, over cells with
/// arbitrary neighbours.
template <class Values>
double formula_error(const Values& values) {
  double error = 0;
  for (std::size_t i = 0; i < 10000; ++i) {
    const float own = values(9 * i);
    const double j = own, n = values(9 * i + 1) - j, s = values(9 * i + 2) - j, w = values(9 * i + 3) - j;
    const double e = values(9 * i + 4) - j, q0 = 0.1 * values(9 * i + 5),
                 g2 = (n * n + s * s + w * w + e * e) / (j * j);
    const double l = (n + s + w + e) / j, num = 0.5 * g2 - 1.0 / 16 * l * l, den = 1 + 0.25 * l;
    const double c = std::clamp(1 / (1 + (num / (den * den) - q0) / (q0 * (1 + q0))), 0.0, 1.0);
    const auto f = [](double value) { return static_cast<float>(value); };
    const Differences d{f(n), f(s), f(w), f(e)};
    const float below = values(9 * i + 6) - 1, right = values(9 * i + 7) - 1;
    const double next = j + 0.25 * 0.5 * (c * n + below * s + c * w + right * e);
    const Speckle speckle = speckle_with(q0);
    const float part = speckle.limit;
    error = workload::worst(error, std::abs(coefficient_of(own, d, speckle) / double{part} - c));
    error = workload::worst(
        error, std::abs(updated(own, begun(d, f(c) * part, right * part), d.below, below * part, speckle) - next));
  }
  return error;
}

/// Returns the largest error of version 1's first and last step compared with exp() and log() in double, in units of
/// pixel values.
inline double series_error() {
  double error = 0;
  for (int k = 0; k <= 2550; ++k) {
    const float pixel = 0.1f * static_cast<float>(k);
    const double intensity = std::exp(pixel / 255.0);
    error = workload::worst(error, 255 * std::abs(intensity_of(pixel) - intensity));
    const auto rounded = static_cast<float>(intensity);
    error = workload::worst(error, std::abs(pixel_of(rounded) - 255 * std::log(double{rounded})));
  }
  return error;
}

}  // namespace isthmus::apps::diffusion
