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
  gpu::check("memory_granularity", gpu::granularity_name,
             gpu::memory_granularity(&bytes, selected_for("memory_granularity")));
  return bytes;
}

void* reserve_addresses(std::size_t bytes, std::size_t alignment) {
  injection_point("reserve_addresses");
  void* addresses = nullptr;
  gpu::check("reserve_addresses", gpu::reserve_name, gpu::reserve_addresses(&addresses, bytes, alignment));
  return addresses;
}

void release_addresses(void* addresses, std::size_t bytes) {
  injection_point("release_addresses");
  gpu::check("release_addresses", gpu::free_addresses_name, gpu::free_addresses(addresses, bytes));
}

PhysicalMemory create_memory(std::size_t bytes) {
  injection_point("create_memory");
  PhysicalMemory memory;
  memory.bytes = bytes;
  memory.device = selected_for("create_memory");
  gpu::check("create_memory", gpu::create_name, gpu::create_memory(&memory.handle, bytes, memory.device));
  return memory;
}

void release_memory(const PhysicalMemory& memory) {
  injection_point("release_memory");
  gpu::check("release_memory", gpu::release_name, gpu::release_memory(memory.handle));
}

void map_memory(void* address, const PhysicalMemory& memory) {
  injection_point("map_memory");
  gpu::check("map_memory", gpu::map_name, gpu::map_memory(address, memory.bytes, memory.handle));
}

void unmap_memory(void* address, std::size_t bytes) {
  injection_point("unmap_memory");
  gpu::check("unmap_memory", gpu::unmap_name, gpu::unmap_memory(address, bytes));
}

void set_access(void* address, std::size_t bytes, int device, Access access) {
  injection_point("set_access");
  gpu::check("set_access", gpu::access_name, gpu::set_access(address, bytes, device, access == Access::read_write));
}

}  // namespace isthmus::device
