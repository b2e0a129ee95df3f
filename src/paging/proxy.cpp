#include "paging/proxy.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "device/ignoring_errors.hpp"
#include "paging/pager.hpp"

namespace isthmus::paging {

/// Streams of one proxy. On an H100 host 16 streams stood still, and 4 did not. The likely cause: a CUDA device has
/// eight connections where nobody asks for more, and copies that share one with the kernel that waits for them never
/// begin.
constexpr std::size_t kProxyStreams = 4;
constexpr std::size_t kUsualThreads = 4;

/// `slots` slots, and the thread that serves them.
class Proxy::Queue {
 public:
  Queue(Request* requests, std::uint32_t* served, std::size_t slots, device::Stream& stream)
      : device_(device::selected()),
        requests_(requests),
        served_(served),
        slots_(slots),
        stream_(stream),
        thread_([this] { run(); }) {}
  ~Queue() {
    say(Phase::leave);
    thread_.join();
  }

  void start() { say(Phase::serve); }
  /// Throws what the thread met.
  void stop() {
    say(Phase::rest);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return rests_; });
    if (auto met = std::exchange(met_, nullptr)) std::rethrow_exception(met);
  }

 private:
  enum class Phase { rest, serve, leave };
  /// Copies that were queued together, what says that they have come, and the slots that they are for.
  struct Batch {
    device::Event there;
    std::vector<std::size_t> slots;
  };
  static constexpr std::size_t kBatches = 4;  ///< on the way at once

  void say(Phase phase) {
    {
      const std::scoped_lock lock(mutex_);
      phase_ = phase;
      if (phase == Phase::serve) rests_ = false;
    }
    changed_.notify_all();
  }

  void run() {
    device::select(device_);
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] {
          if (phase_ != Phase::rest) return true;
          rests_ = true;
          changed_.notify_all();
          return false;
        });
        if (phase_ == Phase::leave) return;
      }
      try {
        serve();
      } catch (...) {
        const std::scoped_lock lock(mutex_);
        met_ = std::current_exception();
        if (phase_ == Phase::serve) phase_ = Phase::rest;  // who waits for a page gives up by its deadline
      }
    }
  }

  void serve() {
    std::vector<std::uint32_t> seen(slots_, 0);
    std::vector<device::CopyItem> items;
    std::size_t queued = 0, come = 0;  // batches
    while (phase_ == Phase::serve || come < queued) {
      if (come < queued && batches_[come % kBatches].there.done()) {
        for (const std::size_t slot : batches_[come++ % kBatches].slots)
          std::atomic_ref(served_[slot]).store(seen[slot], std::memory_order_release);
      }
      if (queued - come == kBatches) continue;
      Batch& batch = batches_[queued % kBatches];
      items.clear();
      batch.slots.clear();
      for (std::size_t slot = 0; slot < slots_; ++slot) {
        const std::uint32_t number = std::atomic_ref(requests_[slot].number).load(std::memory_order_acquire);
        if (number == seen[slot]) continue;
        seen[slot] = number;  // no other comes before this one is answered
        items.push_back({requests_[slot].to, requests_[slot].from, requests_[slot].bytes});
        batch.slots.push_back(slot);
      }
      if (items.empty()) {
        std::this_thread::yield();
        continue;
      }
      copy(items);
      batch.there.record(stream_);
      ++queued;
    }
  }

  void copy(const std::vector<device::CopyItem>& items) {
    if (batched_) {
      try {
        device::copy_batch_async(items, stream_);
        return;
      } catch (const device::Error& error) {
        if (error.kind() != device::ErrorKind::unsupported) throw;
        batched_ = false;
      }
    }
    for (const auto& item : items) device::copy_async(item.destination, item.source, item.bytes, stream_);
  }

  const int device_;
  Request* const requests_;  ///< in the host's memory, as the answers
  std::uint32_t* const served_;
  const std::size_t slots_;
  device::Stream& stream_;  ///< other queues may share it
  std::array<Batch, kBatches> batches_;
  bool batched_ = true;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<Phase> phase_ = Phase::rest;
  bool rests_ = true;
  std::exception_ptr met_;
  std::thread thread_;
};

Proxy::Proxy(const Options& options)
    : Proxy((options.queues != 0 ? options.queues : kUsualThreads) * options.depth, options.depth) {}

Proxy::Proxy(std::size_t slots, std::size_t depth)
    : Server(slots, false),
      requests_(memory::Kind::mapped, slots * sizeof(Request)),
      served_(memory::Kind::mapped, slots * sizeof(std::uint32_t)) {
  look_at(reinterpret_cast<Request*>(requests_.device_data()));
  answer_at(reinterpret_cast<std::uint32_t*>(served_.device_data()));
  streams_ = std::vector<device::Stream>(std::min(slots / depth, kProxyStreams));
  auto* requests = reinterpret_cast<Request*>(requests_.data());
  auto* served = reinterpret_cast<std::uint32_t*>(served_.data());
  for (std::size_t first = 0; first < slots; first += depth)
    queues_.push_back(
        std::make_unique<Queue>(requests + first, served + first, depth, streams_[queues_.size() % kProxyStreams]));
}

Proxy::~Proxy() {
  device::ignoring_errors([this] { end(); });
}

void Proxy::forget_requests() {
  std::memset(requests_.data(), 0, requests_.size());
  std::memset(served_.data(), 0, served_.size());
}

void Proxy::start() {
  for (const auto& queue : queues_) queue->start();
}

void Proxy::stop() {
  std::exception_ptr met;
  for (const auto& queue : queues_) {
    try {
      queue->stop();
    } catch (...) {
      met = std::current_exception();
    }
  }
  if (met) std::rethrow_exception(met);
}

}  // namespace isthmus::paging
