#include "microbench/driver/allocators.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

namespace isthmus::microbench::driver {

namespace {

using device::DeviceInfo;
using device::Stream;

template <bool Mapped, bool WriteCombined>
void* pinned(void*, std::size_t bytes, Stream&) {
  return device::malloc_pinned(bytes, {.mapped = Mapped, .write_combined = WriteCombined});
}
void free_pinned(void* pointer, Stream&) {
  device::free_pinned(pointer);
}
bool always(const DeviceInfo&) {
  return true;
}
bool maps_host(const DeviceInfo& info) {
  return info.can_map_host;
}

// Names as placements have them, where there is one of the kind.
constexpr std::array kAllocators{
    Allocator{"device", false, [](void*, std::size_t bytes, Stream&) { return device::malloc_device(bytes); },
              [](void* pointer, Stream&) { device::free_device(pointer); }, always},
    Allocator{"pool", false,
              [](void*, std::size_t bytes, Stream& stream) { return device::malloc_pooled(bytes, stream); },
              [](void* pointer, Stream& stream) { device::free_pooled(pointer, stream); },
              [](const DeviceInfo& info) { return info.memory_pools; }},
    Allocator{"pinned", true, pinned<false, false>, free_pinned, always},
    Allocator{"mapped", true, pinned<true, false>, free_pinned, maps_host},
    Allocator{"write_combined", true, pinned<true, true>, free_pinned, maps_host},
    Allocator{"registered", true,
              [](void* memory, std::size_t bytes, Stream&) {
                device::register_host(memory, bytes);
                return memory;
              },
              [](void* pointer, Stream&) { device::unregister_host(pointer); }, always},
    Allocator{"managed", true, [](void*, std::size_t bytes, Stream&) { return device::malloc_managed(bytes); },
              [](void* pointer, Stream&) { device::free_managed(pointer); },
              [](const DeviceInfo& info) { return info.managed; }},
};

}  // namespace

std::span<const Allocator> allocators() noexcept {
  return kAllocators;
}

const Allocator& allocator(std::string_view name) {
  const auto* found =
      std::find_if(kAllocators.begin(), kAllocators.end(), [&](const auto& a) { return a.name == name; });
  if (found == kAllocators.end()) throw std::logic_error("there is no allocator " + std::string(name));
  return *found;
}

Allocation::Allocation(std::string_view allocator_name, std::size_t bytes, Stream& stream)
    : allocator_(allocator(allocator_name)), stream_(stream), pointer_(allocator_.allocate(nullptr, bytes, stream)) {}

Allocation::~Allocation() {
  try {
    stream_.synchronize();  // nothing may still be using it
    allocator_.release(pointer_, stream_);
  } catch (const device::Error&) {  // the first failure is the one to report
  }
}

}  // namespace isthmus::microbench::driver
