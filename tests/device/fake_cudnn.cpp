// Fake libcudnn.so.9: convolves host memory, and its search returns the results that the test sets.

#include <algorithm>

#include "fake_convolutions.hpp"

namespace device = isthmus::device;
using device::at;

namespace {

device::FakeCudnn settings;

}  // namespace

extern "C" {

device::FakeCudnn* fake_convolutions() {
  return &settings;
}

std::size_t cudnnGetVersion() {
  return settings.version;
}
const char* cudnnGetErrorString(int) {
  return "STATUS_OF_A_FAKE";
}

int cudnnCreate(void** handle) {
  return make(settings, handle, "cudnnCreate");
}
int cudnnDestroy(void* handle) {
  return destroy(settings, handle, "cudnnCreate");
}
int cudnnSetStream(void*, void* stream) {
  settings.stream = stream;
  return settings.status_of("cudnnSetStream");
}
int cudnnCreateTensorDescriptor(void** descriptor) {
  return make(settings, descriptor, "cudnnCreateTensorDescriptor");
}
int cudnnDestroyTensorDescriptor(void* descriptor) {
  return destroy(settings, descriptor, "cudnnCreateTensorDescriptor");
}
int cudnnCreateFilterDescriptor(void** descriptor) {
  return make(settings, descriptor, "cudnnCreateFilterDescriptor");
}
int cudnnDestroyFilterDescriptor(void* descriptor) {
  return destroy(settings, descriptor, "cudnnCreateFilterDescriptor");
}
int cudnnCreateConvolutionDescriptor(void** descriptor) {
  return make(settings, descriptor, "cudnnCreateConvolutionDescriptor");
}
int cudnnDestroyConvolutionDescriptor(void* descriptor) {
  return destroy(settings, descriptor, "cudnnCreateConvolutionDescriptor");
}

int cudnnSetTensor4dDescriptorEx(void* descriptor, int type, int n, int c, int h, int w, int n_stride, int c_stride,
                                 int h_stride, int w_stride) {
  at(descriptor) = {n, c, h, w, n_stride, c_stride, h_stride, w_stride, 0, 0, 0, 0, 0};
  return type != 0 ? 2000 : settings.status_of("cudnnSetTensor4dDescriptorEx");
}
int cudnnSetFilter4dDescriptor(void* descriptor, int type, int format, int k, int c, int h, int w) {
  at(descriptor) = {k, c, h, w, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  return type != 0 || format != 0 ? 2000 : settings.status_of("cudnnSetFilter4dDescriptor");
}
int cudnnSetConvolution2dDescriptor(void* descriptor, int padding_h, int padding_w, int stride_h, int stride_w,
                                    int dilation_h, int dilation_w, int mode, int type) {
  at(descriptor) = {0, 0, 0, 0, 0, 0, 0, 0, padding_h, padding_w, stride_h, stride_w, 0};
  const bool plain = dilation_h == 1 && dilation_w == 1 && mode == 1 && type == 0;
  return plain ? settings.status_of("cudnnSetConvolution2dDescriptor") : 2000;
}
int cudnnSetConvolutionMathType(void* descriptor, int math) {
  at(descriptor).kind = math;
  return settings.status_of("cudnnSetConvolutionMathType");
}

int cudnnFindConvolutionForwardAlgorithm(void*, void*, void*, void* convolution, void*, int asked, int* returned,
                                         device::CudnnTrial* trials) {
  ++settings.searches;
  settings.stream_of_search = settings.stream;
  settings.math_of_search = at(convolution).kind;
  *returned = std::min(asked, static_cast<int>(settings.trials.size()));
  std::copy_n(settings.trials.begin(), *returned, trials);
  return settings.status_of("cudnnFindConvolutionForwardAlgorithm");
}

int cudnnConvolutionForward(void*, const void* alpha, void* in, const void* x, void* filter, const void* w,
                            void* convolution, int algorithm, void*, std::size_t workspace_bytes, const void* beta,
                            void* out, void* y) {
  settings.math_of_run = at(convolution).kind;
  settings.algorithm_of_run = algorithm;
  settings.workspace_of_run = workspace_bytes;
  if (const int status = settings.status_of("cudnnConvolutionForward")) return status;
  if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0) return 2000;
  device::convolve(at(in), static_cast<const float*>(x), at(filter), static_cast<const float*>(w), at(convolution),
                   at(out), static_cast<float*>(y));
  return 0;
}

}  // extern "C"
