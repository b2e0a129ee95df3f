#include "microbench/alloc/host_calls.hpp"

#include <sys/mman.h>

#include <cstdlib>

#include "memory/kind.hpp"
#include "memory/numa_nodes.hpp"
#include "memory/pages.hpp"

namespace isthmus::microbench::alloc {

namespace {

using memory::given;

void* map_anonymous(std::size_t bytes, int) {
  void* pointer = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return given(pointer == MAP_FAILED ? nullptr : pointer, "mmap", bytes);
}

void* allocate_huge(std::size_t bytes, int) {
  const std::size_t page = memory::huge_page_size(), whole = (bytes + page - 1) / page * page;
  void* pointer = given(std::aligned_alloc(page, whole), "aligned_alloc", whole);
  madvise(pointer, whole, MADV_HUGEPAGE);  // fails on a kernel without transparent huge pages
  return pointer;
}

void* allocate_on_node(std::size_t bytes, int numa_node) {
  return given(memory::allocate_on_node(bytes, numa_node), "numa_alloc_onnode", bytes);
}

constexpr HostCall kHostCalls[] = {
    {"mmap", "mmap of private anonymous memory", map_anonymous,
     [](void* pointer, std::size_t bytes) { munmap(pointer, bytes); }},
    {"huge", "aligned_alloc, with advice to use huge pages", allocate_huge,
     [](void* pointer, std::size_t) { std::free(pointer); }},
    {"node", "libnuma, on one NUMA node", allocate_on_node,
     [](void* pointer, std::size_t bytes) { memory::free_on_node(pointer, bytes); }},
};

}  // namespace

std::span<const HostCall> host_calls() noexcept {
  return kHostCalls;
}

}  // namespace isthmus::microbench::alloc
