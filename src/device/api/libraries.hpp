#pragma once

// Libraries of the vendor, loaded at run time.
//
// cuBLAS, cuFFT and cuDNN, hipBLAS, hipFFT and MIOpen by dlopen; on the emulator plain loops that compute in double
// precision, in stream order and capturable as kernels are. The constructor throws unsupported, with the files that
// were tried, where there is no such library. An object belongs to the device that was selected when it was made, its
// streams are of that device, and its calls are made with that device selected.

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>

#include "device/api/device.hpp"

namespace isthmus::device {

/// Row-major, fp32, no TF32; leading dimensions in elements.
class Blas {
 public:
  Blas();
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  std::string version() const;
  /// C[m×n] = alpha · A[m×k] · B[k×n] + beta · C; with beta 0, what C held is not read.
  void sgemm(Stream& stream, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t lda,
             const float* b, std::int64_t ldb, float* c, std::int64_t ldc, float alpha = 1, float beta = 0);
  /// y[rows] = A[rows×cols] · x[cols].
  void sgemv(Stream& stream, std::int64_t rows, std::int64_t cols, const float* a, std::int64_t lda, const float* x,
             float* y);

 private:
  struct Library;
  Library* library_;
};

/// Discrete Fourier transforms of `batch` contiguous signals of n numbers each. Neither direction is scaled: forward
/// and then inverse gives n times the signal.
class Fft {
 public:
  enum class Direction { forward, inverse };  ///< exp(-2πi·jk/n), exp(+2πi·jk/n)

  Fft(std::size_t n, std::size_t batch = 1);
  ~Fft();
  Fft(const Fft&) = delete;
  Fft& operator=(const Fft&) = delete;
  std::string version() const;
  /// Device memory that a run needs beside its data; it may be 0. Nothing is allocated on the device without being
  /// asked.
  std::size_t workspace_bytes() const;
  /// Must live until the runs that use it have finished; two runs that may overlap need a plan and a workspace each.
  void set_workspace(void* device_memory);
  /// `in` and `out` are the same or do not overlap. Throws failure when a workspace is needed and none was set.
  void run(Stream& stream, const std::complex<float>* in, std::complex<float>* out, Direction direction);

 private:
  struct Plan;
  Plan* plan_;
};

/// Windows that move over the planes of images. Distances are in elements, from one image or channel to the next; a
/// plane is packed.
struct ConvolutionShape {
  std::int64_t images = 1, channels = 1, height = 1, width = 1;
  std::int64_t filters = 1, window_height = 1, window_width = 1, stride = 1, padding = 0;
  std::int64_t in_image = 0, in_channel = 0, out_image = 0, out_channel = 0;
  std::int64_t out_height() const { return (height + 2 * padding - window_height) / stride + 1; }
  std::int64_t out_width() const { return (width + 2 * padding - window_width) / stride + 1; }
  bool operator==(const ConvolutionShape&) const = default;
};

/// Convolutions of fp32 numbers that add up in fp32; filters are packed, filter by filter, channel by channel.
class Convolutions {
 public:
  enum class Math {
    fp32,  ///< strict
    tf32   ///< factors may be rounded to eleven significant bits
  };
  enum class Algorithms {
    any,      ///< the fastest
    products  ///< the fastest of those that multiply as often as the definition: no transforms (Winograd's, Fourier's)
  };
  struct Chosen {
    std::string algorithm;  ///< the library's name of it
    bool tf32, transforms;
    std::size_t workspace_bytes;
  };

  Convolutions(Math, Algorithms);
  ~Convolutions();
  Convolutions(const Convolutions&) = delete;
  Convolutions& operator=(const Convolutions&) = delete;
  std::string version() const;
  /// Looks for the fastest algorithm whose results have the same bits each time, once in a process for each shape. A
  /// library tries them on device memory of its own meanwhile. Returns the plan's number; throws unsupported where
  /// there is no such algorithm, and where the library does not take these distances.
  std::size_t plan(const ConvolutionShape&);
  const Chosen& chosen(std::size_t number) const;
  /// Nothing overlaps `out`; the workspace may be null where the plan needs none.
  void run(Stream&, std::size_t number, const float* in, const float* filters, float* out, void* workspace);

 private:
  struct Library;
  Library* library_;
};

}  // namespace isthmus::device
