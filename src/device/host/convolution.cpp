// Convolutions in plain loops: sums are accumulated in double precision and rounded once. If transforms are allowed,
// results have an error like that of transforms, which also includes rounding of values outside the window.

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "device/api/injection.hpp"
#include "device/api/library_arguments.hpp"
#include "device/host/library.hpp"

namespace isthmus::device {
namespace {

/// Rounds to eleven significant bits, ties to even.
float as_tf32(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu);
}

/// Describes an operand, from its first to its last element, for the emulator's checks.
emulator::Operand images(const char* name, const float* pointer, const ConvolutionShape& s, bool written) {
  const std::int64_t elements =
      written ? (s.images - 1) * s.out_image + (s.filters - 1) * s.out_channel + s.out_height() * s.out_width()
              : (s.images - 1) * s.in_image + (s.channels - 1) * s.in_channel + s.height * s.width;
  const std::size_t bytes = static_cast<std::size_t>(elements) * sizeof(float);
  return {name, pointer, bytes, 1, bytes, written};
}

/// Computes one output element, before rounding.
double convolve(const ConvolutionShape& s, bool tf32, const float* image, const float* filter, std::int64_t row,
                std::int64_t column) {
  double sum = 0;
  for (std::int64_t c = 0; c < s.channels; ++c) {
    for (std::int64_t r = 0; r < s.window_height; ++r) {
      const std::int64_t y = row * s.stride + r - s.padding;
      for (std::int64_t q = 0; q < s.window_width; ++q, ++filter) {
        const std::int64_t x = column * s.stride + q - s.padding;
        if (y < 0 || y >= s.height || x < 0 || x >= s.width) continue;
        const float value = image[c * s.in_channel + y * s.width + x];
        sum += tf32 ? double{as_tf32(value)} * as_tf32(*filter) : double{value} * *filter;
      }
    }
  }
  return sum;
}

double norm(const float* values, std::int64_t channels, std::int64_t channel, std::int64_t plane) {
  double squares = 0;
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t i = 0; i < plane; ++i) squares += double{values[c * channel + i]} * values[c * channel + i];
  }
  return std::sqrt(squares);
}

}  // namespace

struct Convolutions::Library {
  int device;
  bool tf32, transforms;
  std::vector<ConvolutionShape> shapes;
  std::vector<Chosen> chosen;
};

Convolutions::Convolutions(Math math, Algorithms algorithms) : library_(nullptr) {
  injection_point("convolutions_create");
  library_ = new Library{selected(), math == Math::tf32, algorithms == Algorithms::any, {}, {}};
}

Convolutions::~Convolutions() {
  delete library_;
}

std::string Convolutions::version() const {
  return "emulated convolutions";
}

std::size_t Convolutions::plan(const ConvolutionShape& shape) {
  constexpr const char* call = "convolutions_plan";
  injection_point(call);
  check_shape(call, shape);
  library_->shapes.push_back(shape);
  library_->chosen.push_back({.algorithm = library_->transforms ? "transforms" : "loops",
                              .tf32 = library_->tf32,
                              .transforms = library_->transforms,
                              .workspace_bytes = static_cast<std::size_t>(shape.filters) * sizeof(float)});
  return library_->shapes.size() - 1;
}

const Convolutions::Chosen& Convolutions::chosen(std::size_t number) const {
  return library_->chosen.at(number);
}

void Convolutions::run(Stream& stream, std::size_t number, const float* in, const float* filters, float* out,
                       void* workspace) {
  constexpr const char* call = "convolutions_run";
  injection_point(call);
  const auto& shape = library_->shapes.at(number);
  const std::size_t workspace_bytes = chosen(number).workspace_bytes;
  require_workspace(call, workspace, workspace_bytes);
  const std::int64_t of_filter = shape.channels * shape.window_height * shape.window_width;
  const std::size_t filter_bytes = static_cast<std::size_t>(shape.filters * of_filter) * sizeof(float);
  queue_library_call(call, library_->device, stream,
                     {images("the input", in, shape, false),
                      {"the filters", filters, filter_bytes, 1, filter_bytes, false},
                      images("the output", out, shape, true),
                      {"the workspace", workspace, workspace_bytes, 1, workspace_bytes, true}},
                     [=, s = shape, tf32 = library_->tf32, transforms = library_->transforms] {
                       // Overwrite the workspace, so that callers cannot rely on data in it.
                       std::memset(workspace, 0xff, workspace_bytes);
                       for (std::int64_t b = 0; b < s.images; ++b) {
                         const float* image = in + b * s.in_image;
                         const double size = norm(image, s.channels, s.in_channel, s.height * s.width);
                         for (std::int64_t m = 0; m < s.filters; ++m) {
                           const float* filter = filters + m * of_filter;
                           // Error of eight rounding steps, relative to the norms.
                           const auto rounder =
                               static_cast<float>(transforms ? 8 * size * norm(filter, 1, 0, of_filter) : 0);
                           float* plane = out + b * s.out_image + m * s.out_channel;
                           for (std::int64_t i = 0; i < s.out_height() * s.out_width(); ++i) {
                             const double sum = convolve(s, tf32, image, filter, i / s.out_width(), i % s.out_width());
                             plane[i] = static_cast<float>(sum + rounder) - rounder;
                           }
                         }
                       }
                     });
}

}  // namespace isthmus::device
