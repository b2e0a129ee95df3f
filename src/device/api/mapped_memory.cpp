#include "device/api/mapped_memory.hpp"

#include "device/api/device.hpp"

namespace isthmus::device {

std::size_t mapped_bytes(std::size_t bytes) {
  const std::size_t unit = memory_granularity();
  return (bytes + unit - 1) / unit * unit;
}

void* malloc_mapped(std::size_t bytes) {
  void* addresses = reserve_addresses(bytes);
  bool mapped = false;
  try {
    const auto memory = create_memory(bytes);
    try {
      map_memory(addresses, memory);
      mapped = true;
    } catch (...) {
      release_memory(memory);
      throw;
    }
    release_memory(memory);  // released immediately, so that the mapping owns the memory
    set_access(addresses, bytes, selected(), Access::read_write);
  } catch (...) {
    if (mapped) unmap_memory(addresses, bytes);
    release_addresses(addresses, bytes);
    throw;
  }
  return addresses;
}

void free_mapped(void* pointer, std::size_t bytes) {
  unmap_memory(pointer, bytes);
  release_addresses(pointer, bytes);
}

}  // namespace isthmus::device
