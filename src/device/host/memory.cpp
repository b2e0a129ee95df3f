// Memory and copies on the emulator.

#include <vector>

#include "device/api/engine_copies.hpp"
#include "device/api/page_events.hpp"
#include "device/api/strided_copy.hpp"
#include "device/host/emulated.hpp"
#include "emulator/devices.hpp"
#include "emulator/emulator.hpp"

namespace isthmus::device {

void* malloc_device(std::size_t bytes) {
  return call("malloc_device", [&] { return emulator::malloc_device(bytes); });
}

void free_device(void* pointer) {
  call_to_free("free_device", [&] { emulator::free_device(pointer); }, pointer);
}

void* malloc_pooled(std::size_t bytes, Stream& stream) {
  return call("malloc_pooled", [&] { return emulator::malloc_pooled(bytes, of(stream)); });
}

void free_pooled(void* pointer, Stream& stream) {
  call_to_free("free_pooled", [&] { emulator::free_pooled(pointer, of(stream)); }, pointer);
}

void set_pool_release_threshold(std::uint64_t) {
  constexpr const char* name = "set_pool_release_threshold";
  call(name, [&] { emulator::need(emulator::configuration().memory_pools, name, "memory pools"); });
}

void* malloc_pinned(std::size_t bytes, PinnedOptions options) {
  return call("malloc_pinned", [&] { return emulator::malloc_pinned(bytes, {.mapped = options.mapped}); });
}

void free_pinned(void* pointer) {
  call_to_free("free_pinned", [&] { emulator::free_pinned(pointer); }, pointer);
}

void register_host(void* pointer, std::size_t bytes, PinnedOptions options) {
  call("register_host", [&] { emulator::register_host(pointer, bytes, {.mapped = options.mapped}); });
}

void unregister_host(void* pointer) {
  call_to_free("unregister_host", [&] { emulator::unregister_host(pointer); }, pointer);
}

void* device_address(void* mapped_host_pointer) {
  return call("device_address", [&] { return emulator::device_address(mapped_host_pointer); });
}

void* malloc_managed(std::size_t bytes) {
  return call("malloc_managed", [&] { return emulator::malloc_managed(bytes); });
}

void free_managed(void* pointer) {
  call_to_free("free_managed", [&] { emulator::free_managed(pointer); }, pointer);
}

void* malloc_static_managed(std::size_t bytes) {
  constexpr const char* name = "malloc_static_managed";
  return call(name, [&] { return emulator::malloc_managed(bytes, name); });
}

void free_static_managed(void* pointer) {
  constexpr const char* name = "free_static_managed";
  call_to_free(name, [&] { emulator::free_managed(pointer, name); }, pointer);
}

PointerInfo pointer_info(const void* pointer) {
  return call("pointer_info", [&] {
    const auto known = emulator::pointer_info(pointer);
    PointerInfo told{.device = known.device, .mapped = known.mapped};
    switch (known.kind) {
      case emulator::PointerKind::unregistered:
        break;
      case emulator::PointerKind::pinned:
        told.kind = PointerKind::pinned;
        break;
      case emulator::PointerKind::device:
        told.kind = PointerKind::device;
        break;
      case emulator::PointerKind::managed:
        told.kind = PointerKind::managed;
        break;
    }
    return told;
  });
}

// --- virtual memory management -----------------------------------------------------------------------

namespace {

emulator::PhysicalMemory memory_of(const PhysicalMemory& memory) {
  return {memory.handle, memory.bytes, memory.device};
}

}  // namespace

std::size_t memory_granularity() {
  return call("memory_granularity", [] { return emulator::memory_granularity(); });
}

void* reserve_addresses(std::size_t bytes, std::size_t alignment) {
  return call("reserve_addresses", [&] { return emulator::reserve_addresses(bytes, alignment); });
}

void release_addresses(void* addresses, std::size_t bytes) {
  call("release_addresses", [&] { emulator::release_addresses(addresses, bytes); });
}

PhysicalMemory create_memory(std::size_t bytes) {
  return call("create_memory", [&] {
    const auto made = emulator::create_memory(bytes);
    return PhysicalMemory{made.handle, made.bytes, made.device};
  });
}

void release_memory(const PhysicalMemory& memory) {
  call_to_free("release_memory", [&] { emulator::release_memory(memory_of(memory)); }, memory_of(memory));
}

void map_memory(void* address, const PhysicalMemory& memory) {
  call("map_memory", [&] { emulator::map_memory(address, memory_of(memory)); });
}

void unmap_memory(void* address, std::size_t bytes) {
  call_to_free("unmap_memory", [&] { emulator::unmap_memory(address, bytes); }, address, bytes);
}

void set_access(void* address, std::size_t bytes, int device, Access access) {
  call("set_access", [&] {
    emulator::set_access(address, bytes, device,
                         access == Access::read_write ? emulator::Access::read_write : emulator::Access::none);
  });
}

// --- copies ------------------------------------------------------------------------------------------

void copy(void* destination, const void* source, std::size_t bytes) {
  call("copy", [&] { emulator::copy(destination, source, bytes); });
}

void copy_async(void* destination, const void* source, std::size_t bytes, Stream& stream) {
  call("copy_async", [&] { emulator::copy_async(destination, source, bytes, of(stream)); });
}

void fill_async(void* pointer, std::uint8_t value, std::size_t bytes, Stream& stream) {
  call("fill_async", [&] { emulator::fill_async(pointer, value, bytes, of(stream)); });
}

void copy_strided_async(void* destination, const void* source, const StridedCopy& shape, Stream& stream) {
  call("copy_strided_async", [&] {
    const StridedCopy whole = strided_extent(shape).shape;
    emulator::copy_strided_async(destination, source,
                                 {.row_bytes = whole.row_bytes,
                                  .rows = whole.rows,
                                  .planes = whole.planes,
                                  .destination_pitch = whole.destination_pitch,
                                  .destination_rows = whole.destination_rows,
                                  .source_pitch = whole.source_pitch,
                                  .source_rows = whole.source_rows},
                                 of(stream));
  });
}

void copy_batch_async(std::span<const CopyItem> items, Stream& stream) {
  call("copy_batch_async", [&] {
    std::vector<emulator::CopyItem> all;
    for (const auto& [destination, source, bytes] : items) all.push_back({destination, source, bytes});
    emulator::copy_batch_async(all, of(stream));
  });
}

void copy_batch_by_engines_async(std::span<const CopyItem> items, Stream& stream) {
  copy_batch_async(items, stream);
}

void write_values_async(std::span<const ValueWrite> writes, Stream& stream) {
  call("write_values_async", [&] {
    std::vector<emulator::ValueWrite> all;
    for (const auto& [word, value] : writes) all.push_back({word, value});
    emulator::write_values_async(all, of(stream));
  });
}

// --- managed memory ----------------------------------------------------------------------------------

namespace {

std::vector<emulator::MemoryRange> ranges_of(std::span<const MemoryRange> ranges) {
  std::vector<emulator::MemoryRange> all;
  for (const auto& [pointer, bytes] : ranges) all.push_back({pointer, bytes});
  return all;
}

}  // namespace

void prefetch(void* pointer, std::size_t bytes, Location to, Stream& stream) {
  call("prefetch", [&] { emulator::prefetch(pointer, bytes, {to.device}, of(stream)); });
}

void prefetch_batch(std::span<const MemoryRange> ranges, Location to, Stream& stream) {
  call("prefetch_batch", [&] { emulator::prefetch_batch(ranges_of(ranges), {to.device}, of(stream)); });
}

void discard_batch(std::span<const MemoryRange> ranges, Stream& stream) {
  call("discard_batch", [&] { emulator::discard_batch(ranges_of(ranges), of(stream)); });
}

void discard_and_prefetch_batch(std::span<const MemoryRange> ranges, Location to, Stream& stream) {
  call("discard_and_prefetch_batch",
       [&] { emulator::discard_and_prefetch_batch(ranges_of(ranges), {to.device}, of(stream)); });
}

void advise(void* pointer, std::size_t bytes, Advice, Location location) {
  call("advise", [&] { emulator::advise(pointer, bytes, {location.device}); });
}

std::optional<int> last_prefetch(const void* pointer, std::size_t bytes) {
  return call("last_prefetch", [&] { return emulator::last_prefetch(pointer, bytes); });
}

bool watch_pages(PageListener listener, void* context) {
  return translated([&] { return emulator::watch_pages(listener, context); });
}

void unwatch_pages() {
  emulator::unwatch_pages();
}

std::uint64_t create_page_group() {
  return emulator::create_page_group();
}

bool destroy_page_group(std::uint64_t group) {
  return emulator::destroy_page_group(group);
}

bool set_page_group(std::uint64_t group, std::uintptr_t address, std::size_t bytes) {
  return emulator::set_page_group(group, address, bytes);
}

}  // namespace isthmus::device
