// Virtual memory management.

#include <bit>
#include <cstdint>

#include "device/gpu/check.hpp"

/// Calls a function of the driver (CUDA) or of the runtime (HIP).
#define ISTHMUS_DRIVER_CALL(api, name, ...) \
  gpu::check(api, ISTHMUS_DRIVER_NAME(name), gpu::driver_call(ISTHMUS_DRIVER(name), __VA_ARGS__))

namespace isthmus::device {

namespace {

int selected_for(const char* api) {
  int device = 0;
  ISTHMUS_CALL(api, GetDevice, &device);
  return device;
}

gpu::MemoryHandle handle_of(const PhysicalMemory& memory) {
  return std::bit_cast<gpu::MemoryHandle>(memory.handle);
}

}  // namespace

std::size_t memory_granularity() {
  injection_point("memory_granularity");
  const auto properties = gpu::memory_of(selected_for("memory_granularity"));
  std::size_t bytes = 0;
  ISTHMUS_DRIVER_CALL("memory_granularity", MemGetAllocationGranularity, &bytes, &properties, gpu::least_granularity);
  return bytes;
}

void* reserve_addresses(std::size_t bytes, std::size_t alignment) {
  injection_point("reserve_addresses");
  gpu::Address addresses{};
  ISTHMUS_DRIVER_CALL("reserve_addresses", MemAddressReserve, &addresses, bytes, alignment, gpu::Address{}, 0);
  return reinterpret_cast<void*>(addresses);
}

void release_addresses(void* addresses, std::size_t bytes) {
  injection_point("release_addresses");
  ISTHMUS_DRIVER_CALL("release_addresses", MemAddressFree, gpu::address_of(addresses), bytes);
}

PhysicalMemory create_memory(std::size_t bytes) {
  injection_point("create_memory");
  PhysicalMemory memory;
  memory.bytes = bytes;
  memory.device = selected_for("create_memory");
  const auto properties = gpu::memory_of(memory.device);
  gpu::MemoryHandle handle{};
  ISTHMUS_DRIVER_CALL("create_memory", MemCreate, &handle, bytes, &properties, 0);
  memory.handle = std::bit_cast<std::uint64_t>(handle);
  return memory;
}

void release_memory(const PhysicalMemory& memory) {
  injection_point("release_memory");
  ISTHMUS_DRIVER_CALL("release_memory", MemRelease, handle_of(memory));
}

void map_memory(void* address, const PhysicalMemory& memory) {
  injection_point("map_memory");
  ISTHMUS_DRIVER_CALL("map_memory", MemMap, gpu::address_of(address), memory.bytes, 0, handle_of(memory), 0);
}

void unmap_memory(void* address, std::size_t bytes) {
  injection_point("unmap_memory");
  ISTHMUS_DRIVER_CALL("unmap_memory", MemUnmap, gpu::address_of(address), bytes);
}

void set_access(void* address, std::size_t bytes, int device, Access access) {
  injection_point("set_access");
  const auto wanted = gpu::access_of(device, access == Access::read_write);
  ISTHMUS_DRIVER_CALL("set_access", MemSetAccess, gpu::address_of(address), bytes, &wanted, 1);
}

}  // namespace isthmus::device
