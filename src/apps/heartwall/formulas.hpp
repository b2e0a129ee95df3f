#pragma once

// Formulas of apps/heartwall: the arithmetic that host and device share, the video, the preparation of its frames by
// the host, and a serial reference.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

#include "apps/checks.hpp"
#include "device/kernel/kernel.hpp"
#include "workload/values.hpp"

namespace isthmus::apps::tracking {

using Pixel = std::uint8_t;

// A point's template is the square of pixels around the point. It is searched for within `most` pixels of the point's
// place in the previous frame. In every `renewal`-th frame, the pixels that were found are blended into the template.
constexpr int half = 24, side = 2 * half + 1, pixels = side * side;
constexpr int most = 10, reach = 2 * most + 1, candidates = reach * reach;
constexpr int renewal = 10;

struct Place {
  int row, column;
};

struct Shape {
  int rows, columns, inner, outer;  // extent of a frame; points on either side of the wall

  __host__ __device__ int points() const { return inner + outer; }
  /// Returns whether the template of a point at this place is inside the frame.
  __host__ __device__ bool holds(const Place& at) const {
    return at.row >= half && at.row < rows - half && at.column >= half && at.column < columns - half;
  }
  std::size_t frame() const { return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns); }
  double outer_radius() const {  // smaller in small frames, so that templates stay inside
    const int least = std::min(rows, columns);
    return std::min(least / 3.0, least / 2.0 - 31);
  }
  double inner_radius() const { return 0.6 * outer_radius(); }
  /// Returns a point's place in the first frame. The inner points come first; the points of each side are equally
  /// spaced.
  Place start(int point) const {
    const bool is_inner = point < inner;
    const double angle = 2 * std::numbers::pi * (is_inner ? point : point - inner) / (is_inner ? inner : outer);
    const double radius = is_inner ? inner_radius() : outer_radius();
    return {static_cast<int>(std::lround(rows / 2.0 + radius * std::sin(angle))),
            static_cast<int>(std::lround(columns / 2.0 + radius * std::cos(angle)))};
  }
};

/// Returns whether a displacement is inside the mask, which is a disc.
__host__ __device__ inline bool may_move(int down, int across) {
  return down * down + across * across <= most * most;
}

/// Returns the signed square of the correlation between a template and a part of a frame, times a factor that is the
/// same for all parts. The sums are whole numbers, and every machine rounds products and quotients of doubles in the
/// same way.
__host__ __device__ inline double score_of(int template_sum, int sum, int squares, int products) {
  const auto covariance = static_cast<double>(std::int64_t{pixels} * products - std::int64_t{template_sum} * sum);
  const auto variance = static_cast<double>(std::int64_t{pixels} * squares - std::int64_t{sum} * sum);
  return variance > 0 ? covariance * fabs(covariance) / variance : 0;
}

/// Returns a template's pixel after blending in 13% of the pixel that was found.
__host__ __device__ inline Pixel renewed(int pixel, int found) {
  return static_cast<Pixel>((223 * pixel + 33 * found + 128) / 256);
}

/// Returns a random number from 0 to 1.
inline double share(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return static_cast<double>(workload::hash(seed, stream, index) >> 40) * 0x1p-24;
}

/// Pose of the tissue in a frame: its centre, and its height and width relative to the first frame. The heart beats
/// every 52 frames, and every 13 frames the camera slips one way or the other.
struct Pose {
  double row, column, high, wide;

  Pose(const Shape& shape, std::size_t frame) {
    const double phase = 2 * std::numbers::pi * static_cast<double>(frame) / 52;
    const double slip = (frame + 6) / 13 % 2 == 1 ? 6 : 0;
    row = shape.rows / 2.0 + 2 * std::sin(phase) + slip;
    column = shape.columns / 2.0 + 2 * (1 - std::cos(phase)) - slip;
    high = 1 - 0.03 * (1 - std::cos(phase));
    wide = 1 - 0.03 * std::sin(phase);
  }
};

/// Video of a wall between two ellipses, in tissue whose speckle moves with it. Some frames have an echo of the wall,
/// nearly as strong as the wall itself, at a place that no point can have moved to. As in a camera's frames, the last
/// row comes first and the range of values differs from frame to frame.
class Video {
 public:
  Video(const Shape& shape, std::size_t frames, std::uint64_t seed)
      : shape_(shape), seed_(seed), pixels_(frames * shape.frame()) {
    const auto rows = static_cast<std::size_t>(shape.rows), columns = static_cast<std::size_t>(shape.columns);
    memory::parallel_for(frames * rows, 16, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i)
        draw(i / rows, rows - 1 - i % rows, std::span(pixels_).subspan(i * columns, columns));
    });
  }

  std::span<const Pixel> pixels() const { return pixels_; }

 private:
  void draw(std::size_t frame, std::size_t row, std::span<Pixel> to) const {
    const Pose pose(shape_, frame);
    const double gain = 0.6 + 0.3 * share(seed_, 0, frame), echo = frame % 13 == 3 ? 0.46 : 0;
    for (std::size_t c = 0; c < to.size(); ++c) {
      const auto seen = [&](double off) {
        return brightness((static_cast<double>(row) - off - pose.row) / pose.high,
                          (static_cast<double>(c) - off - pose.column) / pose.wide);
      };
      const double noise = share(seed_, 1, frame * shape_.frame() + row * to.size() + c);
      const double both = echo == 0 ? seen(0) : (1 - echo) * seen(0) + echo * seen(10);
      to[c] = static_cast<Pixel>(gain * (both + 20 * noise));
    }
  }
  double brightness(double down, double across) const {
    const double radius = std::hypot(down, across);
    const auto beyond = [&](double edge) { return std::clamp((radius - edge) / 6 + 0.5, 0.0, 1.0); };
    const double wall = beyond(shape_.inner_radius()) - beyond(shape_.outer_radius());
    return 60 + 20 * wall + (50 + 90 * wall) * speckle(down / 4, across / 4);
  }
  /// Returns the speckle at a place, interpolated between the four grains around it.
  double speckle(double down, double across) const {
    const double top = std::floor(down), left = std::floor(across);
    const auto row = [&](double r) {
      const auto grain = [&](double c) {
        return share(seed_, 2,
                     static_cast<std::uint64_t>((static_cast<std::int64_t>(r) << 32) + static_cast<std::int64_t>(c)));
      };
      return std::lerp(grain(left), grain(left + 1), across - left);
    };
    return std::lerp(row(top), row(top + 1), down - top);
  }

  Shape shape_;
  std::uint64_t seed_;
  std::vector<Pixel> pixels_;
};

/// Prepares a frame of the video on the host for the device: puts the first row first, and stretches the values to the
/// full range.
inline void prepare_frame(const Shape& shape, std::span<const Pixel> video, std::size_t frame, Pixel* to) {
  const auto from = video.subspan(frame * shape.frame(), shape.frame());
  const auto columns = static_cast<std::size_t>(shape.columns);
  Pixel least = 255, largest = 0;
  for (const Pixel pixel : from) least = std::min(least, pixel), largest = std::max(largest, pixel);
  const auto factor = static_cast<std::uint16_t>(255 * 256 / std::max(1, largest - least));
  for (std::size_t end = from.size(); end > 0; end -= columns, to += columns) {
    const auto line = from.subspan(end - columns, columns);
    for (std::size_t c = 0; c < columns; ++c) to[c] = static_cast<Pixel>((line[c] - least) * factor / 256);
  }
}

/// Tracks one point and writes its row and column in each frame to every `stride`-th pair, starting at `track`.
inline void follow(const Shape& shape, std::span<const Pixel> frames, Place at, int* track, std::size_t stride) {
  std::vector<Pixel> known(pixels);
  const auto each = [&](const Place& centre, std::size_t frame, auto use) {
    Pixel* own = known.data();
    for (int r = 0; r < side; ++r) {
      const auto row = static_cast<std::size_t>(centre.row - half + r) * static_cast<std::size_t>(shape.columns);
      const Pixel* found = &frames[frame * shape.frame() + row + static_cast<std::size_t>(centre.column - half)];
      for (int c = 0; c < side; ++c) use(*own++, int{found[c]});
    }
  };
  each(at, 0, [](Pixel& pixel, int found) { pixel = static_cast<Pixel>(found); });
  for (std::size_t frame = 0; frame * shape.frame() < frames.size(); ++frame) {
    if (frame > 0) {
      Place best = at;
      double score = -1e300;
      for (int down = -most; down <= most; ++down) {
        for (int across = -most; across <= most; ++across) {
          const Place there{at.row + down, at.column + across};
          if (!may_move(down, across) || !shape.holds(there)) continue;
          int own = 0, sum = 0, squares = 0, products = 0;
          each(there, frame, [&](int pixel, int found) {
            own += pixel;
            sum += found;
            squares += found * found;
            products += pixel * found;
          });
          if (const double now = score_of(own, sum, squares, products); now > score) {
            score = now;
            best = there;
          }
        }
      }
      at = best;
      if (frame % renewal == 0) each(at, frame, [](Pixel& pixel, int found) { pixel = renewed(pixel, found); });
    }
    track[2 * frame * stride] = at.row;
    track[2 * frame * stride + 1] = at.column;
  }
}

inline void reference(const Shape& shape, const Video& video, std::size_t frames, std::span<int> tracks) {
  std::vector<Pixel> prepared(frames * shape.frame());
  for (std::size_t frame = 0; frame < frames; ++frame)
    prepare_frame(shape, video.pixels(), frame, &prepared[frame * shape.frame()]);
  const auto points = static_cast<std::size_t>(shape.points());
  memory::parallel_for(points, 1, [&](std::size_t first, std::size_t last) {
    for (std::size_t p = first; p < last; ++p)
      follow(shape, prepared, shape.start(static_cast<int>(p)), &tracks[2 * p], points);
  });
}

/// Returns the largest distance between a point and the tissue that was under it in the first frame.
inline double distance_from_tissue(const Shape& shape, std::size_t frames, const int* tracks) {
  const auto points = static_cast<std::size_t>(shape.points());
  return worst_of(frames * points, 1024, [&](std::size_t i) {
    const Pose first(shape, 0), now(shape, i / points);
    const Place start = shape.start(static_cast<int>(i % points));
    return std::hypot(tracks[2 * i] - (now.row + (start.row - first.row) * now.high),
                      tracks[2 * i + 1] - (now.column + (start.column - first.column) * now.wide));
  });
}

/// Returns the largest difference between scores and the correlation coefficient by its definition in double, over
/// parts that resemble the template to varying degrees.
inline double score_error(std::uint64_t seed) {
  return worst_of(256, 16, [&](std::size_t part) {
    std::array<double, pixels> own{}, found{};
    double own_mean = 0, mean = 0;
    int own_sum = 0, own_squares = 0, sum = 0, squares = 0, products = 0;
    for (std::size_t i = 0; i < pixels; ++i) {
      const double alike = share(seed, 3, part);
      const auto a = static_cast<int>(255 * share(seed, 4, part * pixels + i));
      const auto b = static_cast<int>(alike * a + (1 - alike) * 255 * share(seed, 5, part * pixels + i));
      own[i] = a, found[i] = b;
      own_mean += a / double{pixels}, mean += b / double{pixels};
      own_sum += a, own_squares += a * a, sum += b, squares += b * b, products += a * b;
    }
    double covariance = 0, own_variance = 0, variance = 0;
    for (std::size_t i = 0; i < pixels; ++i) {
      covariance += (own[i] - own_mean) * (found[i] - mean);
      own_variance += (own[i] - own_mean) * (own[i] - own_mean);
      variance += (found[i] - mean) * (found[i] - mean);
    }
    const double right = covariance / std::sqrt(own_variance * variance);
    const double score =
        score_of(own_sum, sum, squares, products) / score_of(own_sum, own_sum, own_squares, own_squares);
    return std::abs(std::copysign(std::sqrt(std::abs(score)), score) - right);
  });
}

}  // namespace isthmus::apps::tracking
