#include "memory/block.hpp"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "device/api/device.hpp"
#include "device/api/ignoring_errors.hpp"
#include "memory/numa_nodes.hpp"
#include "memory/pages.hpp"

namespace isthmus::memory {

namespace {

/// Allocates page-aligned memory, always with fresh pages from the system: in a reused block, the first touch of a
/// later cycle would be cheap.
std::byte* allocate_plain(std::size_t bytes, Pages pages) {
  static const bool fresh = mallopt(M_MMAP_THRESHOLD, kFreshFromBytes) == 1;
  static_cast<void>(fresh);
  const std::size_t alignment = pages == Pages::huge ? huge_page_size() : page_bytes();
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  auto* pointer = static_cast<std::byte*>(given(std::aligned_alloc(alignment, rounded), "malloc", bytes));
  // A kernel without transparent huge pages refuses; disagreements() reports that.
  if (pages != Pages::standard) madvise(pointer, rounded, pages == Pages::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return pointer;
}

bool is_plain(Kind kind) {
  return kind == Kind::pageable || kind == Kind::registered;
}

}  // namespace

Block::Block(Kind kind, std::size_t bytes, BlockOptions options) : kind_(kind), options_(options), bytes_(bytes) {
  const ScopedMemoryNode on_node(options_.numa_node);
  if (is_plain(kind)) {
    data_ = allocate_plain(bytes, options.pages);
    if (kind == Kind::pageable) return;
    try {
      touch_pages(data_, bytes_);  // otherwise page-locking would place the pages on this thread's node
      allocate(kind, {.bytes = bytes, .memory = data_});
    } catch (...) {
      std::free(std::exchange(data_, nullptr));
      throw;
    }
    return;
  }
  if (!page_locked(kind)) device_ = device::selected();
  const bool own = kind == Kind::pool && options.stream == nullptr;
  auto* stream = own ? &own_stream_.emplace() : options.stream;
  data_ = static_cast<std::byte*>(allocate(kind, {.bytes = bytes, .stream = stream}));
  if (own) own_stream_->synchronize();
}

Block::~Block() {
  device::ignoring_errors([this] { free(); });
}

Block::Block(Block&& other) noexcept {
  *this = std::move(other);
}

Block& Block::operator=(Block&& other) noexcept {
  std::swap(kind_, other.kind_);
  std::swap(options_, other.options_);
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(own_stream_, other.own_stream_);
  return *this;
}

std::byte* Block::device_data() const {
  // Page-locked memory is mapped wherever addresses are unified, but only the driver knows the address for kernels.
  if (!page_locked(kind_)) return data_;
  if (kind_ == Kind::pinned && !device::pointer_info(data_).mapped)
    throw device::Error(device::ErrorKind::unsupported, "device_address",
                        "the driver gives page-locked memory an address for kernels only if it is mapped",
                        "choose mapped memory");
  return static_cast<std::byte*>(device::device_address(data_));
}

void Block::touch() {
  if (on_device(kind_)) throw std::logic_error("the CPU does not touch device memory");
  const ScopedMemoryNode on_node(options_.numa_node);
  touch_pages(data_, bytes_);
}

void Block::free(device::Stream* stream) {
  std::byte* pointer = std::exchange(data_, nullptr);
  if (pointer == nullptr) return;
  if (kind_ == Kind::pageable) return std::free(pointer);
  std::optional<device::Selected> on;
  if (device_ >= 0) on.emplace(device_);
  if (stream == nullptr) stream = own_stream_ ? &*own_stream_ : options_.stream;
  release(kind_, pointer, {.bytes = bytes_, .stream = stream});
  if (kind_ == Kind::registered) std::free(pointer);
  if (own_stream_) own_stream_->synchronize();
}

std::optional<std::string> node_disagreement(std::string_view what, const void* begin, std::size_t bytes, int node) {
  if (node < 0) return std::nullopt;
  const auto nodes = nodes_of_pages(begin, bytes);
  const auto elsewhere = std::count_if(nodes.begin(), nodes.end(), [&](int found) { return found != node; });
  if (elsewhere == 0) return std::nullopt;
  return std::to_string(elsewhere) + " of " + std::to_string(nodes.size()) + " sampled pages of " + std::string(what) +
         " are not on NUMA node " + std::to_string(node);
}

std::vector<std::string> Block::disagreements(std::string_view what) const {
  std::vector<std::string> found;
  const auto given = device::pointer_info(data_);
  const auto asked = facts(kind_).pointer_kind;
  const auto of_device = [this](int index) { return device_ < 0 ? "" : " of device " + std::to_string(index); };
  if (given.kind != asked || (on_device(kind_) && given.device != device_))
    found.push_back(std::string(what) + " is " + std::string(device::name(given.kind)) + " memory" +
                    of_device(given.device) + " to the driver, although " + std::string(device::name(asked)) +
                    " memory" + of_device(device_) + " was requested");
  if (kind_ == Kind::mapped && !given.mapped)
    found.push_back(std::string(what) + " is not mapped, so kernels cannot reach it");
  if (!page_locked(kind_) && kind_ != Kind::pageable) return found;
  for (auto& sentence : page_disagreements(what)) found.push_back(std::move(sentence));
  return found;
}

std::vector<std::string> Block::page_disagreements(std::string_view what) const {
  std::vector<std::string> found;
  if (auto elsewhere = node_disagreement(what, data_, bytes_, options_.numa_node))
    found.push_back(std::move(*elsewhere));
  if (is_plain(kind_) && options_.pages != Pages::standard && bytes_ >= huge_page_size()) {
    const auto huge = huge_page_bytes(data_);
    const bool wanted = options_.pages == Pages::huge;
    if (huge && wanted && *huge < bytes_ / 2)
      found.push_back("only " + std::to_string(*huge) + " of " + std::to_string(bytes_) + " bytes of " +
                      std::string(what) + " are in huge pages");
    if (huge && !wanted && *huge > 0)
      found.push_back(std::to_string(*huge) + " bytes of " + std::string(what) +
                      " are in huge pages, although base pages were requested");
  }
  return found;
}

}  // namespace isthmus::memory
