#include "paging/proxy.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "device/api/engine_copies.hpp"
#include "device/api/ignoring_errors.hpp"
#include "paging/pager.hpp"

namespace isthmus::paging {

/// Number of streams per device, shared by all queues of all its proxies. A CUDA device has eight connections by
/// default, and copies that shared a connection with the kernel that waits for them would never begin.
constexpr std::size_t kProxyStreams = 4;
constexpr std::size_t kUsualQueues = 4;

/// Slots, and the stream that copies the requested pages and then writes the answers.
class Proxy::Queue {
 public:
  struct Slots {
    Request* requests;  ///< host memory, like `numbers`
    std::uint32_t *numbers, *served;
    std::size_t count;
  };
  Queue(const Slots& slots, device::Stream& stream) : slots_(slots), seen_(slots.count), stream_(stream) {}

  /// Resets the queue to having no requests.
  void begin() { std::fill(seen_.begin(), seen_.end(), 0); }
  /// Queues the copies of all requests with one call, followed by the answers. Returns false if there are no requests.
  bool take() {
    items_.clear();
    answers_.clear();
    for (std::size_t slot = 0; slot < slots_.count; ++slot) {
      const std::uint32_t number = std::atomic_ref(slots_.numbers[slot]).load(std::memory_order_acquire);
      if (number == seen_[slot]) continue;
      seen_[slot] = number;  // the slot gets no other request before this one is answered
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
        device::copy_batch_by_engines_async(items_, stream_);
        return;
      } catch (const device::Error& error) {
        if (error.kind() != device::ErrorKind::unsupported) throw;
        batched_ = false;
      }
    }
    for (const auto& item : items_) device::copy_async(item.destination, item.source, item.bytes, stream_);
  }

  const Slots slots_;
  std::vector<std::uint32_t> seen_;  ///< number of the last request of each slot
  device::Stream& stream_;           ///< may be shared with other queues
  std::vector<device::CopyItem> items_;
  std::vector<device::ValueWrite> answers_;
  bool batched_ = true;
};

/// Thread that serves all queues of all proxies of a device. There is only one, because driver calls wait for each
/// other: on an H200 host, four threads moved a quarter as much as one thread, and sixteen threads a sixteenth as much.
class Proxy::Thread {
 public:
  static std::shared_ptr<Thread> of_selected_device() {
    static std::mutex mutex;
    static std::map<int, std::weak_ptr<Thread>> of_device;
    const std::scoped_lock lock(mutex);
    auto& known = of_device[device::selected()];
    auto thread = known.lock();
    if (!thread) known = thread = std::make_shared<Thread>();
    return thread;
  }
  Thread() : device_(device::selected()), thread_([this] { run(); }) {}
  ~Thread() {
    {
      const std::scoped_lock lock(mutex_);
      leaves_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  device::Stream& stream(std::size_t queue) { return streams_[queue % kProxyStreams]; }
  void serve(Proxy& proxy) {
    {
      const std::scoped_lock lock(mutex_);
      served_.push_back(&proxy);
    }
    changed_.notify_all();
  }
  /// Stops serving the proxy and waits until its requests have been served.
  void leave(const Proxy& proxy) {
    {
      const std::scoped_lock lock(mutex_);
      std::erase(served_, &proxy);
    }
    for (auto& stream : streams_) stream.synchronize();
  }

 private:
  void run() {
    device::select(device_);
    for (;;) {
      bool took = false;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return leaves_ || !served_.empty(); });
        if (leaves_) return;
        for (auto* proxy : served_) took |= proxy->take();
      }
      if (!took) std::this_thread::yield();
    }
  }

  const int device_;
  std::array<device::Stream, kProxyStreams> streams_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Proxy*> served_;
  bool leaves_ = false;
  std::thread thread_;
};

namespace {

std::size_t slots_of(const Options& options) {
  if (device::backend() == device::Backend::hip)
    throw device::Error(device::ErrorKind::unsupported, "Proxy",
                        "HIP's streams share four hardware queues, so a reply would wait behind the requesting kernel",
                        "choose the transport pull");
  return (options.queues != 0 ? options.queues : kUsualQueues) * options.depth;
}

}  // namespace

Proxy::Proxy(const Options& options) : Proxy(slots_of(options), options.depth) {}

Proxy::Proxy(std::size_t slots, std::size_t depth)
    : Server(slots, 0),
      requests_(memory::Kind::mapped, slots * sizeof(Request)),
      numbers_(memory::Kind::mapped, slots * sizeof(std::uint32_t)),
      thread_(Thread::of_selected_device()) {
  look_at(requests_.device_data(), numbers_.device_data());
  // Throws here if the device does not support this operation.
  device::write_values_async(std::array{device::ValueWrite{channel().served, 0}}, thread_->stream(0));
  thread_->stream(0).synchronize();
  auto* requests = reinterpret_cast<Request*>(requests_.data());
  auto* numbers = reinterpret_cast<std::uint32_t*>(numbers_.data());
  queues_.reserve(slots / depth);
  for (std::size_t first = 0; first < slots; first += depth)
    queues_.emplace_back(Queue::Slots{requests + first, numbers + first, channel().served + first, depth},
                         thread_->stream(queues_.size()));
}

Proxy::~Proxy() {
  device::ignoring_errors([this] { end(); });
}

void Proxy::forget_requests() {
  std::memset(numbers_.data(), 0, numbers_.size());
  for (auto& queue : queues_) queue.begin();
  met_ = nullptr;
}

void Proxy::start() {
  thread_->serve(*this);
}

void Proxy::stop() {
  thread_->leave(*this);
  if (met_) std::rethrow_exception(met_);
}

bool Proxy::take() {
  if (met_) return false;  // warps that wait for a page give up at their deadline
  try {
    bool took = false;
    for (auto& queue : queues_) took |= queue.take();
    return took;
  } catch (...) {
    met_ = std::current_exception();
    return false;
  }
}

}  // namespace isthmus::paging
