#include "microbench/alloc/allocators.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "device/mapped_memory.hpp"
#include "memory/numa_nodes.hpp"
#include "memory/pages.hpp"

namespace isthmus::microbench::alloc {

namespace {

using device::DeviceInfo;
using device::PointerKind;
using Request = AllocationRequest;

std::size_t rounded(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// What an allocator of the host gave, if it did.
void* given(void* pointer, const char* call, std::size_t bytes) {
  if (pointer != nullptr) return pointer;
  throw device::Error(device::ErrorKind::out_of_memory, call,
                      "the system has no " + std::to_string(bytes) + " bytes of host memory", "choose a smaller size");
}

void* map_anonymous(const Request& request) {
  void* pointer = mmap(nullptr, request.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return given(pointer == MAP_FAILED ? nullptr : pointer, "mmap", request.bytes);
}

void* allocate_huge(const Request& request) {
  const std::size_t bytes = rounded(request.bytes, memory::huge_page_size());
  void* pointer = given(std::aligned_alloc(memory::huge_page_size(), bytes), "aligned_alloc", bytes);
  madvise(pointer, bytes, MADV_HUGEPAGE);  // a kernel without transparent huge pages refuses
  return pointer;
}

template <bool Mapped, bool WriteCombined>
void* pinned(const Request& request) {
  return device::malloc_pinned(request.bytes, {.mapped = Mapped, .write_combined = WriteCombined});
}
void free_pinned(void* pointer, const Request&) {
  device::free_pinned(pointer);
}
bool maps_host(const DeviceInfo& info) {
  return info.can_map_host;
}

// Names as placements have them, where there is one of the kind.
constexpr std::array kAllocators{
    Allocator{"malloc", "malloc", true, true, false, true, false, PointerKind::unregistered,
              [](const Request& request) { return given(std::malloc(request.bytes), "malloc", request.bytes); },
              [](void* pointer, const Request&) { std::free(pointer); }, nullptr},
    Allocator{"mmap", "mmap of private anonymous memory", true, true, false, true, false, PointerKind::unregistered,
              map_anonymous, [](void* pointer, const Request& request) { munmap(pointer, request.bytes); }, nullptr},
    Allocator{"huge", "aligned_alloc, advised to lie in huge pages", true, true, false, true, false,
              PointerKind::unregistered, allocate_huge, [](void* pointer, const Request&) { std::free(pointer); },
              nullptr},
    Allocator{"node", "libnuma, on one NUMA node", true, true, false, true, false, PointerKind::unregistered,
              [](const Request& request) {
                return given(memory::allocate_on_node(request.bytes, request.numa_node), "numa_alloc_onnode",
                             request.bytes);
              },
              [](void* pointer, const Request& request) { memory::free_on_node(pointer, request.bytes); }, nullptr},
    Allocator{"device", "device memory", false, false, true, false, true, PointerKind::device,
              [](const Request& request) { return device::malloc_device(request.bytes); },
              [](void* pointer, const Request&) { device::free_device(pointer); }, nullptr},
    Allocator{"pool", "device memory, stream-ordered, of a pool that keeps what it got", false, false, true, false,
              true, PointerKind::device,
              [](const Request& request) { return device::malloc_pooled(request.bytes, *request.stream); },
              [](void* pointer, const Request& request) { device::free_pooled(pointer, *request.stream); },
              [](const DeviceInfo& info) { return info.memory_pools; }},
    Allocator{"vmm", "addresses reserved, device memory created, mapped and given access", false, false, true, false,
              true, PointerKind::device,
              [](const Request& request) { return device::malloc_mapped(device::mapped_bytes(request.bytes)); },
              [](void* pointer, const Request& request) {
                device::free_mapped(pointer, device::mapped_bytes(request.bytes));
              },
              [](const DeviceInfo& info) { return info.virtual_memory; }},
    Allocator{"pinned", "host memory, page-locked", true, false, true, true, false, PointerKind::pinned,
              pinned<false, false>, free_pinned, nullptr},
    Allocator{"mapped", "host memory, page-locked, with an address for kernels", true, false, true, true, true,
              PointerKind::pinned, pinned<true, false>, free_pinned, maps_host},
    Allocator{"wc", "host memory, page-locked, not cached by the CPU", true, false, true, true, true,
              PointerKind::pinned, pinned<true, true>, free_pinned, maps_host},
    Allocator{"registered", "page-locking host memory that is there and touched", true, false, true, true, false,
              PointerKind::pinned,
              [](const Request& request) {
                device::register_host(request.memory, request.bytes);
                return request.memory;
              },
              [](void* pointer, const Request&) { device::unregister_host(pointer); }, nullptr},
    Allocator{"managed", "managed memory", true, false, false, true, true, PointerKind::managed,
              [](const Request& request) { return device::malloc_managed(request.bytes); },
              [](void* pointer, const Request&) { device::free_managed(pointer); },
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

}  // namespace isthmus::microbench::alloc
