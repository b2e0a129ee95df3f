#pragma once

// Fixture for tests of device::Convolutions against a fake library that the loader finds first, so that the tests need
// neither a GPU nor a vendor's library.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "device/api/libraries.hpp"
#include "fake_convolutions.hpp"

namespace isthmus::device {

// Stubs for the parts of a backend that these tests do not link.
int selected() {
  return 0;
}
Stream::Stream() {
  handle_ = this;
}
Stream::~Stream() = default;

/// Returns the shape of a convolution of images with two planes of 3 × 4 each. Every test uses a different number of
/// images, because search results are cached.
inline ConvolutionShape shape_of(std::int64_t images, bool by_image) {
  return {.images = images,
          .channels = 2,
          .height = 3,
          .width = 4,
          .filters = 3,
          .window_height = 3,
          .window_width = 2,
          .stride = 2,
          .padding = 1,
          .in_image = by_image ? 24 : 12,
          .in_channel = by_image ? 12 : images * 12 + 4,
          .out_image = by_image ? 18 : 6,
          .out_channel = by_image ? 6 : images * 6 + 2};
}

template <class Fake>
class FakeConvolutionsTest : public testing::Test {
 protected:
  using Math = Convolutions::Math;
  using Algorithms = Convolutions::Algorithms;

  explicit FakeConvolutionsTest(const char* file) : file_(file) {}

  void SetUp() override { fake() = {}; }
  void TearDown() override { EXPECT_EQ(fake().made, fake().destroyed); }

  /// Returns the settings inside the fake library. The library's file stays open, so that they last.
  Fake& fake() {
    static void* const file = dlopen(file_, RTLD_NOW | RTLD_LOCAL);
    static auto* const find = reinterpret_cast<Fake* (*)()>(dlsym(file, "fake_convolutions"));
    return *find();
  }

  static Error error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      return error;
    }
    return {ErrorKind::failure, "none", "none", "none"};
  }
  static void expect_mentions(const Error& error, std::initializer_list<const char*> words) {
    for (const char* word : words) EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }

  /// Checks that the library received the right shape and strides: its loops compute the same sums as those here.
  /// Passes a workspace although the convolution needs none.
  void expect_sums(const ConvolutionShape& s) {
    ASSERT_EQ(s.out_height(), 2);
    ASSERT_EQ(s.out_width(), 3);
    const auto count = [&](std::int64_t channels, std::int64_t image, std::int64_t channel, std::int64_t plane) {
      return static_cast<std::size_t>((s.images - 1) * image + (channels - 1) * channel + plane);
    };
    std::vector<float> in(count(s.channels, s.in_image, s.in_channel, 12)),
        filters(static_cast<std::size_t>(s.filters * s.channels * 6)),
        out(count(s.filters, s.out_image, s.out_channel, 6), -1.0f), expected = out;
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i * 7 % 11);
    for (std::size_t i = 0; i < filters.size(); ++i) filters[i] = static_cast<float>(i * 5 % 13);
    for (std::int64_t b = 0; b < s.images; ++b) {
      for (std::int64_t m = 0; m < s.filters; ++m) {
        for (std::int64_t i = 0; i < 6; ++i) {
          float sum = 0;
          for (std::int64_t k = 0; k < s.channels * 6; ++k) {
            const std::int64_t y = i / 3 * 2 + k % 6 / 2 - 1, x = i % 3 * 2 + k % 2 - 1;
            if (y < 0 || y > 2 || x < 0 || x > 3) continue;
            sum += in[static_cast<std::size_t>(k / 6 * s.in_channel + b * s.in_image + y * 4 + x)] *
                   filters[static_cast<std::size_t>(m * 12 + k)];
          }
          expected[static_cast<std::size_t>(m * s.out_channel + b * s.out_image + i)] = sum;
        }
      }
    }
    Convolutions library(Math::fp32, Algorithms::any);
    Stream stream;
    library.run(stream, library.plan(s), in.data(), filters.data(), out.data(), &stream);
    EXPECT_EQ(out, expected);
    EXPECT_EQ(fake().stream, stream.native_handle());
  }

  /// Plans and runs a convolution with a workspace, which the library must receive.
  Convolutions::Chosen run_of(Algorithms algorithms, const ConvolutionShape& shape) {
    Convolutions library(Math::fp32, algorithms);
    const auto plan = library.plan(shape);
    Stream stream;
    std::vector<float> memory(1000);
    expect_mentions(error_of([&] { library.run(stream, plan, memory.data(), memory.data(), memory.data(), nullptr); }),
                    {"convolutions_run", "bytes of workspace, but has none"});
    library.run(stream, plan, memory.data(), memory.data(), memory.data() + 500, memory.data());
    EXPECT_EQ(fake().workspace_of_run, library.chosen(plan).workspace_bytes);
    return library.chosen(plan);
  }

  /// Checks that a search does not use the stream of an earlier run, which may no longer exist.
  void expect_no_stream_in_a_search(const ConvolutionShape& first, const ConvolutionShape& second) {
    Convolutions library(Math::fp32, Algorithms::any);
    std::vector<float> memory(10000);
    {
      Stream stream;
      library.run(stream, library.plan(first), memory.data(), memory.data(), memory.data() + 5000, nullptr);
      EXPECT_EQ(fake().stream, stream.native_handle());
    }
    library.plan(second);
    EXPECT_EQ(fake().searches, 2);
    EXPECT_EQ(fake().stream_of_search, nullptr);
  }

  using Kinds = std::initializer_list<std::pair<int, ErrorKind>>;
  using Functions = std::initializer_list<const char*>;
  /// Checks that each failing call throws an error of the kind that the status implies, with the library's own text.
  void expect_errors(const ConvolutionShape& shape, Kinds kinds, Functions of_plan, Functions of_run) {
    for (const auto& [status, kind] : kinds) {
      for (const char* function : of_plan) {
        fake().fails = function;
        fake().status = status;
        const auto error = error_of([&] { Convolutions(Math::fp32, Algorithms::any).plan(shape); });
        EXPECT_EQ(error.kind(), kind) << function << status;
        expect_mentions(error, {function, file_, "returned status", "(STATUS_OF_A_FAKE)"});
      }
    }
    fake().fails = "";
    Convolutions library(Math::fp32, Algorithms::any);
    const auto plan = library.plan(shape);
    Stream stream;
    std::vector<float> memory(1000);
    for (const char* function : of_run) {
      fake().fails = function;
      expect_mentions(
          error_of([&] { library.run(stream, plan, memory.data(), memory.data(), memory.data(), nullptr); }),
          {"convolutions_run", function});
    }
  }

 private:
  const char* file_;
};

}  // namespace isthmus::device
