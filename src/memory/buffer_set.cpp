#include "memory/buffer_set.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <stdexcept>

#include "device/api/ignoring_errors.hpp"
#include "memory/numa_nodes.hpp"
#include "memory/pages.hpp"

namespace isthmus::memory {

namespace {

bool travels_in(Role role) {
  return role == Role::input || role == Role::inout;
}
bool travels_out(Role role) {
  return role == Role::output || role == Role::inout;
}

/// Calls `body` for all parts even if it fails for one, then rethrows the first failure.
template <class Parts, class Body>
void for_all(Parts& parts, Body body) {
  std::exception_ptr failure;
  for (auto& part : parts) {
    try {
      body(part);
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

struct BufferSet::Implementation {
  struct Part {
    std::unique_ptr<Backing> backing;
    std::size_t units_brought = 0;  ///< number of units already copied in, by all chunks so far
    Backing* operator->() const { return backing.get(); }
    const BufferSpec& spec() const { return backing->spec(); }
    void require_address() const {
      if (spec().role == Role::host_source)
        throw std::logic_error("buffer " + spec().name + " is on the host only, so the device has no copy");
      if (backing->view() == nullptr) return;
      throw std::logic_error("buffer " + spec().name +
                             " is paged, so only kernels can access it: pass it to them by Run::paged()");
    }
    void need(Range bytes) const {
      if (bytes.first <= spec().bytes && bytes.count <= spec().bytes - bytes.first) return;
      throw std::out_of_range("buffer " + spec().name + " has " + std::to_string(spec().bytes) + " bytes, but " +
                              std::to_string(bytes.count) + " from byte " + std::to_string(bytes.first) +
                              " on are requested");
    }
  };

  const PlacementFacts& row;
  PlacementOptions options;
  std::vector<Part> parts{};
  Block looked_at{};  ///< page-locked memory for look()
  static constexpr std::size_t kLookBytes = 64 << 10;

  bool pooled() const { return row.device == Kind::pool; }
  /// Waits for the stream if the host copies or reads the data itself, so that it sees the stream's results.
  void before_fetching(device::Stream& stream) const {
    if (row.out == Travel::blocking || row.out == Travel::host_access) stream.synchronize();
  }
};

BufferSet::BufferSet(Placement placement, const std::vector<BufferSpec>& specs, PlacementOptions options)
    : implementation_(new Implementation{.row = *placement, .options = options}) {
  for (const auto& spec : specs) implementation_->parts.push_back({make_backing(*placement, spec, options)});
}

BufferSet::~BufferSet() {
  auto& self = *implementation_;
  device::ignoring_errors([] { device::synchronize(); });  // nothing may still use the memory that is freed
  stop();
  device::ignoring_errors([&] {
    std::optional<device::Stream> stream;  // the stream passed to allocate_device() may no longer exist
    const bool held = std::ranges::any_of(self.parts, [](const auto& part) { return part->device() != nullptr; });
    if (self.pooled() && held) stream.emplace();
    for_all(self.parts, [&](auto& part) { part->free_device(stream ? &*stream : nullptr); });
    if (stream) stream->synchronize();
  });
  device::ignoring_errors([&] { for_all(self.parts, [](auto& part) { part->free_host(); }); });
  if (!self.pooled()) return;
  // Release the pool's memory, so that it is available to the next case.
  device::ignoring_errors([] {
    device::set_pool_release_threshold(0);
    device::synchronize();
  });
}

std::size_t BufferSet::host_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const auto& part : implementation_->parts) bytes += part->footprint().host;
  return bytes;
}

std::size_t BufferSet::device_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const auto& part : implementation_->parts) bytes += part->footprint().device;
  return bytes;
}

void BufferSet::allocate_host() {
  for (auto& part : implementation_->parts) part->allocate_host();
}

void BufferSet::touch_host() {
  const ScopedMemoryNode on_node(implementation_->options.numa_node);
  for (auto& part : implementation_->parts) {
    if (part->host() != nullptr) touch_pages(part->host(), part.spec().bytes);
  }
}

void BufferSet::allocate_device(device::Stream& stream) {
  auto& self = *implementation_;
  // While the case runs, the pool keeps its memory at synchronisations, so that passes measure a warm pool; the pool's
  // first use is measured separately.
  if (self.pooled()) device::set_pool_release_threshold(UINT64_MAX);
  for (auto& part : self.parts) part->allocate_device(stream);
  if (self.pooled()) stream.synchronize();
}

void BufferSet::prepare(device::Stream& stream) {
  for (auto& part : implementation_->parts) part->prepare(stream);
}

void BufferSet::stop() noexcept {
  if (!implementation_->row.paged) return;
  device::ignoring_errors([] { device::synchronize(); });
  for (auto& part : implementation_->parts) part->stop();
}

void BufferSet::free_device(device::Stream& stream) {
  stop();
  for_all(implementation_->parts, [&](auto& part) { part->free_device(&stream); });
  if (implementation_->pooled()) stream.synchronize();
}

void BufferSet::free_host() {
  for_all(implementation_->parts, [](auto& part) { part->free_host(); });
}

std::byte* BufferSet::host(std::size_t buffer) const {
  return implementation_->parts.at(buffer)->host();
}
std::byte* BufferSet::device(std::size_t buffer) const {
  return implementation_->parts.at(buffer)->device();
}

const void* BufferSet::view(std::size_t buffer) const {
  return implementation_->parts.at(buffer)->view();
}
bool BufferSet::copied(std::size_t buffer) const {
  return implementation_->parts.at(buffer)->copied();
}

void BufferSet::check(device::Stream& stream) {
  for (auto& part : implementation_->parts) part->check(stream);
}

std::vector<Backing::Count> BufferSet::counts(device::Stream& stream) {
  std::vector<Backing::Count> sums;
  for (auto& part : implementation_->parts) {
    for (const auto& count : part->counts(stream)) {
      const auto sum = std::ranges::find(sums, count.name, &Backing::Count::name);
      if (sum == sums.end()) {
        sums.push_back(count);
      } else {
        sum->value += count.value;
        sum->needed += count.needed;
      }
    }
  }
  return sums;
}

void BufferSet::reset(device::Stream& stream) {
  for (auto& part : implementation_->parts) part->reset(stream);
  stream.synchronize();
  for (auto& part : implementation_->parts) part->reset_on_host();
}

bool BufferSet::flush_host_caches() const {
  bool flushed = true;
  for (const auto& part : implementation_->parts) flushed &= part->flush_host_caches();
  return flushed;
}

std::size_t BufferSet::copy_in(device::Stream& stream) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < implementation_->parts.size(); ++i) {
    const auto& spec = implementation_->parts[i].spec();
    if (travels_in(spec.role)) bytes += copy_in(stream, i, {0, spec.bytes});
  }
  return bytes;
}

std::size_t BufferSet::copy_in(device::Stream& stream, std::size_t buffer, Range bytes) {
  auto& self = *implementation_;
  auto& part = self.parts.at(buffer);
  part.need(bytes);
  if (self.row.in == Travel::none) return 0;
  part->copy_in(bytes.first, bytes.count, stream);
  return part->copied() ? bytes.count : 0;
}

std::size_t BufferSet::copy_out(device::Stream& stream) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < implementation_->parts.size(); ++i) {
    const auto& spec = implementation_->parts[i].spec();
    if (travels_out(spec.role)) bytes += copy_out(stream, i, {0, spec.bytes});
  }
  return bytes;
}

std::size_t BufferSet::copy_out(device::Stream& stream, std::size_t buffer, Range bytes) {
  auto& self = *implementation_;
  auto& part = self.parts.at(buffer);
  part.need(bytes);
  if (self.row.out == Travel::none) return 0;
  self.before_fetching(stream);
  part->copy_out(bytes.first, bytes.count, stream);
  return part->copied() ? bytes.count : 0;
}

std::size_t BufferSet::copy_in(device::Stream& stream, std::size_t source, Range bytes, std::size_t to,
                               std::size_t offset) {
  auto& self = *implementation_;
  const auto &from = self.parts.at(source), &into = self.parts.at(to);
  if (from.spec().role != Role::host_source || into.spec().role != Role::scratch)
    throw std::logic_error("bytes are copied from a source into a scratch buffer, not from " + from.spec().name +
                           " into " + into.spec().name);
  from.need(bytes);
  into.need({offset, bytes.count});
  copy(self.row.in, into->device() + offset, from->host() + bytes.first, bytes.count, stream);
  return bytes.count;
}

void BufferSet::fill(device::Stream& stream, std::size_t buffer, std::uint8_t value) {
  const auto& part = implementation_->parts.at(buffer);
  part.require_address();
  device::fill_async(part->device(), value, part.spec().bytes, stream);
}

void BufferSet::look(device::Stream& stream, std::size_t buffer, std::size_t offset, std::span<std::byte> into) {
  auto& self = *implementation_;
  const auto& part = self.parts.at(buffer);
  part.require_address();
  part.need({offset, into.size()});
  if (!part->apart() || self.row.in == Travel::blocking) {
    stream.synchronize();
    if (part->apart()) {
      device::copy(into.data(), part->device() + offset, into.size());
    } else {
      std::copy_n(part->host() + offset, into.size(), into.data());
    }
    return;
  }
  // Copy through page-locked memory: an asynchronous copy to pageable memory blocks until it is done and takes longer.
  if (!self.looked_at) self.looked_at = Block(Kind::pinned, Implementation::kLookBytes);
  for (std::size_t done = 0; done < into.size();) {
    const std::size_t bytes = std::min(into.size() - done, Implementation::kLookBytes);
    device::copy_async(self.looked_at.data(), part->device() + offset + done, bytes, stream);
    stream.synchronize();
    std::copy_n(self.looked_at.data(), bytes, into.data() + done);
    done += bytes;
  }
}

std::size_t BufferSet::copy_in(device::Stream& stream, Range chunk, bool first) {
  auto& self = *implementation_;
  if (self.row.in == Travel::none) return 0;
  std::size_t bytes = 0;
  for (auto& part : self.parts) {
    if (!travels_in(part.spec().role)) continue;
    const auto& split = part.spec().split;
    if (split.unit_bytes == 0) {
      if (!first) continue;
      part->copy_in(0, part.spec().bytes, stream);
      bytes += part.spec().bytes;
      continue;
    }
    if (first) part.units_brought = chunk.first > split.halo ? chunk.first - split.halo : 0;
    const std::size_t begin = std::min(part.units_brought * split.unit_bytes, part.spec().bytes);
    const std::size_t end_unit = chunk.first + chunk.count + split.halo;
    const std::size_t end = std::min(end_unit * split.unit_bytes, part.spec().bytes);
    if (begin >= end) continue;
    part->copy_in(begin, end - begin, stream);
    part.units_brought = end_unit;
    bytes += end - begin;
  }
  return bytes;
}

std::size_t BufferSet::copy_out(device::Stream& stream, Range chunk, bool last) {
  auto& self = *implementation_;
  if (self.row.out == Travel::none) return 0;
  self.before_fetching(stream);
  std::size_t bytes = 0;
  for (auto& part : self.parts) {
    if (!travels_out(part.spec().role)) continue;
    const auto& split = part.spec().split;
    if (split.unit_bytes == 0) {
      if (!last) continue;  // the buffer is complete only after the last chunk
      part->copy_out(0, part.spec().bytes, stream);
      bytes += part.spec().bytes;
      continue;
    }
    const std::size_t begin = std::min(chunk.first * split.unit_bytes, part.spec().bytes);
    const std::size_t end = std::min((chunk.first + chunk.count) * split.unit_bytes, part.spec().bytes);
    if (begin >= end) continue;
    part->copy_out(begin, end - begin, stream);
    bytes += end - begin;
  }
  return bytes;
}

bool BufferSet::copies_block() const noexcept {
  const auto blocks = [](Travel travel) { return travel != Travel::none && travel != Travel::asynchronous; };
  return blocks(implementation_->row.in) || blocks(implementation_->row.out);
}

std::vector<std::string> BufferSet::disagreements() const {
  std::vector<std::string> found;
  for (const auto& part : implementation_->parts) std::ranges::move(part->disagreements(), std::back_inserter(found));
  return found;
}

}  // namespace isthmus::memory
