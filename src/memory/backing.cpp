#include "memory/backing.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "memory/host_cache.hpp"
#include "memory/pages.hpp"
#include "memory/parallel.hpp"

namespace isthmus::memory {

namespace {

void append(std::vector<std::string>& to, std::vector<std::string> more) {
  std::ranges::move(more, std::back_inserter(to));
}

/// Reads one byte of every page on one thread, like a program that uses its results.
void read_pages(std::byte* begin, std::size_t bytes) {
  unsigned sum = 0;
  for_each_page(begin, bytes, false,
                [&](const std::byte* page) { sum += *reinterpret_cast<const volatile unsigned char*>(page); });
  asm volatile("" : : "r"(sum));
}

/// Memory on the device only.
class Scratch : public Backing {
 public:
  using Backing::Backing;
  bool apart() const noexcept override { return true; }
  Footprint footprint() const noexcept override { return {.host = 0, .device = spec_.bytes}; }
  void allocate_host() override {}
  void allocate_device(device::Stream& stream) override {
    own_ = Block(row_.device == Kind::pool ? Kind::pool : Kind::device, spec_.bytes, {.stream = &stream});
    device_ = own_.data();
  }
  void free_device(device::Stream* stream) override {
    device_ = nullptr;
    own_.free(stream);
  }
  void free_host() override {}
  void copy_in(std::size_t, std::size_t, device::Stream&) override {}
  void copy_out(std::size_t, std::size_t, device::Stream&) override {}
  void reset(device::Stream& stream) override {
    device::fill_async(device_, std::to_integer<std::uint8_t>(kPoison), spec_.bytes, stream);
  }
  void reset_on_host() override {}
  bool flush_host_caches() const override { return true; }
  std::vector<std::string> disagreements() const override {
    return own_ ? own_.disagreements("the device memory of buffer " + spec_.name) : std::vector<std::string>{};
  }

 private:
  Block own_;
};

/// Memory on the host only.
class HostOnly : public Backing {
 public:
  using Backing::Backing;
  bool apart() const noexcept override { return true; }
  bool copied() const noexcept override { return false; }
  Footprint footprint() const noexcept override { return {.host = spec_.bytes, .device = 0}; }
  void allocate_host() override {
    block_ = Block(kind(), spec_.bytes, {.numa_node = options_.numa_node});
    host_ = block_.data();
  }
  void allocate_device(device::Stream&) override {}
  void free_device(device::Stream*) override {}
  void free_host() override {
    host_ = nullptr;
    block_.free();
  }
  void copy_in(std::size_t, std::size_t, device::Stream&) override {}
  void copy_out(std::size_t, std::size_t, device::Stream&) override {}
  void reset(device::Stream&) override {}
  void reset_on_host() override {}
  bool flush_host_caches() const override { return memory::flush_host_caches(host_, spec_.bytes); }
  std::vector<std::string> disagreements() const override {
    return block_ ? block_.disagreements("the host memory of buffer " + spec_.name) : std::vector<std::string>{};
  }

 protected:
  virtual Kind kind() const noexcept { return Kind::pageable; }

 private:
  Block block_;
};

/// Host memory that is copied in parts; allocated as the kind of memory that the placement copies from.
class Source : public HostOnly {
 public:
  using HostOnly::HostOnly;
  bool copied() const noexcept override { return true; }
  void copy_in(std::size_t, std::size_t, device::Stream&) override { has_no_device_memory(); }
  void copy_out(std::size_t, std::size_t, device::Stream&) override { has_no_device_memory(); }

 private:
  Kind kind() const noexcept override { return row_.host; }
  [[noreturn]] void has_no_device_memory() const {
    throw std::logic_error("buffer " + spec_.name + " is on the host only: copy parts of it into a scratch buffer");
  }
};

/// Separate host and device memory; data is copied between them.
class Copied : public Scratch {
 public:
  using Scratch::Scratch;
  Footprint footprint() const noexcept override { return {.host = spec_.bytes, .device = spec_.bytes}; }
  void allocate_host() override {
    block_ = Block(row_.host, spec_.bytes, {.numa_node = options_.numa_node});
    host_ = block_.data();
  }
  void free_host() override {
    host_ = nullptr;
    block_.free();
  }
  void copy_in(std::size_t offset, std::size_t bytes, device::Stream& stream) override {
    copy(row_.in, device_ + offset, host_ + offset, bytes, stream);
  }
  void copy_out(std::size_t offset, std::size_t bytes, device::Stream& stream) override {
    copy(row_.out, host_ + offset, device_ + offset, bytes, stream);
  }
  void reset_on_host() override {
    if (spec_.role == Role::output) fill_host(host_, spec_.bytes, kPoison);
  }
  bool flush_host_caches() const override { return memory::flush_host_caches(host_, spec_.bytes); }
  std::vector<std::string> disagreements() const override {
    auto found = Scratch::disagreements();
    if (block_) append(found, block_.disagreements("the host memory of buffer " + spec_.name));
    return found;
  }

 private:
  Block block_;
};

/// Memory that both host and device access.
class Shared : public Backing {
 public:
  using Backing::Backing;
  bool apart() const noexcept override { return false; }
  Footprint footprint() const noexcept override {
    return on_device(row_.host) ? Footprint{.host = 0, .device = spec_.bytes}
                                : Footprint{.host = spec_.bytes, .device = row_.managed() ? spec_.bytes : 0};
  }
  void allocate_host() override {
    block_ = Block(row_.host, spec_.bytes, {.numa_node = options_.numa_node});
    host_ = block_.data();
  }
  void allocate_device(device::Stream&) override { device_ = block_.device_data(); }
  void free_device(device::Stream*) override { device_ = nullptr; }
  void free_host() override {
    host_ = nullptr;
    block_.free();
  }
  void copy_in(std::size_t, std::size_t, device::Stream&) override {}
  void copy_out(std::size_t offset, std::size_t bytes, device::Stream&) override {
    if (row_.out == Travel::host_access) read_pages(host_ + offset, bytes);
  }
  void reset(device::Stream&) override {}
  void reset_on_host() override {
    if (spec_.role == Role::output) fill_host(host_, spec_.bytes, kPoison);
  }
  bool flush_host_caches() const override { return memory::flush_host_caches(host_, spec_.bytes); }
  std::vector<std::string> disagreements() const override {
    return block_ ? block_.disagreements("the memory of buffer " + spec_.name) : std::vector<std::string>{};
  }

 private:
  Block block_;
};

/// Managed pages that are prefetched, advised, or moved on access.
class Managed : public Shared {
 public:
  using Shared::Shared;
  void allocate_device(device::Stream& stream) override {
    Shared::allocate_device(stream);
    if (!row_.advised) return;
    if (spec_.role == Role::input) return device::advise(host_, spec_.bytes, device::Advice::read_mostly, gpu());
    device::advise(host_, spec_.bytes, device::Advice::preferred_location, gpu());
    device::advise(host_, spec_.bytes, device::Advice::accessed_by, gpu());
  }
  void free_host() override {
    sent_ = false;
    Shared::free_host();
  }
  void copy_in(std::size_t offset, std::size_t bytes, device::Stream& stream) override {
    if (row_.in != Travel::prefetch) return;
    device::prefetch(host_ + offset, bytes, gpu(), stream);
    sent_ = bytes == spec_.bytes;
  }
  void copy_out(std::size_t offset, std::size_t bytes, device::Stream& stream) override {
    if (row_.out != Travel::prefetch) return Shared::copy_out(offset, bytes, stream);
    device::prefetch(host_ + offset, bytes, device::Location::host(options_.numa_node), stream);
    sent_ = false;
  }
  void reset(device::Stream& stream) override {
    sent_ = false;
    if (row_.in != Travel::prefetch) return;
    if (!waits_on_device())
      return device::prefetch(host_, spec_.bytes, device::Location::host(options_.numa_node), stream);
    device::prefetch(host_, spec_.bytes, gpu(), stream);
    device::fill_async(host_, std::to_integer<std::uint8_t>(kPoison), spec_.bytes, stream);
  }
  void reset_on_host() override {
    if (waits_on_device()) return;
    Shared::reset_on_host();
    if (row_.in != Travel::prefetch && spec_.role != Role::output) rewrite_pages(host_, spec_.bytes);
  }
  bool flush_host_caches() const override { return waits_on_device() || Shared::flush_host_caches(); }
  std::vector<std::string> disagreements() const override {
    auto found = Shared::disagreements();
    if (!sent_) return found;
    const auto place = device::last_prefetch(host_, spec_.bytes);
    if (place == options_.device) return found;
    found.push_back("buffer " + spec_.name + " was prefetched to device " + std::to_string(options_.device) +
                    ", but the driver reports that its pages were last sent to " +
                    (!place       ? std::string("several or unknown places")
                     : *place < 0 ? std::string("the host")
                                  : "device " + std::to_string(*place)));
    return found;
  }

 private:
  device::Location gpu() const { return device::Location::gpu(options_.device); }
  /// Returns whether the buffer is already on the device when kernels start, as are the outputs of placements with two
  /// memories: kernels then cause no page faults in it.
  bool waits_on_device() const { return row_.in == Travel::prefetch && spec_.role == Role::output; }

  bool sent_ = false;  ///< the whole buffer was last sent to the device explicitly
};

}  // namespace

void copy(Travel travel, std::byte* to, const std::byte* from, std::size_t bytes, device::Stream& stream) {
  if (travel == Travel::blocking) return device::copy(to, from, bytes);
  device::copy_async(to, from, bytes, stream);
}

std::unique_ptr<Backing> make_backing(const PlacementFacts& row, const BufferSpec& spec,
                                      const PlacementOptions& options) {
  if (spec.role == Role::scratch) return std::make_unique<Scratch>(row, spec, options);
  if (spec.role == Role::host_source) return std::make_unique<Source>(row, spec, options);
  if (spec.role == Role::host) return std::make_unique<HostOnly>(row, spec, options);
  if (row.back != nullptr) {
    if (auto own = row.back(row, spec, options)) return own;
  }
  if (row.two_memories()) return std::make_unique<Copied>(row, spec, options);
  if (row.managed()) return std::make_unique<Managed>(row, spec, options);
  return std::make_unique<Shared>(row, spec, options);
}

}  // namespace isthmus::memory
