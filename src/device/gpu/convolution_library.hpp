#pragma once

// Interface between device::Convolutions and the vendor libraries. A library (cudnn.cpp, miopen.cpp) lists its
// algorithms for a shape; convolutions.cpp chooses an algorithm, caches the choice and owns the plans.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/api/libraries.hpp"
#include "device/gpu/vendor_library.hpp"

namespace isthmus::device::gpu {

inline constexpr const char* create_call = "convolutions_create";
inline constexpr const char* plan_call = "convolutions_plan";
inline constexpr const char* run_call = "convolutions_run";
inline constexpr std::size_t most_workspace = std::size_t{2} << 30;

/// Loaded library whose functions return a status; 0 is success.
class CheckedLibrary : public VendorLibrary {
 public:
  struct Statuses {
    const char* words;  ///< function that returns the text of a status
    bool (*out_of_memory)(int);
    bool (*unsupported)(int);
  };
  CheckedLibrary(const char* name, std::initializer_list<const char*> files, Statuses statuses)
      : VendorLibrary(name, files, create_call), statuses_(statuses) {}

  /// Throws an Error for `call` unless `status` is success.
  void check(const char* call, const char* function, int status) const;
  template <class Function, class... Arguments>
  void invoke(const char* call, const char* function, Arguments... arguments) const {
    check(call, function, look_up<Function>(function)(arguments...));
  }

 private:
  Statuses statuses_;
};

using Handle = void*;

/// Owner of a library's handle, descriptor or other object, with the function that destroys it.
class Owned {
 public:
  using Destroy = int (*)(Handle);

  template <class... Arguments>
  Owned(const CheckedLibrary& library, const char* call, const char* create, const char* destroy,
        Arguments... arguments)
      : destroy_(library.look_up<Destroy>(destroy)) {
    library.invoke<int (*)(Handle*, Arguments...)>(call, create, &handle_, arguments...);
  }
  Owned(Handle handle, Destroy destroy) : handle_(handle), destroy_(destroy) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), destroy_(other.destroy_) {}
  Owned& operator=(Owned&&) = delete;
  ~Owned() {
    if (handle_ != nullptr) static_cast<void>(destroy_(handle_));
  }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
  Destroy destroy_;
};

/// Converts a number of a validated shape to int.
inline int as_int(std::int64_t number) {
  return static_cast<int>(number);
}

/// Properties of one algorithm for one shape, as reported by the library.
struct Trial {
  std::uint64_t number = 0;  ///< identifier of the algorithm in the library
  std::string name{};        ///< empty: the algorithm is unknown to us
  int status = 0;
  float milliseconds = 0;
  std::size_t workspace_bytes = 0;
  bool same_bits = true, transforms = false, tf32 = false;
  int math = 0;  ///< the library's number of the math mode
};

class ConvolutionPlan {
 public:
  ConvolutionPlan() = default;
  ConvolutionPlan(const ConvolutionPlan&) = delete;
  ConvolutionPlan& operator=(const ConvolutionPlan&) = delete;
  virtual ~ConvolutionPlan() = default;
  virtual std::vector<Trial> trials() = 0;
  /// Prepares runs with this algorithm.
  virtual void take(const Trial&) = 0;
  virtual void run(Stream&, const float* in, const float* filters, float* out, void* workspace) = 0;
};

/// Vendor library with a handle for the selected device. It must exist longer than its plans.
class ConvolutionLibrary {
 public:
  explicit ConvolutionLibrary(const CheckedLibrary& file) : file_(file) {}
  ConvolutionLibrary(const ConvolutionLibrary&) = delete;
  ConvolutionLibrary& operator=(const ConvolutionLibrary&) = delete;
  virtual ~ConvolutionLibrary() = default;
  const char* name() const { return file_.name(); }
  virtual std::string version() const = 0;
  /// Returns a plan for a validated shape.
  virtual std::unique_ptr<ConvolutionPlan> plan(const ConvolutionShape&) = 0;

 protected:
  const CheckedLibrary& file_;
};

/// Loads the vendor's library.
std::unique_ptr<ConvolutionLibrary> load_convolution_library(Convolutions::Math);

}  // namespace isthmus::device::gpu
