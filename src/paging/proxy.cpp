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

/// Slots, and the stream that brings what is asked for there and answers.
class Proxy::Queue {
 public:
  struct Slots {
    Request* requests;  ///< in the host's memory, as the numbers
    std::uint32_t *numbers, *served;
    std::size_t count;
  };
  Queue(const Slots& slots, device::Stream& stream) : slots_(slots), seen_(slots.count), stream_(stream) {}

  /// No slot has been asked for anything.
  void begin() { std::fill(seen_.begin(), seen_.end(), 0); }
  /// Queues the copies of all that is asked, by one call, and behind them the answers. False where nothing is asked.
  bool take() {
    items_.clear();
    answers_.clear();
    for (std::size_t slot = 0; slot < slots_.count; ++slot) {
      const std::uint32_t number = std::atomic_ref(slots_.numbers[slot]).load(std::memory_order_acquire);
      if (number == seen_[slot]) continue;
      seen_[slot] = number;  // no other comes before this one is answered
      const Request& request = slots_.requests[slot];
      items_.push_back({request.to, request.from, request.bytes});
      answers_.push_back({slots_.served + slot, number});
    }
    if (items_.empty()) return false;
    copy();
    device::write_values_async(answers_, stream_);
    return true;
  }

 private:
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

  const Slots slots_;
  std::vector<std::uint32_t> seen_;  ///< of each slot, the last request
  device::Stream& stream_;           ///< other queues may share it
  std::vector<device::CopyItem> items_;
  std::vector<device::ValueWrite> answers_;
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
  /// What the thread met, if anything.
  std::exception_ptr stop() {
    say(Phase::rest);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return rests_; });
    return std::exchange(met_, nullptr);
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
    while (phase_ == Phase::serve) {
      bool took = false;
      for (auto& queue : queues_) took |= queue.take();
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
      numbers_(memory::Kind::mapped, slots * sizeof(std::uint32_t)),
      streams_(std::min(slots / depth, kProxyStreams)) {
  look_at(requests_.device_data(), numbers_.device_data());
  // Said here where it cannot be.
  device::write_values_async(std::array{device::ValueWrite{channel().served, 0}}, streams_.front());
  streams_.front().synchronize();
  auto* requests = reinterpret_cast<Request*>(requests_.data());
  auto* numbers = reinterpret_cast<std::uint32_t*>(numbers_.data());
  std::vector<Queue> queues;
  queues.reserve(slots / depth);
  for (std::size_t first = 0; first < slots; first += depth)
    queues.emplace_back(Queue::Slots{requests + first, numbers + first, channel().served + first, depth},
                        streams_[queues.size() % kProxyStreams]);
  thread_ = std::make_unique<Thread>(std::move(queues));
}

Proxy::~Proxy() {
  device::ignoring_errors([this] { end(); });
}

void Proxy::forget_requests() {
  std::memset(numbers_.data(), 0, numbers_.size());
}

void Proxy::start() {
  thread_->start();
}

void Proxy::stop() {
  const auto met = thread_->stop();
  for (auto& stream : streams_) stream.synchronize();
  if (met) std::rethrow_exception(met);
}

}  // namespace isthmus::paging
