// A false libcudnn.so.9: it convolves host memory, and searches as the test says.

#include "fake_cudnn.hpp"

#include <algorithm>

using isthmus::device::FakeCudnn;
using isthmus::device::FakeTrial;

namespace {

FakeCudnn settings;

struct Descriptor {
  int n, c, h, w, n_stride, c_stride, h_stride, w_stride;  // of a tensor; a filter's n, c, h, w
  int padding_h, padding_w, stride_h, stride_w, math;      // of a convolution
};

int status_of(const char* function) {
  return settings.fails == function ? settings.status : 0;
}

int make(void** made, const char* function) {
  if (const int status = status_of(function)) return status;
  *made = new Descriptor{};
  ++settings.made;
  return 0;
}

int destroy(void* made) {
  delete static_cast<Descriptor*>(made);
  ++settings.destroyed;
  return 0;
}

Descriptor& at(void* descriptor) {
  return *static_cast<Descriptor*>(descriptor);
}

}  // namespace

extern "C" {

FakeCudnn* fake_cudnn() {
  return &settings;
}

std::size_t cudnnGetVersion() {
  return settings.version;
}
const char* cudnnGetErrorString(int) {
  return "CUDNN_STATUS_OF_A_FAKE";
}

int cudnnCreate(void** handle) {
  return make(handle, "cudnnCreate");
}
int cudnnDestroy(void* handle) {
  return destroy(handle);
}
int cudnnSetStream(void*, void* stream) {
  settings.stream = stream;
  return status_of("cudnnSetStream");
}
int cudnnCreateTensorDescriptor(void** descriptor) {
  return make(descriptor, "cudnnCreateTensorDescriptor");
}
int cudnnDestroyTensorDescriptor(void* descriptor) {
  return destroy(descriptor);
}
int cudnnCreateFilterDescriptor(void** descriptor) {
  return make(descriptor, "cudnnCreateFilterDescriptor");
}
int cudnnDestroyFilterDescriptor(void* descriptor) {
  return destroy(descriptor);
}
int cudnnCreateConvolutionDescriptor(void** descriptor) {
  return make(descriptor, "cudnnCreateConvolutionDescriptor");
}
int cudnnDestroyConvolutionDescriptor(void* descriptor) {
  return destroy(descriptor);
}

int cudnnSetTensor4dDescriptorEx(void* descriptor, int type, int n, int c, int h, int w, int n_stride, int c_stride,
                                 int h_stride, int w_stride) {
  at(descriptor) = {n, c, h, w, n_stride, c_stride, h_stride, w_stride, 0, 0, 0, 0, 0};
  return type != 0 ? 2000 : status_of("cudnnSetTensor4dDescriptorEx");
}
int cudnnSetFilter4dDescriptor(void* descriptor, int type, int format, int k, int c, int h, int w) {
  at(descriptor) = {k, c, h, w, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  return type != 0 || format != 0 ? 2000 : status_of("cudnnSetFilter4dDescriptor");
}
int cudnnSetConvolution2dDescriptor(void* descriptor, int padding_h, int padding_w, int stride_h, int stride_w,
                                    int dilation_h, int dilation_w, int mode, int type) {
  at(descriptor) = {0, 0, 0, 0, 0, 0, 0, 0, padding_h, padding_w, stride_h, stride_w, 0};
  const bool plain = dilation_h == 1 && dilation_w == 1 && mode == 1 && type == 0;
  return plain ? status_of("cudnnSetConvolution2dDescriptor") : 2000;
}
int cudnnSetConvolutionMathType(void* descriptor, int math) {
  at(descriptor).math = math;
  return status_of("cudnnSetConvolutionMathType");
}

int cudnnFindConvolutionForwardAlgorithm(void*, void*, void*, void* convolution, void*, int asked, int* returned,
                                         FakeTrial* trials) {
  ++settings.searches;
  settings.math_of_search = at(convolution).math;
  *returned = std::min(asked, static_cast<int>(settings.trials.size()));
  std::copy_n(settings.trials.begin(), *returned, trials);
  return status_of("cudnnFindConvolutionForwardAlgorithm");
}

int cudnnConvolutionForward(void*, const void* alpha, void* in, const void* x, void* filter, const void* w,
                            void* convolution, int algorithm, void*, std::size_t workspace_bytes, const void* beta,
                            void* out, void* y) {
  settings.math_of_run = at(convolution).math;
  settings.algorithm_of_run = algorithm;
  settings.workspace_of_run = workspace_bytes;
  if (const int status = status_of("cudnnConvolutionForward")) return status;
  if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0) return 2000;
  const Descriptor &from = at(in), &by = at(filter), &to = at(out), &how = at(convolution);
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
                const float value = static_cast<const float*>(
                    x)[n * from.n_stride + c * from.c_stride + i * from.h_stride + j * from.w_stride];
                sum += value * static_cast<const float*>(w)[((k * by.c + c) * by.h + r) * by.w + s];
              }
            }
          }
          static_cast<float*>(y)[n * to.n_stride + k * to.c_stride + row * to.h_stride + column * to.w_stride] = sum;
        }
      }
    }
  }
  return 0;
}

}  // extern "C"
