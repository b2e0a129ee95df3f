// Spin latch, from one source for every backend: a kernel that waits for a word in mapped host memory.

#include <atomic>
#include <cstring>

#include "device/api/injection.hpp"
#include "device/kernel/kernel.hpp"

namespace isthmus::device {
namespace {

// flags[0]: newest generation that was released; flags[1]: newest generation that timed out.
__global__ void spin_latch(std::uint32_t* flags, std::uint32_t generation, double timeout) {
  const double begin = device_seconds();
  while (static_cast<std::int32_t>(load_acquire(&flags[0]) - generation) < 0) {
    if (device_seconds() - begin > timeout) {
      store_release(&flags[1], generation);
      return;
    }
    spin_wait();
  }
}

}  // namespace

SpinLatch::SpinLatch() : device_(selected()) {
  injection_point("spin_latch_create");
  try {
    flags_ = static_cast<std::uint32_t*>(malloc_pinned(2 * sizeof(std::uint32_t), {.mapped = true}));
    flags_[0] = flags_[1] = 0;
    near_ = malloc_pinned(kDeviceBytes, {});
    std::memset(near_, 0, kDeviceBytes);
    far_ = malloc_device(kDeviceBytes);
    copy(far_, near_, kDeviceBytes);
  } catch (...) {
    free_quietly();
    throw;
  }
}

SpinLatch::~SpinLatch() {
  try {
    release();
    const Selected own(device_);
    synchronize();  // a kernel that has not yet seen the release must not run after its flags are freed
  } catch (const Error&) {
    // The error is reported to the next call that waits for the stream.
  }
  free_quietly();
}

void SpinLatch::free_quietly() noexcept {
  const auto quietly = [](auto free_memory, void* memory) {
    try {
      if (memory != nullptr) free_memory(memory);
    } catch (const Error&) {
    }
  };
  quietly(free_device, far_);
  quietly(free_pinned, near_);
  quietly(free_pinned, flags_);
}

void SpinLatch::hold(Stream& stream, double timeout, Next next) {
  injection_point("spin_latch_hold");
  if (const int now = selected(); now != device_) {
    throw Error(ErrorKind::failure, "spin_latch_hold",
                "the latch belongs to device " + std::to_string(device_) + ", and device " + std::to_string(now) +
                    " is selected",
                "create one for each device, with that device selected");
  }
  launch(stream, ISTHMUS_KERNEL(spin_latch), {.grid = 1, .block = 1},
         static_cast<std::uint32_t*>(device_address(flags_)), ++generation_, timeout);
  if (next == Next::copy_in) copy_async(far_, near_, kDeviceBytes, stream);
  if (next == Next::copy_out) copy_async(near_, far_, kDeviceBytes, stream);
}

void SpinLatch::release() {
  std::atomic_ref<std::uint32_t>(flags_[0]).store(generation_, std::memory_order_release);
}

bool SpinLatch::timed_out() {
  return generation_ != 0 && std::atomic_ref<std::uint32_t>(flags_[1]).load(std::memory_order_acquire) == generation_;
}

}  // namespace isthmus::device
