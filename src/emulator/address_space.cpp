// Virtual memory management.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "emulator/device.hpp"
#include "emulator/devices.hpp"
#include "emulator/emulator.hpp"
#include "emulator/format.hpp"
#include "emulator/memory.hpp"

namespace emulator {

namespace {

constexpr std::size_t kPage = 4096;

[[noreturn]] void refuse(const char* call, const std::string& reason, const std::string& hint,
                         ErrorKind kind = ErrorKind::failure) {
  throw Error(kind, call, reason, hint);
}

void require_whole(const char* call, const char* what, std::uint64_t number) {
  if (number == 0 || number % Memory::granularity != 0)
    refuse(call, sentence("{} {:#x} is not a multiple of the granularity, {} bytes", what, number, Memory::granularity),
           "round up to memory_granularity()");
}

std::uintptr_t number_of(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

}  // namespace

void* Memory::reserve_addresses(std::size_t bytes, std::size_t alignment) {
  const char* call = "reserve_addresses";
  require_whole(call, "size", bytes);
  if (alignment == 0) alignment = granularity;
  require_whole(call, "alignment", alignment);
  if ((alignment & (alignment - 1)) != 0)
    refuse(call, sentence("alignment {:#x} is not a power of two", alignment), "use a power of two");
  if (bytes > arena_bytes_ || alignment > arena_bytes_)
    refuse(call, "the emulator's address range is too small", "request less", ErrorKind::out_of_memory);
  const std::lock_guard lock(mutex_);
  const std::uintptr_t found = reserve(bytes + alignment + kPage);
  const std::uintptr_t address = (found + alignment - 1) / alignment * alignment;
  reserved_.emplace(address, bytes);
  return reinterpret_cast<void*>(address);
}

void Memory::release_addresses(void* addresses, std::size_t bytes) {
  const char* call = "release_addresses";
  const std::uintptr_t address = number_of(addresses);
  const std::lock_guard lock(mutex_);
  const auto held = reserved_.find(address);
  if (held == reserved_.end())
    refuse(call, sentence("{:#x} is not the beginning of a reserved range", address),
           "release each reserved range exactly once");
  if (held->second != bytes)
    refuse(call, sentence("{} bytes of a range of {} cannot be released", bytes, held->second),
           "release the range as a whole");
  const auto mapping = live_.lower_bound(address);
  if (mapping != live_.end() && mapping->first < address + bytes)
    refuse(call, sentence("map_memory #{} is still in the range", mapping->second.serial), "call unmap_memory first");
  reserved_.erase(held);
}

PhysicalMemory Memory::create_memory(std::size_t bytes, int device) {
  const char* call = "create_memory";
  require_whole(call, "size", bytes);
  const std::size_t capacity = configuration().memory_bytes;
  const std::lock_guard lock(mutex_);
  std::size_t& used = used_[static_cast<std::size_t>(device)];
  if (bytes > capacity || used > capacity - bytes)
    refuse(call,
           sentence("{} bytes do not fit ({} of {} bytes of device {}'s memory are free)", bytes,
                    capacity - std::min(used, capacity), capacity, device),
           sentence("choose a smaller size, or raise memory= in {}", introduction().variable),
           ErrorKind::out_of_memory);
  const int file = memfd_create("emulated-device-memory", MFD_CLOEXEC);
  void* poisoned = MAP_FAILED;
  if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0)
    poisoned = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (poisoned == MAP_FAILED) {
    const int problem = errno;
    if (file >= 0) ::close(file);
    refuse(call, sentence("the emulator cannot allocate memory for it ({})", std::strerror(problem)), "request less",
           ErrorKind::out_of_memory);
  }
  std::memset(poisoned, poison_byte(configuration().poison), bytes);
  munmap(poisoned, bytes);
  used += bytes;
  const std::uint64_t handle = ++serial_;
  physical_.emplace(handle, Physical{.file = file, .bytes = bytes, .device = device});
  return {handle, bytes, device};
}

void Memory::drop_if_unused(std::map<std::uint64_t, Physical>::iterator memory) {
  if (memory->second.mappings > 0 || !memory->second.released) return;
  used_[static_cast<std::size_t>(memory->second.device)] -= memory->second.bytes;
  ::close(memory->second.file);
  physical_.erase(memory);
}

void Memory::release_memory(const PhysicalMemory& memory) {
  const std::lock_guard lock(mutex_);
  const auto found = physical_.find(memory.handle);
  if (found == physical_.end() || found->second.released)
    refuse("release_memory", sentence("the memory with handle {} is unknown or already released", memory.handle),
           "release each handle of create_memory exactly once");
  found->second.released = true;
  drop_if_unused(found);
}

void Memory::map_memory(void* pointer, const PhysicalMemory& memory) {
  const char* call = "map_memory";
  const std::uintptr_t address = number_of(pointer);
  require_whole(call, "address", address);
  const std::lock_guard lock(mutex_);
  const auto found = physical_.find(memory.handle);
  if (found == physical_.end() || found->second.released)
    refuse(call, sentence("the memory with handle {} is unknown or was released", memory.handle),
           "map a handle of create_memory before it is released");
  Physical& physical = found->second;
  auto held = reserved_.upper_bound(address);
  const bool before = held == reserved_.begin();
  if (!before) --held;
  if (before || address - held->first >= held->second || physical.bytes > held->second - (address - held->first))
    refuse(call, sentence("{} bytes from {:#x} are not within reserved addresses", physical.bytes, address),
           "reserve them with reserve_addresses");
  auto other = live_.lower_bound(address);
  const bool ahead = other != live_.end() && other->first < address + physical.bytes;
  const bool behind =
      other != live_.begin() && std::prev(other)->second.begin + std::prev(other)->second.bytes > address;
  if (ahead || behind)
    refuse(call, sentence("memory is already mapped within {} bytes from {:#x}", physical.bytes, address),
           "unmap it first");
  if (mmap(pointer, physical.bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, physical.file, 0) == MAP_FAILED)
    refuse(call, sentence("the emulator cannot map it ({})", std::strerror(errno)), "unmap memory that is not needed",
           ErrorKind::out_of_memory);
  Allocation made;
  made.begin = made.mapped = address;
  made.bytes = made.mapped_bytes = physical.bytes;
  made.kind = AllocationKind::mapped;
  made.device = physical.device;
  made.serial = ++serial_;
  made.accessible = false;
  made.physical = memory.handle;
  freed_.erase(freed_.lower_bound(address), freed_.lower_bound(address + physical.bytes));
  ++physical.mappings;
  live_.emplace(address, std::move(made));
}

std::vector<Allocation*> Memory::whole_mappings(const char* call, std::uintptr_t address, std::size_t bytes) {
  std::vector<Allocation*> mappings;
  std::uintptr_t at = address;
  for (auto next = live_.find(address); at < address + bytes; ++next) {
    if (next == live_.end() || next->first != at || next->second.kind != AllocationKind::mapped) break;
    mappings.push_back(&next->second);
    at += next->second.bytes;
  }
  if (mappings.empty() || at != address + bytes)
    refuse(call, sentence("{} bytes from {:#x} are not one or more whole mappings", bytes, address),
           "pass exactly what map_memory mapped");
  return mappings;
}

void Memory::unmap_memory(void* pointer, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  for (const Allocation* mapping : whole_mappings("unmap_memory", number_of(pointer), bytes)) {
    const auto memory = physical_.find(mapping->physical);
    bury(live_.find(mapping->begin));
    --memory->second.mappings;
    drop_if_unused(memory);
  }
}

void Memory::set_access(void* pointer, std::size_t bytes, int device, bool allowed) {
  const char* call = "set_access";
  require_device(device, call);
  const std::lock_guard lock(mutex_);
  const auto mappings = whole_mappings(call, number_of(pointer), bytes);
  for (const Allocation* mapping : mappings) {
    if (allowed && mapping->device != device) need(configuration().peer_access, call, "peer access");
  }
  for (Allocation* mapping : mappings) {
    const std::uint32_t bit = std::uint32_t{1} << device;
    mapping->access = allowed ? mapping->access | bit : mapping->access & ~bit;
    mapping->accessible = mapping->access != 0;
    close(*mapping);  // it is opened again at the next permitted access
    if (mapping->accessible && configuration().integrated) open(*mapping, nullptr);
  }
}

namespace {

void require_virtual_memory(const char* call) {
  need(configuration().virtual_memory, call, "virtual memory management");
}

}  // namespace

std::size_t memory_granularity() {
  require_virtual_memory("memory_granularity");
  return Memory::granularity;
}

void* reserve_addresses(std::size_t bytes, std::size_t alignment) {
  require_virtual_memory("reserve_addresses");
  return Memory::for_caller().reserve_addresses(bytes, alignment);
}

void release_addresses(void* addresses, std::size_t bytes) {
  require_virtual_memory("release_addresses");
  Memory::for_caller().release_addresses(addresses, bytes);
}

PhysicalMemory create_memory(std::size_t bytes) {
  require_virtual_memory("create_memory");
  return Memory::for_caller().create_memory(bytes, selected());
}

void release_memory(const PhysicalMemory& memory) {
  require_virtual_memory("release_memory");
  Memory::for_caller().release_memory(memory);
}

void map_memory(void* address, const PhysicalMemory& memory) {
  require_virtual_memory("map_memory");
  Memory::for_caller().map_memory(address, memory);
}

void unmap_memory(void* address, std::size_t bytes) {
  require_virtual_memory("unmap_memory");
  Memory::for_caller().unmap_memory(address, bytes);
}

void set_access(void* address, std::size_t bytes, int device, Access access) {
  require_virtual_memory("set_access");
  Memory::for_caller().set_access(address, bytes, device, access == Access::read_write);
}

}  // namespace emulator
