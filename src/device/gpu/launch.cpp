// Kernel launches. Limits are checked with our own messages, and attributes are set only once per kernel and value.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "device/gpu/check.hpp"
#include "device/gpu/device_limits.hpp"
#include "device/kernel/kernel.hpp"

namespace isthmus::device::detail {
namespace {

/// Settings last passed to the runtime for one kernel on one device.
struct Prepared {
  gpu::NativeFunctionAttributes attributes{};
  std::size_t dynamic_shared_allowed = 0;
  int carveout = -1;
};

Prepared& prepared(const char* api, int device, const void* function) {
  static std::map<std::pair<int, const void*>, Prepared> kernels;
  auto [entry, is_new] = kernels.try_emplace({device, function});
  if (is_new) {
    try {
      ISTHMUS_CALL(api, FuncGetAttributes, &entry->second.attributes, function);
    } catch (...) {
      kernels.erase(entry);
      throw;
    }
  }
  return entry->second;
}

std::mutex& prepared_mutex() {
  static std::mutex mutex;
  return mutex;
}

[[noreturn]] void refuse(const char* api, const char* kernel, const std::string& reason, const std::string& hint) {
  throw Error(ErrorKind::unsupported, api, fmt::format("kernel {} {}", kernel, reason), hint);
}

std::string text(const Extent& extent) {
  return fmt::format("{}×{}×{}", extent.x, extent.y, extent.z);
}

bool exceeds(const Extent& extent, const Extent& limit) {
  return extent.x > limit.x || extent.y > limit.y || extent.z > limit.z;
}

/// Checks `shape` against the limits of the device and the kernel, and sets the attributes that the kernel needs.
void prepare(const char* api, const char* name, const void* function, const LaunchShape& shape) {
  int device = 0;
  ISTHMUS_CALL(api, GetDevice, &device);
  const gpu::Limits& limits = gpu::limits(device);
  if (shape.grid.size() == 0 || shape.block.size() == 0) {
    throw Error(
        ErrorKind::failure, api,
        fmt::format("kernel {} has an empty shape (grid {}, block {})", name, text(shape.grid), text(shape.block)),
        "make every extent at least 1");
  }
  if (exceeds(shape.grid, limits.grid)) {
    refuse(api, name, fmt::format("needs a grid of {}, but the device allows {}", text(shape.grid), text(limits.grid)),
           "use fewer blocks, each looping over more work");
  }

  const std::lock_guard lock(prepared_mutex());
  Prepared& kernel = prepared(api, device, function);
  const auto most_threads = std::min<std::uint64_t>(static_cast<std::uint64_t>(limits.threads_per_block),
                                                    static_cast<std::uint64_t>(kernel.attributes.maxThreadsPerBlock));
  if (shape.block.size() > most_threads || exceeds(shape.block, limits.block)) {
    refuse(api, name,
           fmt::format("needs blocks of {} threads, but at most {} are possible", text(shape.block), most_threads),
           "use smaller blocks");
  }
  const std::size_t shared = shape.shared_bytes + kernel.attributes.sharedSizeBytes;
  if (shared > limits.shared_per_block) {
    refuse(api, name,
           fmt::format("needs {} bytes of shared memory per block ({} dynamic, {} static), but the device allows {}",
                       shared, shape.shared_bytes, kernel.attributes.sharedSizeBytes, limits.shared_per_block),
           "use a smaller tile or depth");
  }
  if (gpu::shared_needs_opt_in && shape.shared_bytes > kernel.dynamic_shared_allowed) {
    ISTHMUS_CALL(api, FuncSetAttribute, function, ISTHMUS_GPU(FuncAttributeMaxDynamicSharedMemorySize),
                 static_cast<int>(shape.shared_bytes));
    kernel.dynamic_shared_allowed = shape.shared_bytes;
  }
  if (shape.carveout != kernel.carveout) {
    if (shape.carveout < -1 || shape.carveout > 100) {
      throw Error(ErrorKind::failure, api, fmt::format("carveout={} is out of range", shape.carveout),
                  "choose 0 to 100, or -1 for the driver's choice");
    }
    gpu::check(api, ISTHMUS_GPU_NAME(FuncSetAttribute), gpu::set_carveout(function, shape.carveout));
    kernel.carveout = shape.carveout;
  }
}

int resident_blocks_per_multiprocessor(const char* api, const void* function, const LaunchShape& shape) {
  int blocks = 0;
  ISTHMUS_CALL(api, OccupancyMaxActiveBlocksPerMultiprocessor, &blocks, function, static_cast<int>(shape.block.size()),
               shape.shared_bytes);
  return blocks;
}

}  // namespace

void launch(Stream& stream, const BoundLaunch& bound, const LaunchShape& shape) {
  injection_point("launch");
  prepare("launch", bound.name, bound.function, shape);
  const dim3 grid(shape.grid.x, shape.grid.y, shape.grid.z), block(shape.block.x, shape.block.y, shape.block.z);
  if (!shape.cooperative) {
    ISTHMUS_CALL("launch", LaunchKernel, bound.function, grid, block, bound.arguments, shape.shared_bytes,
                 gpu::handle_of(stream));
    return;
  }
  const gpu::Limits& limits = gpu::limits(selected());
  if (!limits.cooperative) {
    refuse("launch", bound.name, "is cooperative, which this device does not support",
           "use a workload without a grid barrier");
  }
  const auto resident = static_cast<std::uint64_t>(limits.multiprocessors) *
                        static_cast<std::uint64_t>(resident_blocks_per_multiprocessor("launch", bound.function, shape));
  if (shape.grid.size() > resident) {
    refuse("launch", bound.name,
           fmt::format("is cooperative with {} blocks, but only {} can be resident", shape.grid.size(), resident),
           "launch no more blocks than kernel_info() reports as resident");
  }
  ISTHMUS_CALL("launch", LaunchCooperativeKernel, bound.function, grid, block, bound.arguments,
               static_cast<unsigned>(shape.shared_bytes), gpu::handle_of(stream));
}

KernelInfo kernel_info(const char* name, const void* function, const LaunchShape& shape) {
  injection_point("kernel_info");
  prepare("kernel_info", name, function, shape);
  KernelInfo info;
  info.name = name;
  gpu::NativeFunctionAttributes attributes{};
  ISTHMUS_CALL("kernel_info", FuncGetAttributes, &attributes, function);
  info.registers = attributes.numRegs;
  info.static_shared_bytes = attributes.sharedSizeBytes;
  info.local_bytes = attributes.localSizeBytes;
  const int blocks = resident_blocks_per_multiprocessor("kernel_info", function, shape);
  info.blocks_per_multiprocessor = blocks;
  info.occupancy = std::min(1.0, static_cast<double>(blocks) * static_cast<double>(shape.block.size()) /
                                     gpu::limits(selected()).threads_per_multiprocessor);
  return info;
}

}  // namespace isthmus::device::detail
