#include "paging/proxy.hpp"

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

/// `slots` slots, and the thread that serves them.
class Proxy::Queue {
 public:
  Queue(Request* requests, std::uint32_t* served, std::size_t slots)
      : device_(device::selected()), requests_(requests), served_(served), slots_(slots) {
    for (auto& batch : batches_) batch.numbers = memory::Block(memory::Kind::pinned, slots * sizeof(std::uint32_t));
    thread_ = std::thread([this] { run(); });
  }
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
  /// Copies that were queued together, and what says that they have come. The numbers stay as they are until the event.
  struct Batch {
    memory::Block numbers;
    device::Event there;
    bool queued = false;
  };
  static constexpr std::size_t kBatches = 4;

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
    std::vector<std::uint32_t> answered(slots_, 0);
    std::vector<device::CopyItem> items;
    for (std::size_t turn = 0; phase_ == Phase::serve; ++turn) {
      items.clear();
      for (std::size_t slot = 0; slot < slots_; ++slot) {
        const std::uint32_t number = std::atomic_ref(requests_[slot].number).load(std::memory_order_acquire);
        if (number == answered[slot]) continue;
        answered[slot] = number;
        items.push_back({requests_[slot].to, requests_[slot].from, requests_[slot].bytes});
      }
      if (items.empty()) {
        std::this_thread::yield();
        continue;
      }
      Batch& batch = batches_[turn % kBatches];
      if (std::exchange(batch.queued, true)) batch.there.synchronize();
      copy(items);
      // All numbers of the queue: none of another slot has changed since the last batch but by this thread.
      std::memcpy(batch.numbers.data(), answered.data(), batch.numbers.size());
      device::copy_async(served_, batch.numbers.data(), batch.numbers.size(), stream_);
      batch.there.record(stream_);
    }
    stream_.synchronize();
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
  Request* const requests_;      ///< in the host's memory
  std::uint32_t* const served_;  ///< in the device's
  const std::size_t slots_;
  std::array<Batch, kBatches> batches_;
  device::Stream stream_;
  bool batched_ = true;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<Phase> phase_ = Phase::rest;
  bool rests_ = true;
  std::exception_ptr met_;
  std::thread thread_;
};

Proxy::Proxy(const Options& options)
    : Server(options.queues * options.depth, false),
      requests_(memory::Kind::mapped, options.queues * options.depth * sizeof(Request)) {
  look_at(reinterpret_cast<Request*>(requests_.device_data()));
  auto* requests = reinterpret_cast<Request*>(requests_.data());
  for (std::size_t queue = 0; queue < options.queues; ++queue)
    queues_.push_back(std::make_unique<Queue>(requests + queue * options.depth,
                                              channel().served + queue * options.depth, options.depth));
}

Proxy::~Proxy() {
  device::ignoring_errors([this] { end(); });
}

void Proxy::forget_requests() {
  std::memset(requests_.data(), 0, requests_.size());
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
