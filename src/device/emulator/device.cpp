// An emulated device: what it is, its memory, and launching.

#include "device/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "device/emulator/devices.hpp"
#include "device/emulator/emulator.hpp"
#include "device/emulator/grid.hpp"
#include "device/emulator/memory.hpp"
#include "device/emulator/stream.hpp"
#include "device/injection.hpp"
#include "device/kernel.hpp"

namespace isthmus::device {

using emulator::AllocationKind;
using emulator::configuration;
using emulator::DeviceAccess;
using emulator::FaultPointer;
using emulator::injection_point_of_free;
using emulator::make_fault;
using emulator::Memory;
using emulator::need;
using emulator::need_device;
using emulator::state_of;
using emulator::StreamState;

namespace {

constexpr std::size_t shared_per_multiprocessor = 228 << 10;
// A multiprocessor holds one block, whatever its size: then the grid of a persistent kernel, multiprocessors times
// blocks_per_multiprocessor, is what a cooperative launch takes.
constexpr unsigned threads_per_block = 1024;
constexpr int threads_per_multiprocessor = threads_per_block;

}  // namespace

Backend backend() noexcept {
  return Backend::emulator;
}

DeviceInfo info(int index) {
  injection_point("info");
  need_device(index, "info");
  const auto c = configuration();
  DeviceInfo d;
  d.index = index;
  d.name = "Isthmus emulator";
  d.uuid = fmt::format("EMU-00000000-0000-0000-0000-{:012}", index);
  d.arch = "emulated";
  d.driver = "none";
  d.runtime = "none";
  d.warp_size = static_cast<int>(c.warp_size);
  d.multiprocessors = static_cast<int>(c.resident_blocks);
  d.max_threads_per_block = threads_per_block;
  d.max_threads_per_multiprocessor = threads_per_multiprocessor;
  d.max_resident_blocks = static_cast<int>(c.resident_blocks);
  d.shared_per_block = c.shared_per_block;
  d.shared_per_multiprocessor = std::max(shared_per_multiprocessor, c.shared_per_block + 1024);
  d.l2_bytes = std::size_t{4} << 20;
  d.memory_bytes = c.memory_bytes;
  d.copy_engines = 2;
  d.integrated = c.integrated;
  d.managed = c.managed;
  d.concurrent_managed = c.managed && c.concurrent_managed;
  d.pageable_access = c.pageable_access;
  d.memory_pools = c.memory_pools;
  d.virtual_memory = c.virtual_memory;
  d.can_map_host = c.map_host;
  d.cooperative = c.cooperative;
  d.async_shared_copy = c.async_copy;
  d.bulk_shared_copy = c.bulk_copy;
  return d;
}

MemoryInfo memory_info() {
  injection_point("memory_info");
  return Memory::for_caller().info(selected());
}

Occupancy occupancy(int) noexcept {
  try {
    std::vector<unsigned> processes(configuration().others);
    std::iota(processes.begin(), processes.end(), 1u);
    return {.processes = std::move(processes), .mig = false};
  } catch (...) {
    return {};
  }
}

Telemetry telemetry(int) noexcept {
  return {};
}
void refresh(Telemetry&, int) noexcept {}
std::optional<std::size_t> driver_memory_used(int) noexcept {
  return std::nullopt;
}

std::optional<Link> link(int, int, std::string* reason) noexcept {
  if (reason != nullptr) *reason = "emulated";
  return std::nullopt;
}

void set_work_deadline(double seconds_from_now) noexcept {
  emulator::work_deadline = emulator::seconds() + seconds_from_now;
}

void load_kernels() {
  injection_point("load_kernels");
}

// --- memory ----------------------------------------------------------------------------------------

void* malloc_device(std::size_t bytes) {
  injection_point("malloc_device");
  return Memory::for_caller().allocate(AllocationKind::device, bytes, selected(), true, "malloc_device");
}

namespace {

/// Like the vendors', frees first wait for queued work that may use the memory: device memory for that of the devices
/// that reach it, host memory for all.
void drain_users(const void* pointer) {
  const auto found = Memory::for_caller().find(pointer);
  auto streams = StreamState::all();
  if (found && found->kind == AllocationKind::device) {
    std::erase_if(streams, [&](const auto& stream) { return !emulator::reaches(stream->device(), found->device); });
  }
  emulator::drain(streams);
}

void free_memory(const char* call, void* pointer, AllocationKind kind) {
  injection_point_of_free(call, pointer);
  if (pointer == nullptr) return;
  drain_users(pointer);
  Memory::for_caller().release(pointer, kind, call);
}

}  // namespace

void free_device(void* pointer) {
  free_memory("free_device", pointer, AllocationKind::device);
}

void* malloc_pooled(std::size_t bytes, Stream& stream) {
  injection_point("malloc_pooled");
  need(configuration().memory_pools, "malloc_pooled", "memory pools");
  StreamState& state = emulator::outside_capture(stream, "malloc_pooled");
  void* pointer = Memory::for_caller().allocate(AllocationKind::pooled, bytes, state.device(), true, "malloc_pooled");
  state.submit(
      [pointer](const FaultPointer&) -> FaultPointer {
        Memory::instance().pool_arrive(pointer);
        return nullptr;
      },
      StreamState::When::always);
  return pointer;
}

void free_pooled(void* pointer, Stream& stream) {
  injection_point_of_free("free_pooled", pointer);
  if (pointer == nullptr) return;
  StreamState& state = emulator::outside_capture(stream, "free_pooled");
  Memory::for_caller().pool_leave(pointer, "free_pooled");
  state.submit(
      [pointer](const FaultPointer&) -> FaultPointer {
        if (const auto spoilt = Memory::instance().pool_depart(pointer)) {
          return make_fault(ErrorKind::failure, *spoilt, "correct the kernel or copy that did it");
        }
        return nullptr;
      },
      StreamState::When::always);
}

void set_pool_release_threshold(std::uint64_t) {
  injection_point("set_pool_release_threshold");
  need(configuration().memory_pools, "set_pool_release_threshold", "memory pools");
}

void* malloc_pinned(std::size_t bytes, PinnedOptions options) {
  injection_point("malloc_pinned");
  if (options.mapped) need(configuration().map_host, "malloc_pinned", "mapped host memory");
  return Memory::for_caller().allocate(AllocationKind::pinned, bytes, -1, options.mapped, "malloc_pinned");
}

void free_pinned(void* pointer) {
  free_memory("free_pinned", pointer, AllocationKind::pinned);
}

void register_host(void* pointer, std::size_t bytes, PinnedOptions options) {
  injection_point("register_host");
  if (options.mapped) need(configuration().map_host, "register_host", "mapped host memory");
  Memory::for_caller().register_host(pointer, bytes, options.mapped);
}

void unregister_host(void* pointer) {
  injection_point_of_free("unregister_host", pointer);
  drain_users(pointer);
  Memory::for_caller().unregister_host(pointer);
}

void* device_address(void* mapped_host_pointer) {
  injection_point("device_address");
  const auto found = Memory::for_caller().find(mapped_host_pointer);
  const bool host = found && (found->kind == AllocationKind::pinned || found->kind == AllocationKind::registered);
  if (!host || !found->mapped_to_device) {
    throw Error(ErrorKind::failure, "device_address", "the pointer is not to mapped host memory",
                "allocate or register it with PinnedOptions::mapped");
  }
  return mapped_host_pointer;
}

void* malloc_managed(std::size_t bytes) {
  injection_point("malloc_managed");
  need(configuration().managed, "malloc_managed", "managed memory");
  return Memory::for_caller().allocate(AllocationKind::managed, bytes, selected(), true, "malloc_managed");
}

void free_managed(void* pointer) {
  free_memory("free_managed", pointer, AllocationKind::managed);
}

void* malloc_static_managed(std::size_t bytes) {
  injection_point("malloc_static_managed");
  need(configuration().managed, "malloc_static_managed", "managed memory");
  return Memory::for_caller().allocate(AllocationKind::managed, bytes, selected(), true, "malloc_static_managed");
}

void free_static_managed(void* pointer) {
  free_memory("free_static_managed", pointer, AllocationKind::managed);
}

PointerInfo pointer_info(const void* pointer) {
  injection_point("pointer_info");
  const auto found = Memory::for_caller().find(pointer);
  if (!found) return {};
  switch (found->kind) {
    case AllocationKind::device:
    case AllocationKind::pooled:
    case AllocationKind::mapped:
      return {PointerKind::device, found->device, configuration().integrated};
    case AllocationKind::pinned:
    case AllocationKind::registered:
      return {PointerKind::pinned, -1, found->mapped_to_device};
    case AllocationKind::managed:
      return {PointerKind::managed, found->device, true};
  }
  return {};
}

// --- launching -------------------------------------------------------------------------------------

namespace detail {
namespace {

[[noreturn]] void refuse(const char* kernel, const std::string& reason, const std::string& hint,
                         ErrorKind kind = ErrorKind::failure) {
  throw Error(kind, "launch", fmt::format("kernel '{}' cannot be launched ({})", kernel, reason), hint);
}

void check_shape(const char* kernel, const LaunchShape& shape, const emulator::Configuration& c) {
  if (shape.block.size() == 0 || shape.block.size() > threads_per_block || shape.block.z > 64) {
    refuse(kernel, fmt::format("a block of {}×{}×{} threads", shape.block.x, shape.block.y, shape.block.z),
           fmt::format("use 1 to {} threads", threads_per_block));
  }
  if (shape.grid.size() == 0 || shape.grid.x > 0x7fffffffu || shape.grid.y > 65535 || shape.grid.z > 65535) {
    refuse(kernel, fmt::format("a grid of {}×{}×{} blocks", shape.grid.x, shape.grid.y, shape.grid.z),
           "use 1 to 2147483647 × 65535 × 65535 blocks");
  }
  if (shape.shared_bytes > c.shared_per_block) {
    refuse(kernel, fmt::format("{} bytes of shared memory a block", shape.shared_bytes),
           fmt::format("the device has {}", c.shared_per_block));
  }
  if (!shape.cooperative) return;
  if (!c.cooperative) {
    refuse(kernel, "the emulated device has no cooperative launch", "switch it on in ISTHMUS_EMULATOR",
           ErrorKind::unsupported);
  }
  if (shape.grid.size() > c.resident_blocks) {
    refuse(kernel, fmt::format("a cooperative grid of {} blocks", shape.grid.size()),
           fmt::format("the device holds {} at once", c.resident_blocks));
  }
}

/// The pointers among the arguments, each of which the device may use.
std::vector<const void*> check_arguments(const BoundLaunch& bound, int device) {
  std::vector<const void*> pointers;
  for (std::size_t i = 0; i < bound.argument_count && i < 64; ++i) {
    if ((bound.pointer_arguments >> i & 1) == 0) continue;
    void* pointer;
    std::memcpy(&pointer, bound.arguments[i], sizeof pointer);
    if (const auto problem = Memory::for_caller().argument_problem(pointer, device)) {
      refuse(bound.name, fmt::format("argument {}: {}", i + 1, problem->reason), problem->hint);
    }
    pointers.push_back(pointer);
  }
  return pointers;
}

/// The closure's bytes, aligned for any argument.
struct Bytes {
  explicit Bytes(const void* from, std::size_t count) : storage(new Line[(count + sizeof(Line) - 1) / sizeof(Line)]) {
    std::memcpy(storage.get(), from, count);
  }
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::unique_ptr<Line[]> storage;
};

}  // namespace

void launch(Stream& stream, const BoundLaunch& bound, const LaunchShape& shape) {
  injection_point("launch");
  const auto c = configuration();
  check_shape(bound.name, shape, c);
  StreamState& state = state_of(stream);
  if (state.device() != selected()) {
    refuse(bound.name,
           fmt::format("the stream belongs to device {}, and device {} is selected", state.device(), selected()),
           "select the stream's device first");
  }
  auto pointers = check_arguments(bound, state.device());
  static std::atomic<std::uint64_t> launches = 0;
  auto closure = std::make_shared<Bytes>(bound.closure, bound.closure_bytes);
  state.submit([=, pointers = std::move(pointers), device = state.device(), number = launches++, name = bound.name,
                invoke = bound.invoke](const FaultPointer&) {
    const DeviceAccess access(device);
    for (const void* pointer : pointers) access.expect(pointer);
    emulator::Grid grid;
    grid.access = &access;
    grid.kernel = name;
    grid.invoke = invoke;
    grid.closure = closure->storage.get();
    grid.grid = dim3(shape.grid.x, shape.grid.y, shape.grid.z);
    grid.block = dim3(shape.block.x, shape.block.y, shape.block.z);
    grid.shared_bytes = shape.shared_bytes;
    grid.cooperative = shape.cooperative;
    grid.launch_number = number;
    grid.configuration = c;
    return grid.run();
  });
}

KernelInfo kernel_info(const char* name, const void*, const LaunchShape& shape) {
  injection_point("kernel_info");
  const auto c = configuration();
  check_shape(name, shape, c);
  KernelInfo known;
  known.name = name;
  known.blocks_per_multiprocessor = 1;
  known.occupancy = static_cast<double>(shape.block.size()) / threads_per_multiprocessor;
  return known;
}

}  // namespace detail

}  // namespace isthmus::device
