#pragma once

// Vendor libraries, loaded at run time.
//
// On GPUs these are cuBLAS, cuFFT and cuDNN, or hipBLAS, hipFFT and MIOpen, loaded with dlopen. The emulator uses plain
// loops in double precision, which run in stream order and can be captured like kernels. If the library is not
// available, constructors throw Error (unsupported) with a list of the files that were tried. An object belongs to the
// device that was selected when it was created; its streams must be of that device, and its calls must be made with
// that device selected.

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>

#include "device/api/device.hpp"

namespace isthmus::device {

/// BLAS on row-major fp32 matrices, without TF32; leading dimensions are in elements.
class Blas {
 public:
  Blas();
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  std::string version() const;
  /// Computes C[m×n] = alpha · A[m×k] · B[k×n] + beta · C; if beta is 0, C is not read.
  void sgemm(Stream& stream, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t lda,
             const float* b, std::int64_t ldb, float* c, std::int64_t ldc, float alpha = 1, float beta = 0);
  /// Computes y[rows] = A[rows×cols] · x[cols].
  void sgemv(Stream& stream, std::int64_t rows, std::int64_t cols, const float* a, std::int64_t lda, const float* x,
             float* y);

 private:
  struct Library;
  Library* library_;
};

/// Discrete Fourier transforms of `batch` contiguous signals of n numbers each. Neither direction is scaled: forward
/// followed by inverse returns n times the signal.
class Fft {
 public:
  enum class Direction { forward, inverse };  ///< exp(-2πi·jk/n), exp(+2πi·jk/n)

  Fft(std::size_t n, std::size_t batch = 1);
  ~Fft();
  Fft(const Fft&) = delete;
  Fft& operator=(const Fft&) = delete;
  std::string version() const;
  /// Returns the bytes of device memory that a run needs in addition to its data; may be 0. The library itself
  /// allocates no device memory.
  std::size_t workspace_bytes() const;
  /// Sets the workspace, which must exist until the runs that use it have finished. Runs that may overlap each need a
  /// separate plan and workspace.
  void set_workspace(void* device_memory);
  /// Transforms `in` into `out`, which must be the same memory or not overlap. Throws Error (failure) if a workspace is
  /// needed but not set.
  void run(Stream& stream, const std::complex<float>* in, std::complex<float>* out, Direction direction);

 private:
  struct Plan;
  Plan* plan_;
};

/// Sizes and strides of a convolution over the planes of images. Strides between images and between channels are in
/// elements; planes have no gaps.
struct ConvolutionShape {
  std::int64_t images = 1, channels = 1, height = 1, width = 1;
  std::int64_t filters = 1, window_height = 1, window_width = 1, stride = 1, padding = 0;
  std::int64_t in_image = 0, in_channel = 0, out_image = 0, out_channel = 0;
  std::int64_t out_height() const { return (height + 2 * padding - window_height) / stride + 1; }
  std::int64_t out_width() const { return (width + 2 * padding - window_width) / stride + 1; }
  bool operator==(const ConvolutionShape&) const = default;
};

/// Convolutions of fp32 numbers with fp32 accumulation; filters are stored without gaps, filter by filter, channel by
/// channel.
class Convolutions {
 public:
  enum class Math {
    fp32,  ///< strict fp32
    tf32   ///< factors may be rounded to eleven significant bits
  };
  enum class Algorithms {
    any,      ///< use the fastest algorithm
    products  ///< use the fastest algorithm without transforms (Winograd's, Fourier's), which does as many
              ///< multiplications as the definition
  };
  struct Chosen {
    std::string algorithm;  ///< name used by the library
    bool tf32, transforms;
    std::size_t workspace_bytes;
  };

  Convolutions(Math, Algorithms);
  ~Convolutions();
  Convolutions(const Convolutions&) = delete;
  Convolutions& operator=(const Convolutions&) = delete;
  std::string version() const;
  /// Searches for the fastest algorithm whose results are bitwise reproducible, once per process and shape. During the
  /// search, the library allocates device memory. Returns the plan's number. Throws Error (unsupported) if there is no
  /// such algorithm or the library does not support these strides.
  std::size_t plan(const ConvolutionShape&);
  const Chosen& chosen(std::size_t number) const;
  /// Runs a plan. `out` must not overlap any other buffer; the workspace may be null if the plan needs none.
  void run(Stream&, std::size_t number, const float* in, const float* filters, float* out, void* workspace);

 private:
  struct Library;
  Library* library_;
};

}  // namespace isthmus::device
