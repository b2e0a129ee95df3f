#include "paging/relay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "device/api/ignoring_errors.hpp"
#include "paging/kernels.hpp"
#include "paging/pager.hpp"

namespace isthmus::paging {

namespace {

/// Number of deadlines that must pass without a request before a relay ends, because its client no longer exists.
constexpr double kIdleDeadlines = 10;

/// Returns the requested GPU, or by default the GPU after the selected one.
int relay_device(const Options& options) {
  const int count = device::count(), client = device::selected();
  const int other = options.relay_device >= 0 ? options.relay_device : (client + 1) % count;
  if (device::backend() == device::Backend::hip)
    throw device::Error(device::ErrorKind::unsupported, "Relay",
                        "HIP keeps writes to another GPU's memory in caches until the kernel ends",
                        "choose the transport pull");
  if (other == client || other >= count)
    throw device::Error(device::ErrorKind::unsupported, "Relay",
                        fmt::format("gpu{} of {} cannot relay pages to gpu{}", other, count, client),
                        "choose a second GPU of this host, or the transport pull");
  return other;
}

/// Returns the number of threads per block, which has a warp for each page in flight.
unsigned threads_of(std::size_t depth, int device) {
  return static_cast<unsigned>(depth) * static_cast<unsigned>(device::info(device).warp_size);
}

/// Adds `more` to the number of threads that all relays use on a device, and returns the sum. Programs may page several
/// arrays at the same time, each through a separate relay.
std::size_t taken(int device, std::ptrdiff_t more = 0) {
  static std::mutex mutex;
  static std::map<int, std::size_t> threads;
  const std::lock_guard lock(mutex);
  return threads[device] += static_cast<std::size_t>(more);
}

/// Returns the number of blocks of the relay. All blocks must be resident at the same time: any other block would never
/// look at its slots. Unless the user requests a number, half of the remaining blocks are left for other relays.
std::size_t queues_of(const Options& options) {
  constexpr std::size_t kUsual = 256;  // filled an H200's link to its host with 4 KiB pages; 64 filled nine tenths
  const int relay = relay_device(options);
  const device::Selected on(relay);
  const unsigned threads = threads_of(options.depth, relay);
  const std::size_t most = relay_blocks(threads), used = (taken(relay) + threads - 1) / threads,
                    left = most - std::min(used, most), wanted = std::max<std::size_t>(options.queues, 1);
  if (wanted > left)
    throw device::Error(
        device::ErrorKind::unsupported, "Relay",
        fmt::format("gpu{} runs at most {} blocks of {} pages at once, and other relays use {}, so {} do not fit",
                    relay, most, options.depth, most - left, wanted),
        options.queues > 1 ? "choose fewer queues" : "choose the transport pull");
  return options.queues != 0 ? options.queues : std::clamp<std::size_t>(left / 2, 1, kUsual);
}

/// Returns the maximum number of pages that warps fetch themselves at the same time. With 4 KiB per warp in flight, the
/// default is several times what a link can transfer during its latency.
std::size_t pulls_of(const Options& options) {
  constexpr std::size_t kUsual = 256;
  if (options.transport != Transport::pull_and_relay) return 0;
  return options.pulls != 0 ? options.pulls : kUsual;
}

void said_by_host(const memory::Block& word, std::uint32_t value) {
  std::atomic_ref(*reinterpret_cast<std::uint32_t*>(word.data())).store(value, std::memory_order_release);
}

}  // namespace

Relay::Relay(const Options& options) : Relay(options, queues_of(options)) {}

Relay::Relay(const Options& options, std::size_t queues)
    : Server(queues * options.depth, pulls_of(options)),
      device_(relay_device(options)),
      access_(device::selected(), device_),
      queues_(queues),
      depth_(options.depth),
      threads_(threads_of(options.depth, device_)),
      deadline_(options.deadline) {
  const device::Selected on(device_);
  requests_ = memory::Block(memory::Kind::device, queues_ * depth_ * sizeof(Request));
  numbers_ = memory::Block(memory::Kind::device, queues_ * depth_ * sizeof(std::uint32_t));
  ended_ = memory::Block(memory::Kind::device, sizeof(std::uint32_t));
  host_ended_ = memory::Block(memory::Kind::mapped, sizeof(std::uint32_t));
  stream_.emplace();
  taken(device_, static_cast<std::ptrdiff_t>(queues_ * threads_));
  look_at(requests_.data(), numbers_.data());
}

Relay::~Relay() {
  device::ignoring_errors([this] { end(); });
  taken(device_, -static_cast<std::ptrdiff_t>(queues_ * threads_));
  device::ignoring_errors([this] {
    const device::Selected on(device_);
    requests_.free();
    numbers_.free();
    ended_.free();
    stream_.reset();
  });
}

void Relay::forget_requests() {
  const device::Selected on(device_);
  said_by_host(host_ended_, 0);
  device::fill_async(numbers_.data(), 0, numbers_.size(), *stream_);
  device::fill_async(ended_.data(), 0, ended_.size(), *stream_);
  stream_->synchronize();
}

void Relay::start() {
  const device::Selected on(device_);
  queue_relay(*stream_, {.grid = static_cast<unsigned>(queues_), .block = threads_}, channel(),
              reinterpret_cast<const std::uint32_t*>(host_ended_.device_data()),
              reinterpret_cast<std::uint32_t*>(ended_.data()), kIdleDeadlines * deadline_);
}

void Relay::stop() {
  said_by_host(host_ended_, 1);
  stream_->synchronize();
}

}  // namespace isthmus::paging
