#include "device/gpu/check.hpp"

#include <string>

namespace isthmus::device::gpu {

// Status codes are compared as numbers, because the numbers are the same in both runtimes and in all versions, while
// names change: 214 is cudaErrorECCUncorrectable and hipErrorECCNotCorrectable.
Diagnosis diagnose(Status status) noexcept {
  switch (static_cast<int>(status)) {
    case 2:  // memory allocation
      return {ErrorKind::out_of_memory, "request less, or free memory that other processes use on the device"};
    case 36:   // the call requires a newer driver
    case 217:  // peer access
    case 801:  // not supported
      return {ErrorKind::unsupported, "this device or driver cannot do it; choose another placement or staging"};
    case 400:  // invalid resource handle
      return {ErrorKind::failure,
              "select the device on which the stream or event was created, and record events on streams of their own "
              "device"};
    case 900:  // a call that a capture does not allow
    case 901:  // the capture is invalid because of an earlier such call
    case 904:  // dependencies that were not captured
    case 906:  // a call on the default stream
    case 907:  // an event that was recorded in a capture
    case 908:  // a capture by another thread
      return {ErrorKind::failure, "queue only kernels, copies and fills on a stream while it is captured"};
    case 804:  // forward compatibility on a device without it
      return {ErrorKind::unsupported, "install a driver at least as new as the runtime"};
    case 720:  // a cooperative launch with more blocks than can be resident
      return {ErrorKind::unsupported, "launch no more blocks than the occupancy calculator allows at once"};
    case 98:   // invalid device function
    case 209:  // no kernel image for this device
    case 218:  // invalid PTX
    case 222:  // PTX newer than the driver
    case 223:  // JIT compilation disabled
      return {ErrorKind::failure,
              "build for this device's architecture (CMAKE_CUDA_ARCHITECTURES or CMAKE_HIP_ARCHITECTURES)"};
    case 7:    // too many resources requested for launch (old number)
    case 9:    // invalid configuration
    case 701:  // too many resources requested for launch
      return {ErrorKind::failure, "use fewer threads per block or less shared memory"};
    case 3:    // initialisation
    case 34:   // the stub library was loaded
    case 35:   // the driver is older than the runtime
    case 802:  // system not ready
    case 803:  // the driver's library and kernel module differ
      return {ErrorKind::failure,
              "install or repair the driver: its library and kernel module must match and suit the runtime"};
    case 46:   // all devices busy or unavailable
    case 101:  // invalid device
      return {ErrorKind::failure, "check which devices the scheduler and the visible-devices variable allow"};
    case 214:  // uncorrectable ECC error
    case 220:  // uncorrectable NVLink error
      return {ErrorKind::device_lost, "take the device out of service: its hardware reports an uncorrectable error"};
    case 4:    // runtime unloading
    case 226:  // contained memory error
    case 700:  // illegal address
    case 702:  // launch timeout
    case 709:  // context destroyed
    case 710:  // device-side assertion
    case 714:  // hardware stack error
    case 715:  // illegal instruction
    case 716:  // misaligned address
    case 717:  // invalid address space
    case 718:  // invalid program counter
    case 719:  // launch failure
    case 721:  // tensor memory leak
    case 911:  // external device
    case 999:  // unknown: seen when a GPU has fallen off the bus
      return {ErrorKind::device_lost,
              "start a new process; run the case alone under compute-sanitizer or with the host emulator, and look "
              "for Xid or amdgpu messages in the kernel log"};
    case 909:  // a wait timed out
      return {ErrorKind::timeout, "check what else uses the device"};
    default:
      return {ErrorKind::failure, "look up the call in the vendor's reference"};
  }
}

void fail(const char* api, const char* vendor_call, Status status) {
  static_cast<void>(ISTHMUS_GPU(GetLastError)());
  const auto [kind, hint] = diagnose(status);
  std::string reason = std::string(vendor_call) + " returned " + ISTHMUS_GPU(GetErrorName)(status);
  if (const char* text = ISTHMUS_GPU(GetErrorString)(status)) reason += std::string(" (") + text + ")";
  throw Error(kind, api, reason, hint);
}

}  // namespace isthmus::device::gpu
