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

/// Streams of one proxy, which its queues share: a CUDA device has eight connections where nobody asks for more, and
/// copies that share one with the kernel that waits for them would never begin.
constexpr std::size_t kProxyStreams = 4;
constexpr std::size_t kUsualQueues = 4;

/// `slots` slots, and the copies that are on the way for them.
class Proxy::Queue {
 public:
  Queue(Request* requests, std::uint32_t* served, std::size_t slots, device::Stream& stream)
      : requests_(requests), served_(served), seen_(slots), stream_(stream) {}

  /// No slot has been asked for anything.
  void begin() {
    std::fill(seen_.begin(), seen_.end(), 0);
    queued_ = come_ = 0;
  }
  bool waits() const { return come_ < queued_; }
  /// Answers what has come.
  void answer() {
    if (!waits() || !batches_[come_ % kBatches].there.done()) return;
    for (const std::size_t slot : batches_[come_++ % kBatches].slots)
      std::atomic_ref(served_[slot]).store(seen_[slot], std::memory_order_release);
  }
  /// Queues the copies of all that is asked, by one call. False where nothing is.
  bool take() {
    if (queued_ - come_ == kBatches) return false;
    Batch& batch = batches_[queued_ % kBatches];
    items_.clear();
    batch.slots.clear();
    for (std::size_t slot = 0; slot < seen_.size(); ++slot) {
      const std::uint32_t number = std::atomic_ref(requests_[slot].number).load(std::memory_order_acquire);
      if (number == seen_[slot]) continue;
      seen_[slot] = number;  // no other comes before this one is answered
      items_.push_back({requests_[slot].to, requests_[slot].from, requests_[slot].bytes});
      batch.slots.push_back(slot);
    }
    if (items_.empty()) return false;
    copy();
    batch.there.record(stream_);
    ++queued_;
    return true;
  }

 private:
  /// Copies that were queued together, what says that they have come, and the slots that they are for.
  struct Batch {
    device::Event there;
    std::vector<std::size_t> slots;
  };
  static constexpr std::size_t kBatches = 4;  ///< on the way at once

  void copy() {
    if (batched_) {
      try {
        device::copy_batch_async(items_, stream_);
        return;
      } catch (const device::Error& error) {
        if (error.kind() != device::ErrorKind::unsupported) throw;
        batched_ = false;
      }
    }
    for (const auto& item : items_) device::copy_async(item.destination, item.source, item.bytes, stream_);
  }

  Request* const requests_;  ///< in the host's memory, as the answers
  std::uint32_t* const served_;
  std::vector<std::uint32_t> seen_;  ///< of each slot, the last request
  device::Stream& stream_;           ///< other queues may share it
  std::array<Batch, kBatches> batches_;
  std::vector<device::CopyItem> items_;
  std::size_t queued_ = 0, come_ = 0;  ///< batches
  bool batched_ = true;
};

/// One thread for all queues: calls of the driver wait for each other. On an H200 host four threads moved a quarter of
/// what one did, and sixteen a quarter of that.
class Proxy::Thread {
 public:
  explicit Thread(std::vector<Queue> queues)
      : device_(device::selected()), queues_(std::move(queues)), thread_([this] { run(); }) {}
  ~Thread() {
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
    for (auto& queue : queues_) queue.begin();
    bool waits = false;
    while (phase_ == Phase::serve || waits) {
      bool took = waits = false;
      for (auto& queue : queues_) {
        queue.answer();
        took |= queue.take();
        waits |= queue.waits();
      }
      if (!took) std::this_thread::yield();
    }
  }

  const int device_;
  std::vector<Queue> queues_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<Phase> phase_ = Phase::rest;
  bool rests_ = true;
  std::exception_ptr met_;
  std::thread thread_;
};

Proxy::Proxy(const Options& options)
    : Proxy((options.queues != 0 ? options.queues : kUsualQueues) * options.depth, options.depth) {}

Proxy::Proxy(std::size_t slots, std::size_t depth)
    : Server(slots, 0),
      requests_(memory::Kind::mapped, slots * sizeof(Request)),
      served_(memory::Kind::mapped, slots * sizeof(std::uint32_t)) {
  look_at(reinterpret_cast<Request*>(requests_.device_data()));
  answer_at(reinterpret_cast<std::uint32_t*>(served_.device_data()));
  streams_ = std::vector<device::Stream>(std::min(slots / depth, kProxyStreams));
  auto* requests = reinterpret_cast<Request*>(requests_.data());
  auto* served = reinterpret_cast<std::uint32_t*>(served_.data());
  std::vector<Queue> queues;
  queues.reserve(slots / depth);
  for (std::size_t first = 0; first < slots; first += depth)
    queues.emplace_back(requests + first, served + first, depth, streams_[queues.size() % kProxyStreams]);
  thread_ = std::make_unique<Thread>(std::move(queues));
}

Proxy::~Proxy() {
  device::ignoring_errors([this] { end(); });
}

void Proxy::forget_requests() {
  std::memset(requests_.data(), 0, requests_.size());
  std::memset(served_.data(), 0, served_.size());
}

void Proxy::start() {
  thread_->start();
}

void Proxy::stop() {
  thread_->stop();
}

}  // namespace isthmus::paging
