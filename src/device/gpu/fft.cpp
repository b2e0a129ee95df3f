// Wrapper of cuFFT or hipFFT, with our own definitions of the few functions and constants needed. Both libraries have
// the same functions with the same arguments and status codes; only the type of the plan handle differs.

#include <fmt/format.h>

#include <memory>
#include <string>

#include "device/api/library_arguments.hpp"
#include "device/gpu/check.hpp"
#include "device/gpu/vendor_library.hpp"

namespace isthmus::device {

namespace {

#if defined(ISTHMUS_BACKEND_CUDA)
constexpr const char* library_name = "cuFFT";
constexpr auto library_files = {"libcufft.so.12", "libcufft.so.11", "libcufft.so"};
#define ISTHMUS_FFT(function) "cufft" #function
using Handle = int;
#else
constexpr const char* library_name = "hipFFT";
constexpr auto library_files = {"libhipfft.so.0", "libhipfft.so"};
#define ISTHMUS_FFT(function) "hipfft" #function
using Handle = void*;
#endif

constexpr int complex_to_complex = 0x29;  // cufftType, hipfftType
constexpr int forward = -1, backward = 1;

using Create = int (*)(Handle*);
using Destroy = int (*)(Handle);
using SetAutoAllocation = int (*)(Handle, int);
using MakePlan = int (*)(Handle, int rank, long long* n, long long* in_embed, long long in_stride,
                         long long in_distance, long long* out_embed, long long out_stride, long long out_distance,
                         int type, long long batch, std::size_t* workspace_bytes);
using SetWorkArea = int (*)(Handle, void*);
using SetStream = int (*)(Handle, void*);
using Execute = int (*)(Handle, void* in, void* out, int direction);
using GetVersion = int (*)(int*);

void check_fft(const char* call, const char* function, int status) {
  if (status == 0) return;
  // Status codes that need a specific error: out of memory, and an unsupported length.
  const bool out_of_memory = status == 2, size = status == 8;
  throw Error(out_of_memory ? ErrorKind::out_of_memory
              : size        ? ErrorKind::unsupported
                            : ErrorKind::failure,
              call, fmt::format("{} of {} returned status {}", function, library_name, status),
              out_of_memory ? "free device memory"
              : size        ? "use another length"
                            : "look up the status in the library's reference");
}

}  // namespace

struct Fft::Plan {
  gpu::VendorLibrary file{library_name, library_files, "fft_create"};
  Handle handle{};
  bool made = false;
  Destroy destroy = file.look_up<Destroy>(ISTHMUS_FFT(Destroy));
  SetWorkArea set_work_area = file.look_up<SetWorkArea>(ISTHMUS_FFT(SetWorkArea));
  SetStream set_stream = file.look_up<SetStream>(ISTHMUS_FFT(SetStream));
  Execute execute = file.look_up<Execute>(ISTHMUS_FFT(ExecC2C));
  std::size_t workspace_bytes = 0;
  void* workspace = nullptr;

  ~Plan() {
    if (made) static_cast<void>(destroy(handle));
  }
};

Fft::Fft(std::size_t n, std::size_t batch) : plan_(nullptr) {
  constexpr const char* call = "fft_create";
  injection_point(call);
  library_extent(call, "n", static_cast<std::int64_t>(n));
  library_extent(call, "batch", static_cast<std::int64_t>(batch));
  auto plan = std::make_unique<Plan>();
  const auto create = plan->file.look_up<Create>(ISTHMUS_FFT(Create));
  const auto set_auto_allocation = plan->file.look_up<SetAutoAllocation>(ISTHMUS_FFT(SetAutoAllocation));
  const auto make_plan = plan->file.look_up<MakePlan>(ISTHMUS_FFT(MakePlanMany64));
  check_fft(call, ISTHMUS_FFT(Create), create(&plan->handle));
  plan->made = true;
  check_fft(call, ISTHMUS_FFT(SetAutoAllocation), set_auto_allocation(plan->handle, 0));
  auto length = static_cast<long long>(n);
  // Without embedding, signals are contiguous and the strides are ignored.
  check_fft(call, ISTHMUS_FFT(MakePlanMany64),
            make_plan(plan->handle, 1, &length, nullptr, 1, length, nullptr, 1, length, complex_to_complex,
                      static_cast<long long>(batch), &plan->workspace_bytes));
  plan_ = plan.release();
}

Fft::~Fft() {
  delete plan_;
}

std::string Fft::version() const {
  int version = 0;
  const auto get = reinterpret_cast<GetVersion>(plan_->file.find(ISTHMUS_FFT(GetVersion)));
  if (get != nullptr && get(&version) == 0 && version > 0) {
    // Version 12003 means cuFFT 12.0.3; hipFFT's version numbers follow no known rule.
    if (std::string_view(library_name) != "cuFFT") return fmt::format("{} {}", library_name, version);
    return fmt::format("{} {}.{}.{}", library_name, version / 1000, version / 100 % 10, version % 100);
  }
  return fmt::format("{} ({})", library_name, plan_->file.path());
}

std::size_t Fft::workspace_bytes() const {
  return plan_->workspace_bytes;
}

void Fft::set_workspace(void* device_memory) {
  injection_point("fft_set_workspace");
  if (device_memory == plan_->workspace) return;
  check_fft("fft_set_workspace", ISTHMUS_FFT(SetWorkArea), plan_->set_work_area(plan_->handle, device_memory));
  plan_->workspace = device_memory;
}

void Fft::run(Stream& stream, const std::complex<float>* in, std::complex<float>* out, Direction direction) {
  constexpr const char* call = "fft_run";
  injection_point(call);
  require_workspace(call, plan_->workspace, plan_->workspace_bytes);
  check_fft(call, ISTHMUS_FFT(SetStream), plan_->set_stream(plan_->handle, stream.native_handle()));
  check_fft(call, ISTHMUS_FFT(ExecC2C),
            plan_->execute(plan_->handle, const_cast<std::complex<float>*>(in), out,
                           direction == Direction::forward ? forward : backward));
}

}  // namespace isthmus::device
