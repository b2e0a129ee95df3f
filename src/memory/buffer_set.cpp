#include <algorithm>
#include <exception>
#include <stdexcept>

#include "memory/host_block.hpp"
#include "memory/host_cache.hpp"
#include "memory/numa_nodes.hpp"
#include "memory/pages.hpp"
#include "memory/parallel.hpp"
#include "memory/placement.hpp"
#include "memory/placement_facts.hpp"

namespace isthmus::memory {

namespace {

constexpr std::byte kPoison{0xff};

/// Reads one byte of every page, on one thread as a program that uses its results would.
void read_pages(std::byte* begin, std::size_t bytes) {
  unsigned sum = 0;
  for_each_page(begin, bytes, false,
                [&](const std::byte* page) { sum += *reinterpret_cast<const volatile unsigned char*>(page); });
  asm volatile("" : : "r"(sum));
}

bool travels_in(Role role) {
  return role == Role::input || role == Role::inout;
}
bool travels_out(Role role) {
  return role == Role::output || role == Role::inout;
}

}  // namespace

struct BufferSet::Implementation {
  struct Part {
    BufferSpec spec;
    std::optional<HostBlock> block{};  ///< what `host` points to, where it is the host's own memory
    std::byte* host = nullptr;
    std::byte* device = nullptr;
    std::size_t units_brought = 0;  ///< of the chunks so far
    bool is_scratch() const { return spec.role == Role::scratch; }
  };

  const PlacementFacts& way;
  PlacementOptions options;
  std::vector<Part> parts;
  std::size_t travelling_bytes = 0, scratch_bytes = 0;
  bool prefetched_in = false;
  void* looked_at = nullptr;  ///< page-locked, for look()
  static constexpr std::size_t kLookBytes = 64 << 10;

  DeviceWay device_way(const Part& part) const {
    return part.is_scratch() && way.device != DeviceWay::pool ? DeviceWay::plain : way.device;
  }
  /// Device memory that is not the host's too.
  bool has_device_memory(const Part& part) const {
    const auto own = device_way(part);
    return own == DeviceWay::plain || own == DeviceWay::pool;
  }

  void free_host_part(Part& part) {
    std::byte* pointer = std::exchange(part.host, nullptr);
    if (pointer == nullptr) return;
    switch (way.host) {
      case HostWay::plain:
      case HostWay::pinned:
      case HostWay::pinned_mapped:
        part.block->free();
        break;
      case HostWay::managed:
        device::free_managed(pointer);
        break;
      case HostWay::device:
        device::free_device(pointer);
        break;
    }
  }

  bool holds_device_memory() const {
    return std::any_of(parts.begin(), parts.end(), [](const auto& part) { return part.device != nullptr; });
  }

  /// `stream` is needed for pooled memory only.
  void free_device_part(Part& part, device::Stream* stream) {
    std::byte* pointer = std::exchange(part.device, nullptr);
    if (pointer == nullptr) return;
    const auto own = device_way(part);
    if (own == DeviceWay::plain) device::free_device(pointer);
    if (own == DeviceWay::pool && stream != nullptr) device::free_pooled(pointer, *stream);
  }

  /// Frees all parts even when one of them fails, then reports the first failure.
  template <class Free>
  void free_all(Free free) {
    std::exception_ptr failure;
    for (auto& part : parts) {
      try {
        free(part);
      } catch (...) {
        if (!failure) failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
  }

  void give_advice(Part& part) {
    const auto gpu = device::Location::gpu(options.device);
    if (part.spec.role == Role::input) {
      device::advise(part.host, part.spec.bytes, device::Advice::read_mostly, gpu);
    } else {
      device::advise(part.host, part.spec.bytes, device::Advice::preferred_location, gpu);
      device::advise(part.host, part.spec.bytes, device::Advice::accessed_by, gpu);
    }
  }

  void bring(Part& part, std::size_t offset, std::size_t bytes, device::Stream& stream) {
    switch (way.in) {
      case Travel::blocking:
        device::copy(part.device + offset, part.host + offset, bytes);
        break;
      case Travel::asynchronous:
        device::copy_async(part.device + offset, part.host + offset, bytes, stream);
        break;
      case Travel::prefetch:
        device::prefetch(part.host + offset, bytes, device::Location::gpu(options.device), stream);
        prefetched_in = true;
        break;
      case Travel::none:
      case Travel::host_access:
        break;
    }
  }

  void fetch(Part& part, std::size_t offset, std::size_t bytes, device::Stream& stream) {
    switch (way.out) {
      case Travel::blocking:
        device::copy(part.host + offset, part.device + offset, bytes);
        break;
      case Travel::asynchronous:
        device::copy_async(part.host + offset, part.device + offset, bytes, stream);
        break;
      case Travel::prefetch:
        device::prefetch(part.host + offset, bytes, device::Location::host(options.numa_node), stream);
        prefetched_in = false;
        break;
      case Travel::host_access:
        read_pages(part.host + offset, bytes);
        break;
      case Travel::none:
        break;
    }
  }
};

BufferSet::BufferSet(Placement placement, std::vector<BufferSpec> specs, PlacementOptions options)
    : implementation_(new Implementation{facts(placement), options, {}}) {
  for (auto& spec : specs) {
    (spec.role == Role::scratch ? implementation_->scratch_bytes : implementation_->travelling_bytes) += spec.bytes;
    implementation_->parts.push_back({std::move(spec)});
  }
}

BufferSet::~BufferSet() {
  auto& self = *implementation_;
  const auto quietly = [](auto&& body) {
    try {
      body();
    } catch (const std::exception&) {  // the failure that led here has been reported; a second one adds nothing
    }
  };
  quietly([] { device::synchronize(); });  // nothing may still be using what is freed
  quietly([&] {
    std::optional<device::Stream> stream;  // the stream of allocate_device() may be gone
    if (self.way.device == DeviceWay::pool && self.holds_device_memory()) stream.emplace();
    self.free_all([&](auto& part) { self.free_device_part(part, stream ? &*stream : nullptr); });
    if (stream) stream->synchronize();
  });
  quietly([&] { self.free_all([&](auto& part) { self.free_host_part(part); }); });
  quietly([&] {
    if (self.looked_at != nullptr) device::free_pinned(self.looked_at);
  });
  if (self.way.device == DeviceWay::pool) {
    // Give the pool's memory back, or the next case finds less of it.
    quietly([] {
      device::set_pool_release_threshold(0);
      device::synchronize();
    });
  }
}

std::size_t BufferSet::host_bytes() const noexcept {
  return implementation_->way.host == HostWay::device ? 0 : implementation_->travelling_bytes;
}

std::size_t BufferSet::device_bytes() const noexcept {
  const auto& way = implementation_->way;
  const bool on_device = way.device == DeviceWay::plain || way.device == DeviceWay::pool ||
                         way.host == HostWay::managed || way.host == HostWay::device;
  return implementation_->scratch_bytes + (on_device ? implementation_->travelling_bytes : 0);
}

void BufferSet::allocate_host() {
  auto& self = *implementation_;
  for (auto& part : self.parts) {
    if (part.is_scratch()) continue;
    const auto allocate = [&](HostKind kind) {
      part.block.emplace(kind, part.spec.bytes, HostBlockOptions{self.options.numa_node, Pages::standard});
      part.host = part.block->data();
    };
    switch (self.way.host) {
      case HostWay::plain:
        allocate(HostKind::pageable);
        break;
      case HostWay::pinned:
        allocate(HostKind::pinned);
        break;
      case HostWay::pinned_mapped:
        allocate(HostKind::mapped);
        break;
      case HostWay::managed:
        part.host = static_cast<std::byte*>(device::malloc_managed(part.spec.bytes));
        break;
      case HostWay::device:
        part.host = static_cast<std::byte*>(device::malloc_device(part.spec.bytes));
        break;
    }
  }
}

void BufferSet::touch_host() {
  auto& self = *implementation_;
  const ScopedMemoryNode on_node(self.options.numa_node);
  for (auto& part : self.parts) {
    if (!part.is_scratch()) touch_pages(part.host, part.spec.bytes);
  }
}

void BufferSet::allocate_device(device::Stream& stream) {
  auto& self = *implementation_;
  // Kept at synchronisations while the case runs: the pool is measured warm, its first use apart.
  if (self.way.device == DeviceWay::pool) device::set_pool_release_threshold(UINT64_MAX);
  for (auto& part : self.parts) {
    switch (self.device_way(part)) {
      case DeviceWay::plain:
        part.device = static_cast<std::byte*>(device::malloc_device(part.spec.bytes));
        break;
      case DeviceWay::pool:
        part.device = static_cast<std::byte*>(device::malloc_pooled(part.spec.bytes, stream));
        break;
      case DeviceWay::mapped:
        part.device = static_cast<std::byte*>(device::device_address(part.host));
        break;
      case DeviceWay::same:
        part.device = part.host;
        if (self.way.advice) self.give_advice(part);
        break;
    }
  }
  if (self.way.device == DeviceWay::pool) stream.synchronize();
}

void BufferSet::free_device(device::Stream& stream) {
  auto& self = *implementation_;
  self.free_all([&](auto& part) { self.free_device_part(part, &stream); });
  if (self.way.device == DeviceWay::pool) stream.synchronize();
}

void BufferSet::free_host() {
  auto& self = *implementation_;
  self.prefetched_in = false;
  self.free_all([&](auto& part) { self.free_host_part(part); });
}

std::byte* BufferSet::host(std::size_t buffer) const {
  return implementation_->parts.at(buffer).host;
}
std::byte* BufferSet::device(std::size_t buffer) const {
  return implementation_->parts.at(buffer).device;
}

void BufferSet::reset(device::Stream& stream) {
  auto& self = *implementation_;
  const bool managed = self.way.host == HostWay::managed;
  const bool prefetches = self.way.in == Travel::prefetch;
  for (auto& part : self.parts) {
    if (self.has_device_memory(part))
      device::fill_async(part.device, std::to_integer<std::uint8_t>(kPoison), part.spec.bytes, stream);
    if (!managed || part.is_scratch()) continue;
    if (prefetches && part.spec.role == Role::output) {
      // Outputs wait on the device, as they do in placements with two copies: their kernel phase shows no faults.
      device::prefetch(part.host, part.spec.bytes, device::Location::gpu(self.options.device), stream);
      device::fill_async(part.host, std::to_integer<std::uint8_t>(kPoison), part.spec.bytes, stream);
    } else if (prefetches) {
      device::prefetch(part.host, part.spec.bytes, device::Location::host(self.options.numa_node), stream);
    }
  }
  stream.synchronize();
  self.prefetched_in = false;
  for (auto& part : self.parts) {
    if (part.is_scratch()) continue;
    const bool poisoned_on_device = managed && prefetches;
    if (part.spec.role == Role::output && !poisoned_on_device) {
      fill_host(part.host, part.spec.bytes, kPoison);
    } else if (managed && !prefetches) {
      rewrite_pages(part.host, part.spec.bytes);
    }
  }
}

bool BufferSet::flush_host_caches() const {
  const auto& self = *implementation_;
  const bool outputs_on_device = self.way.host == HostWay::managed && self.way.in == Travel::prefetch;
  bool flushed = true;
  for (const auto& part : self.parts) {
    if (part.is_scratch() || (part.spec.role == Role::output && outputs_on_device)) continue;
    flushed &= memory::flush_host_caches(part.host, part.spec.bytes);
  }
  return flushed;
}

std::size_t BufferSet::copy_in(device::Stream& stream) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < implementation_->parts.size(); ++i) {
    if (travels_in(implementation_->parts[i].spec.role)) bytes += copy_in(stream, i);
  }
  return bytes;
}

std::size_t BufferSet::copy_in(device::Stream& stream, std::size_t buffer) {
  auto& self = *implementation_;
  if (self.way.in == Travel::none) return 0;
  auto& part = self.parts.at(buffer);
  self.bring(part, 0, part.spec.bytes, stream);
  return part.spec.bytes;
}

std::size_t BufferSet::copy_out(device::Stream& stream) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < implementation_->parts.size(); ++i) {
    if (travels_out(implementation_->parts[i].spec.role)) bytes += copy_out(stream, i);
  }
  return bytes;
}

std::size_t BufferSet::copy_out(device::Stream& stream, std::size_t buffer) {
  auto& self = *implementation_;
  if (self.way.out == Travel::none) return 0;
  // What the host does itself must see what the stream has done.
  if (self.way.out == Travel::blocking || self.way.out == Travel::host_access) stream.synchronize();
  auto& part = self.parts.at(buffer);
  self.fetch(part, 0, part.spec.bytes, stream);
  return part.spec.bytes;
}

void BufferSet::fill(device::Stream& stream, std::size_t buffer, std::uint8_t value) {
  const auto& part = implementation_->parts.at(buffer);
  device::fill_async(part.device, value, part.spec.bytes, stream);
}

void BufferSet::look(device::Stream& stream, std::size_t buffer, std::size_t offset, std::span<std::byte> into) {
  auto& self = *implementation_;
  const auto& part = self.parts.at(buffer);
  if (offset > part.spec.bytes || into.size() > part.spec.bytes - offset)
    throw std::out_of_range("buffer " + part.spec.name + " has " + std::to_string(part.spec.bytes) + " bytes, and " +
                            std::to_string(into.size()) + " from byte " + std::to_string(offset) + " on are asked for");
  if (!self.has_device_memory(part) || self.way.in == Travel::blocking) {
    stream.synchronize();
    if (self.has_device_memory(part)) {
      device::copy(into.data(), part.device + offset, into.size());
    } else {
      std::copy_n(part.host + offset, into.size(), into.data());
    }
    return;
  }
  // By way of page-locked memory: an asynchronous copy to any other waits for itself, and takes longer.
  if (self.looked_at == nullptr) self.looked_at = device::malloc_pinned(Implementation::kLookBytes);
  for (std::size_t done = 0; done < into.size();) {
    const std::size_t bytes = std::min(into.size() - done, Implementation::kLookBytes);
    device::copy_async(self.looked_at, part.device + offset + done, bytes, stream);
    stream.synchronize();
    std::copy_n(static_cast<const std::byte*>(self.looked_at), bytes, into.data() + done);
    done += bytes;
  }
}

std::size_t BufferSet::copy_in(device::Stream& stream, Range chunk, bool first) {
  auto& self = *implementation_;
  if (self.way.in == Travel::none) return 0;
  std::size_t bytes = 0;
  for (auto& part : self.parts) {
    if (!travels_in(part.spec.role)) continue;
    const auto& split = part.spec.split;
    if (split.unit_bytes == 0) {
      if (!first) continue;
      self.bring(part, 0, part.spec.bytes, stream);
      bytes += part.spec.bytes;
      continue;
    }
    if (first) part.units_brought = chunk.first > split.halo ? chunk.first - split.halo : 0;
    const std::size_t begin = std::min(part.units_brought * split.unit_bytes, part.spec.bytes);
    const std::size_t end_unit = chunk.first + chunk.count + split.halo;
    const std::size_t end = std::min(end_unit * split.unit_bytes, part.spec.bytes);
    if (begin >= end) continue;
    self.bring(part, begin, end - begin, stream);
    part.units_brought = end_unit;
    bytes += end - begin;
  }
  return bytes;
}

std::size_t BufferSet::copy_out(device::Stream& stream, Range chunk, bool last) {
  auto& self = *implementation_;
  if (self.way.out == Travel::none) return 0;
  if (self.way.out == Travel::blocking || self.way.out == Travel::host_access) stream.synchronize();
  std::size_t bytes = 0;
  for (auto& part : self.parts) {
    if (!travels_out(part.spec.role)) continue;
    const auto& split = part.spec.split;
    if (split.unit_bytes == 0) {
      if (!last) continue;  // complete only then
      self.fetch(part, 0, part.spec.bytes, stream);
      bytes += part.spec.bytes;
      continue;
    }
    const std::size_t begin = std::min(chunk.first * split.unit_bytes, part.spec.bytes);
    const std::size_t end = std::min((chunk.first + chunk.count) * split.unit_bytes, part.spec.bytes);
    if (begin >= end) continue;
    self.fetch(part, begin, end - begin, stream);
    bytes += end - begin;
  }
  return bytes;
}

bool BufferSet::copies_block() const noexcept {
  const auto& way = implementation_->way;
  const auto blocks = [](Travel travel) {
    return travel == Travel::blocking || travel == Travel::host_access || travel == Travel::prefetch;
  };
  return blocks(way.in) || blocks(way.out);
}

std::vector<std::string> BufferSet::disagreements() const {
  const auto& self = *implementation_;
  std::vector<std::string> found;
  const auto expect = [&](const auto& part, std::string_view side, const device::PointerInfo& given,
                          device::PointerKind asked) {
    if (given.kind != asked)
      found.push_back("the " + std::string(side) + " memory of buffer " + part.spec.name + " is " +
                      std::string(device::name(given.kind)) + " memory to the driver where placement " +
                      std::string(self.way.name) + " asks for " + std::string(device::name(asked)));
  };
  for (const auto& part : self.parts) {
    if (part.host == nullptr && part.device == nullptr) continue;
    if (part.is_scratch()) {
      // Only its device memory, below.
    } else if (part.block) {
      for (auto& sentence : part.block->disagreements("the host memory of buffer " + part.spec.name))
        found.push_back(std::move(sentence));
    } else {
      const bool managed = self.way.host == HostWay::managed;
      expect(part, managed ? "managed" : "shared", device::pointer_info(part.host),
             managed ? device::PointerKind::managed : device::PointerKind::device);
    }
    if (part.device != nullptr && self.has_device_memory(part)) {
      const auto given = device::pointer_info(part.device);
      expect(part, "device", given, device::PointerKind::device);
      if (given.kind == device::PointerKind::device && given.device != self.options.device)
        found.push_back("the device memory of buffer " + part.spec.name + " lies on device " +
                        std::to_string(given.device) + ", asked for was " + std::to_string(self.options.device));
    }
    if (self.prefetched_in && travels_in(part.spec.role)) {
      const auto place = device::last_prefetch(part.host, part.spec.bytes);
      if (place != self.options.device)
        found.push_back("buffer " + part.spec.name + " was prefetched to device " +
                        std::to_string(self.options.device) + ", but the driver says its pages were last sent to " +
                        (!place       ? std::string("several or unknown places")
                         : *place < 0 ? std::string("the host")
                                      : "device " + std::to_string(*place)));
    }
  }
  return found;
}

}  // namespace isthmus::memory
