// Memory of the emulated device, and launches.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "emulator/devices.hpp"
#include "emulator/emulator.hpp"
#include "emulator/format.hpp"
#include "emulator/grid.hpp"
#include "emulator/launch.hpp"
#include "emulator/memory.hpp"
#include "emulator/stream.hpp"

namespace emulator {

MemoryInfo memory_info() {
  return Memory::for_caller().info(selected());
}

void set_work_deadline(double seconds_from_now) noexcept {
  work_deadline = seconds() + seconds_from_now;
}

// --- memory ----------------------------------------------------------------------------------------

void* malloc_device(std::size_t bytes) {
  return Memory::for_caller().allocate(AllocationKind::device, bytes, selected(), true, "malloc_device");
}

namespace {

/// Waits for queued work that may use the memory, as the vendors' frees do: for device memory, work of devices that
/// have access to it; for host memory, all work.
void drain_users(const void* pointer) {
  const auto found = Memory::for_caller().find(pointer);
  auto streams = StreamState::all();
  if (found && found->kind == AllocationKind::device) {
    std::erase_if(streams, [&](const auto& stream) { return !reaches(stream->device(), found->device); });
  }
  drain(streams);
}

void free_memory(const char* call, void* pointer, AllocationKind kind) {
  if (pointer == nullptr) return;
  drain_users(pointer);
  Memory::for_caller().release(pointer, kind, call);
}

}  // namespace

void free_device(void* pointer) {
  free_memory("free_device", pointer, AllocationKind::device);
}

void* malloc_pooled(std::size_t bytes, Stream& stream) {
  need(configuration().memory_pools, "malloc_pooled", "memory pools");
  StreamState& state = outside_capture(stream, "malloc_pooled");
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
  if (pointer == nullptr) return;
  StreamState& state = outside_capture(stream, "free_pooled");
  Memory::for_caller().pool_leave(pointer, "free_pooled");
  state.submit(
      [pointer](const FaultPointer&) -> FaultPointer {
        if (const auto overwritten = Memory::instance().pool_depart(pointer)) {
          return make_fault(ErrorKind::failure, *overwritten, "correct the kernel or copy that did it");
        }
        return nullptr;
      },
      StreamState::When::always);
}

void* malloc_pinned(std::size_t bytes, PinnedOptions options) {
  if (options.mapped) need(configuration().map_host, "malloc_pinned", "mapped host memory");
  return Memory::for_caller().allocate(AllocationKind::pinned, bytes, -1, options.mapped, "malloc_pinned");
}

void free_pinned(void* pointer) {
  free_memory("free_pinned", pointer, AllocationKind::pinned);
}

void register_host(void* pointer, std::size_t bytes, PinnedOptions options) {
  if (options.mapped) need(configuration().map_host, "register_host", "mapped host memory");
  Memory::for_caller().register_host(pointer, bytes, options.mapped);
}

void unregister_host(void* pointer) {
  drain_users(pointer);
  Memory::for_caller().unregister_host(pointer);
}

void* device_address(void* mapped_host_pointer) {
  const auto found = Memory::for_caller().find(mapped_host_pointer);
  const bool host = found && (found->kind == AllocationKind::pinned || found->kind == AllocationKind::registered);
  if (!host || !found->mapped_to_device) {
    throw Error(ErrorKind::failure, "device_address", "the pointer does not point to mapped host memory",
                "allocate or register it with PinnedOptions::mapped");
  }
  return mapped_host_pointer;
}

void* malloc_managed(std::size_t bytes, const char* call) {
  need(configuration().managed, call, "managed memory");
  return Memory::for_caller().allocate(AllocationKind::managed, bytes, selected(), true, call);
}

void free_managed(void* pointer, const char* call) {
  free_memory(call, pointer, AllocationKind::managed);
}

PointerInfo pointer_info(const void* pointer) {
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

void excuse(const void* pointer, std::size_t bytes) {
  Memory::instance().excuse(pointer, bytes);
}

void excuse(const PhysicalMemory& memory) {
  Memory::instance().excuse(memory);
}

// --- launches --------------------------------------------------------------------------------------

namespace {

[[noreturn]] void refuse(const char* kernel, const std::string& reason, const std::string& hint,
                         ErrorKind kind = ErrorKind::failure) {
  throw Error(kind, "launch", sentence("kernel '{}' cannot be launched ({})", kernel, reason), hint);
}

/// Returns the pointers among the arguments; throws if the device may not use one of them.
std::vector<const void*> check_arguments(const BoundLaunch& bound, int device) {
  std::vector<const void*> pointers;
  for (std::size_t i = 0; i < bound.argument_count && i < 64; ++i) {
    if ((bound.pointer_arguments >> i & 1) == 0) continue;
    void* pointer;
    std::memcpy(&pointer, bound.arguments[i], sizeof pointer);
    if (const auto problem = Memory::for_caller().argument_problem(pointer, device)) {
      refuse(bound.name, sentence("argument {}: {}", i + 1, problem->reason), problem->hint);
    }
    pointers.push_back(pointer);
  }
  return pointers;
}

/// Copy of the closure, aligned for any argument.
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

void check_shape(const char* kernel, const LaunchShape& shape) {
  const auto c = configuration();
  if (shape.block.size() == 0 || shape.block.size() > threads_per_block || shape.block.z > 64) {
    refuse(kernel, sentence("a block of {}×{}×{} threads", shape.block.x, shape.block.y, shape.block.z),
           sentence("use 1 to {} threads", threads_per_block));
  }
  if (shape.grid.size() == 0 || shape.grid.x > 0x7fffffffu || shape.grid.y > 65535 || shape.grid.z > 65535) {
    refuse(kernel, sentence("a grid of {}×{}×{} blocks", shape.grid.x, shape.grid.y, shape.grid.z),
           "use 1 to 2147483647 × 65535 × 65535 blocks");
  }
  if (shape.shared_bytes > c.shared_per_block) {
    refuse(kernel, sentence("{} bytes of shared memory a block", shape.shared_bytes),
           sentence("the device has {}", c.shared_per_block));
  }
  if (!shape.cooperative) return;
  if (!c.cooperative) {
    refuse(kernel, "the emulated device has no cooperative launch",
           sentence("switch it on in {}", introduction().variable), ErrorKind::unsupported);
  }
  if (shape.grid.size() > c.resident_blocks) {
    refuse(kernel, sentence("a cooperative grid of {} blocks", shape.grid.size()),
           sentence("at most {} fit on the device at once", c.resident_blocks));
  }
}

void launch(Stream& stream, const BoundLaunch& bound, const LaunchShape& shape) {
  const auto c = configuration();
  check_shape(bound.name, shape);
  StreamState& state = stream.state();
  if (state.device() != selected()) {
    refuse(bound.name,
           sentence("the stream belongs to device {}, and device {} is selected", state.device(), selected()),
           "select the stream's device first");
  }
  auto pointers = check_arguments(bound, state.device());
  static std::atomic<std::uint64_t> launches = 0;
  auto closure = std::make_shared<Bytes>(bound.closure, bound.closure_bytes);
  state.submit([=, pointers = std::move(pointers), device = state.device(), number = launches++, name = bound.name,
                invoke = bound.invoke](const FaultPointer&) {
    const DeviceAccess access(device);
    for (const void* pointer : pointers) access.expect(pointer);
    Grid grid;
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

}  // namespace emulator
