#include "memory/host_block.hpp"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "device/device.hpp"
#include "memory/numa_nodes.hpp"
#include "memory/pages.hpp"

namespace isthmus::memory {

namespace {

/// Page-aligned, and always fresh from the system: a reused block would make the first touch of a later cycle cheap.
std::byte* allocate_plain(std::size_t bytes, Pages pages) {
  static const bool fresh = mallopt(M_MMAP_THRESHOLD, kFreshFromBytes) == 1;
  static_cast<void>(fresh);
  const std::size_t alignment = pages == Pages::huge ? huge_page_size() : page_bytes();
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  auto* pointer = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
  if (pointer == nullptr)
    throw device::Error(device::ErrorKind::out_of_memory, "malloc",
                        "the system has no " + std::to_string(bytes) + " bytes of host memory",
                        "choose a smaller size");
  // A kernel without transparent huge pages refuses; disagreements() says so.
  if (pages != Pages::standard) madvise(pointer, rounded, pages == Pages::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return pointer;
}

bool is_plain(HostKind kind) {
  return kind == HostKind::pageable || kind == HostKind::registered;
}

}  // namespace

std::string_view name(HostKind kind) noexcept {
  switch (kind) {
    case HostKind::pageable:
      return "pageable";
    case HostKind::pinned:
      return "pinned";
    case HostKind::registered:
      return "registered";
    case HostKind::write_combined:
      return "write_combined";
    case HostKind::mapped:
      return "mapped";
  }
  return "";
}

HostBlock::HostBlock(HostKind kind, std::size_t bytes, HostBlockOptions options)
    : kind_(kind), options_(options), bytes_(bytes) {
  const ScopedMemoryNode on_node(options_.numa_node);
  if (is_plain(kind)) {
    data_ = allocate_plain(bytes, options.pages);
  } else {
    const bool write_combined = kind == HostKind::write_combined;
    data_ = static_cast<std::byte*>(device::malloc_pinned(
        bytes, {.mapped = kind == HostKind::mapped || write_combined, .write_combined = write_combined}));
  }
  if (kind != HostKind::registered) return;
  try {
    touch_pages(data_, bytes_);  // page-locking would place them where this thread runs
    device::register_host(data_, bytes_, {.mapped = true});
    registered_ = true;
  } catch (...) {
    std::free(std::exchange(data_, nullptr));
    throw;
  }
}

HostBlock::~HostBlock() {
  try {
    free();
  } catch (const device::Error&) {  // the failure that led here has been reported; a second one adds nothing
  }
}

HostBlock::HostBlock(HostBlock&& other) noexcept
    : kind_(other.kind_),
      options_(other.options_),
      bytes_(other.bytes_),
      data_(std::exchange(other.data_, nullptr)),
      registered_(std::exchange(other.registered_, false)) {}

HostBlock& HostBlock::operator=(HostBlock&& other) noexcept {
  std::swap(kind_, other.kind_);
  std::swap(options_, other.options_);
  std::swap(bytes_, other.bytes_);
  std::swap(data_, other.data_);
  std::swap(registered_, other.registered_);
  return *this;
}

std::byte* HostBlock::device_data() const {
  // Page-locked memory is mapped wherever addresses are unified, but only this call says what kernels must use.
  return kind_ == HostKind::pageable ? data_ : static_cast<std::byte*>(device::device_address(data_));
}

void HostBlock::touch() {
  const ScopedMemoryNode on_node(options_.numa_node);
  touch_pages(data_, bytes_);
}

void HostBlock::free() {
  std::byte* pointer = std::exchange(data_, nullptr);
  if (pointer == nullptr) return;
  if (!is_plain(kind_)) {
    device::free_pinned(pointer);
    return;
  }
  if (std::exchange(registered_, false)) device::unregister_host(pointer);
  std::free(pointer);
}

std::optional<std::string> node_disagreement(std::string_view what, const void* begin, std::size_t bytes, int node) {
  if (node < 0) return std::nullopt;
  const auto nodes = nodes_of_pages(begin, bytes);
  const auto elsewhere = std::count_if(nodes.begin(), nodes.end(), [&](int found) { return found != node; });
  if (elsewhere == 0) return std::nullopt;
  return std::to_string(elsewhere) + " of " + std::to_string(nodes.size()) + " sampled pages of " + std::string(what) +
         " do not lie on NUMA node " + std::to_string(node);
}

std::vector<std::string> HostBlock::disagreements(std::string_view what) const {
  std::vector<std::string> found;
  const auto given = device::pointer_info(data_);
  const auto asked = kind_ == HostKind::pageable ? device::PointerKind::unregistered : device::PointerKind::pinned;
  if (given.kind != asked)
    found.push_back(std::string(what) + " is " + std::string(device::name(given.kind)) +
                    " memory to the driver where " + std::string(device::name(asked)) + " was asked for");
  if (kind_ == HostKind::mapped && !given.mapped)
    found.push_back(std::string(what) + " is not mapped, so kernels cannot reach it");
  for (auto& sentence : page_disagreements(what)) found.push_back(std::move(sentence));
  return found;
}

std::vector<std::string> HostBlock::page_disagreements(std::string_view what) const {
  std::vector<std::string> found;
  if (auto elsewhere = node_disagreement(what, data_, bytes_, options_.numa_node))
    found.push_back(std::move(*elsewhere));
  if (is_plain(kind_) && options_.pages != Pages::standard && bytes_ >= huge_page_size()) {
    const auto huge = huge_page_bytes(data_);
    const bool wanted = options_.pages == Pages::huge;
    if (huge && wanted && *huge < bytes_ / 2)
      found.push_back("only " + std::to_string(*huge) + " of " + std::to_string(bytes_) + " bytes of " +
                      std::string(what) + " lie in huge pages");
    if (huge && !wanted && *huge > 0)
      found.push_back(std::to_string(*huge) + " bytes of " + std::string(what) +
                      " lie in huge pages, where base pages were asked for");
  }
  return found;
}

}  // namespace isthmus::memory
