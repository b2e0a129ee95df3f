#pragma once

// Code shared by the fake convolution libraries (libcudnn.so.9, libMIOpen.so.1): the settings that a test makes, what
// the library observed, and convolutions on host memory. Both the tests and the fake libraries include this file.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace isthmus::device {

struct FakeConvolutions {
  std::string fails{};  ///< name of the function that fails and returns `status`
  int status = 0;
  int made = 0, destroyed = 0;  ///< numbers of handles, descriptors and other objects
  int searches = 0;
  std::size_t workspace_of_run = 0;
  void *stream = nullptr, *stream_of_search = nullptr;

  int status_of(const char* function) const { return fails == function ? status : 0; }
};

/// Search result in cuDNN's form.
struct CudnnTrial {
  int algorithm, status;
  float milliseconds;
  std::size_t workspace_bytes;
  int same_bits, math;
  int reserved[3];
};

struct FakeCudnn : FakeConvolutions {
  std::size_t version = 91900;
  std::vector<CudnnTrial> trials{{0, 0, 1, 0, 1, 3, {}}};
  int math_of_search = -1, math_of_run = -1, algorithm_of_run = -1;
};

/// Properties of a solution, each of which MIOpen returns through a separate function.
struct MiopenSolution {
  std::uint64_t solver;
  int algorithm;
  float milliseconds;
  std::size_t workspace_bytes;
};

struct FakeMiopen : FakeConvolutions {
  std::size_t version[3] = {3, 5, 1};
  std::vector<MiopenSolution> solutions{{98, 5, 1, 0}};
  std::size_t workspace_limit = 0;
  std::uint64_t solver_of_run = 0;
  int compiled = 0;
  bool deterministic = false, null_workspace = false;
  std::string find_mode{}, no_find_db{}, tf32{};  ///< values of environment variables when the handle was made
};

/// Handle or other object that a fake library makes and destroys.
struct FakeObject {
  std::string made_by{};
  virtual ~FakeObject() = default;
};

struct FakeNumbers {
  int n, c, h, w, n_stride, c_stride, h_stride, w_stride;  // sizes and strides of a tensor; a filter has only sizes
  int padding_h, padding_w, stride_h, stride_w, kind;      // of a convolution; kind: math (cuDNN), determinism (MIOpen)
};

struct FakeDescriptor : FakeObject {
  FakeNumbers numbers{};
};

template <class Object>
Object& object_at(void* object) {
  return static_cast<Object&>(*static_cast<FakeObject*>(object));
}
inline FakeNumbers& at(void* descriptor) {
  return object_at<FakeDescriptor>(descriptor).numbers;
}

template <class Object = FakeDescriptor>
int make(FakeConvolutions& fake, void** made, const char* function, Object object = {}) {
  if (const int status = fake.status_of(function)) return status;
  object.made_by = function;
  *made = static_cast<FakeObject*>(new Object(std::move(object)));
  ++fake.made;
  return 0;
}

/// Destroys an object made by the function `maker`. Refuses other objects, so that the numbers of made and destroyed
/// objects differ at the end of the test.
inline int destroy(FakeConvolutions& fake, void* made, const char* maker) {
  if (object_at<FakeObject>(made).made_by != maker) return 3;
  delete static_cast<FakeObject*>(made);
  ++fake.destroyed;
  return 0;
}

inline void convolve(const FakeNumbers& from, const float* x, const FakeNumbers& by, const float* w,
                     const FakeNumbers& how, const FakeNumbers& to, float* y) {
  for (int n = 0; n < to.n; ++n) {
    for (int k = 0; k < to.c; ++k) {
      for (int row = 0; row < to.h; ++row) {
        for (int column = 0; column < to.w; ++column) {
          float sum = 0;
          for (int c = 0; c < from.c; ++c) {
            for (int r = 0; r < by.h; ++r) {
              for (int s = 0; s < by.w; ++s) {
                const int i = row * how.stride_h + r - how.padding_h, j = column * how.stride_w + s - how.padding_w;
                if (i < 0 || i >= from.h || j < 0 || j >= from.w) continue;
                sum += x[n * from.n_stride + c * from.c_stride + i * from.h_stride + j * from.w_stride] *
                       w[((k * by.c + c) * by.h + r) * by.w + s];
              }
            }
          }
          y[n * to.n_stride + k * to.c_stride + row * to.h_stride + column * to.w_stride] = sum;
        }
      }
    }
  }
}

}  // namespace isthmus::device
