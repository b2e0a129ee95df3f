// Addresses and memory apart.

#include <string>

#include "device/gpu/check.hpp"

namespace isthmus::device {

namespace {

int selected_for(const char* api) {
  int device = 0;
  ISTHMUS_CALL(api, GetDevice, &device);
  return device;
}

}  // namespace

std::size_t memory_granularity() {
  injection_point("memory_granularity");
  std::size_t bytes = 0;
  gpu::check("memory_granularity", ISTHMUS_DRIVER_NAME(MemGetAllocationGranularity),
             gpu::memory_granularity(&bytes, selected_for("memory_granularity")));
  return bytes;
}

void* reserve_addresses(std::size_t bytes, std::size_t alignment) {
  injection_point("reserve_addresses");
  void* addresses = nullptr;
  gpu::check("reserve_addresses", ISTHMUS_DRIVER_NAME(MemAddressReserve),
             gpu::reserve_addresses(&addresses, bytes, alignment));
  return addresses;
}

void release_addresses(void* addresses, std::size_t bytes) {
  injection_point("release_addresses");
  gpu::check("release_addresses", ISTHMUS_DRIVER_NAME(MemAddressFree), gpu::free_addresses(addresses, bytes));
}

PhysicalMemory create_memory(std::size_t bytes) {
  injection_point("create_memory");
  PhysicalMemory memory;
  memory.bytes = bytes;
  memory.device = selected_for("create_memory");
  gpu::check("create_memory", ISTHMUS_DRIVER_NAME(MemCreate), gpu::create_memory(&memory.handle, bytes, memory.device));
  return memory;
}

void release_memory(const PhysicalMemory& memory) {
  injection_point("release_memory");
  gpu::check("release_memory", ISTHMUS_DRIVER_NAME(MemRelease), gpu::release_memory(memory.handle));
}

void map_memory(void* address, const PhysicalMemory& memory) {
  injection_point("map_memory");
  gpu::check("map_memory", ISTHMUS_DRIVER_NAME(MemMap), gpu::map_memory(address, memory.bytes, memory.handle));
}

void unmap_memory(void* address, std::size_t bytes) {
  injection_point("unmap_memory");
  gpu::check("unmap_memory", ISTHMUS_DRIVER_NAME(MemUnmap), gpu::unmap_memory(address, bytes));
}

void set_access(void* address, std::size_t bytes, int device, Access access) {
  injection_point("set_access");
  gpu::check("set_access", ISTHMUS_DRIVER_NAME(MemSetAccess),
             gpu::set_access(address, bytes, device, access == Access::read_write));
}

}  // namespace isthmus::device
