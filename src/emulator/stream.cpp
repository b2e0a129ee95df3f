#include "emulator/stream.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <set>
#include <utility>

#include "emulator/devices.hpp"
#include "emulator/emulator.hpp"
#include "emulator/fault_handler.hpp"
#include "emulator/format.hpp"

namespace emulator {
namespace {

struct Registry {
  std::mutex mutex;
  std::set<std::shared_ptr<StreamState>> streams;
  std::array<FaultPointer, most_devices> orphans;  // faults of streams that were destroyed before they were reported
  static Registry& instance() {
    static Registry* registry = new Registry;  // never destroyed, because a program may never destroy some streams
    return *registry;
  }
};

}  // namespace

// --- events ----------------------------------------------------------------------------------------

void Occurrence::happen(FaultPointer fault) {
  const std::lock_guard lock(mutex_);
  happened_ = true;
  time_ = seconds();
  fault_ = std::move(fault);
  changed_.notify_all();
}

bool Occurrence::happened() {
  const std::lock_guard lock(mutex_);
  return happened_;
}

FaultPointer Occurrence::fault() {
  const std::lock_guard lock(mutex_);
  return fault_;
}

void Occurrence::demand() {
  if (const auto stream = stream_.lock()) stream->demand(ticket);
}

FaultPointer Occurrence::wait() {
  demand();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return happened_; });
  return fault_;
}

// --- streams ---------------------------------------------------------------------------------------

std::shared_ptr<StreamState> StreamState::create(int device) {
  auto stream = std::make_shared<StreamState>(device);
  stream->thread_ = std::thread([raw = stream.get()] { raw->run(); });
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  registry.streams.insert(stream);
  return stream;
}

void StreamState::shut_down() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    demanded_ = submitted_;
    wanted_.notify_all();
  }
  thread_.join();
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  if (fault_ && !fault_->reported) registry.orphans[static_cast<std::size_t>(device_)] = fault_;
  registry.streams.erase(shared_from_this());
}

std::uint64_t StreamState::submit(Work work, When when, std::uint64_t* ticket, Role role) {
  std::unique_lock lock(mutex_);
  if (captured_) {
    captured_->push_back(std::move(work));
    return 0;
  }
  if (const std::uint64_t most = configuration().queue; submitted_ - executed_ >= most) {
    demanded_ = submitted_;  // a caller that waits for space also starts the work that occupies it
    wanted_.notify_all();
    done_.wait(lock, [&] { return submitted_ - executed_ < most; });
  }
  if (ticket) *ticket = submitted_ + 1;
  static std::atomic<std::uint64_t> numbers = 0;
  tasks_.push_back({std::chrono::steady_clock::now(), std::move(work), when, role, numbers++});
  if (submitted_ == executed_ && role == Role::work) at_ = tasks_.front().number;
  wanted_.notify_all();
  return ++submitted_;
}

void StreamState::begin_capture() {
  const std::lock_guard lock(mutex_);
  captured_.emplace();
}

std::vector<StreamState::Work> StreamState::end_capture() {
  const std::lock_guard lock(mutex_);
  return std::exchange(captured_, std::nullopt).value();
}

bool StreamState::capturing() {
  const std::lock_guard lock(mutex_);
  return captured_.has_value();
}

StreamState& outside_capture(const Stream& stream, const char* call) {
  StreamState& state = stream.state();
  if (state.capturing()) {
    throw Error(ErrorKind::failure, call, "the stream is being captured into a graph",
                "queue only kernels, copies and fills on it until the capture ends");
  }
  return state;
}

void StreamState::run() {
  use_alternate_stack();
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [&] { return !tasks_.empty() || stopping_; });
    if (tasks_.empty()) return;
    const std::chrono::duration<double> grace(configuration().grace);
    const auto start = tasks_.front().submitted + std::chrono::duration_cast<std::chrono::nanoseconds>(grace);
    wanted_.wait_until(lock, start, [&] { return demanded_ > executed_; });
    if (tasks_.front().role == Role::work) {
      const std::uint64_t number = tasks_.front().number;
      lock.unlock();
      wait_for_turn(number);
      lock.lock();
    }
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    FaultPointer fault = fault_;
    if (!fault || task.when == When::always) {
      lock.unlock();
      FaultPointer met = task.work(fault);
      task.work = nullptr;
      lock.lock();
      if (met && !fault_) fault_ = std::move(met);
    }
    ++executed_;
    at_.reset();
    if (!tasks_.empty() && tasks_.front().role == Role::work) at_ = tasks_.front().number;
    done_.notify_all();
  }
}

namespace {

/// Returns the rank of a work item; items with lower ranks go first.
std::uint64_t rank_of(std::uint64_t number, const Configuration& c) {
  if (c.order == Order::reverse) return ~number;
  const std::uint64_t mixed = (number + 1 + c.seed) * 0x9e3779b97f4a7c15ULL;
  return (mixed ^ (mixed >> 29)) * 0xbf58476d1ce4e5b9ULL;
}

/// Returns the mutex that is locked while the program demands the work of several streams: no stream may choose its
/// turn before all of this work has been demanded.
std::mutex& asking() {
  static std::mutex* mutex = new std::mutex;
  return *mutex;
}

}  // namespace

bool StreamState::is_before(std::uint64_t rank, const Configuration& c) {
  const std::lock_guard lock(mutex_);
  return at_ && demanded_ > executed_ && rank_of(*at_, c) < rank;
}

void StreamState::take_no_turn() {
  const std::lock_guard lock(mutex_);
  at_.reset();
}

// Waits only briefly: the order is a preference, not a rule, because kernels of two streams may wait for each other.
void StreamState::wait_for_turn(std::uint64_t number) {
  const Configuration c = configuration();
  if (c.order == Order::natural) return;
  {
    const std::lock_guard lock(asking());
  }
  const std::uint64_t rank = rank_of(number, c);
  auto before = all();
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
  for (;;) {
    std::erase_if(before, [&](const auto& stream) { return stream.get() == this || !stream->is_before(rank, c); });
    if (before.empty()) return;
    if (std::chrono::steady_clock::now() > end) break;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  for (const auto& stream : before) stream->take_no_turn();  // each stream is waited for only once
}

void StreamState::demand(std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  if (ticket <= demanded_) return;
  demanded_ = ticket;
  wanted_.notify_all();
}

void StreamState::demand_all() {
  demand(last_ticket());
}

std::uint64_t StreamState::last_ticket() {
  const std::lock_guard lock(mutex_);
  return submitted_;
}

void StreamState::wait(std::uint64_t ticket) {
  demand(ticket);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return executed_ >= ticket; });
}

void StreamState::wait_all() {
  wait(last_ticket());
}

bool StreamState::idle() {
  demand_all();
  const std::lock_guard lock(mutex_);
  return executed_ == submitted_;
}

FaultPointer StreamState::take_fault() {
  const std::lock_guard lock(mutex_);
  return std::exchange(fault_, nullptr);
}

std::vector<std::shared_ptr<StreamState>> StreamState::all() {
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  return {registry.streams.begin(), registry.streams.end()};
}

std::vector<std::shared_ptr<StreamState>> StreamState::of_device(int device) {
  auto streams = all();
  std::erase_if(streams, [&](const auto& stream) { return stream->device() != device; });
  return streams;
}

void drain(const std::vector<std::shared_ptr<StreamState>>& streams) {
  {
    const std::lock_guard lock(asking());
    for (const auto& stream : streams) stream->demand_all();
  }
  for (const auto& stream : streams) stream->wait_all();
}

void throw_fault(Fault& fault, const char* call) {
  fault.reported = true;
  throw Error(fault.kind, call, fault.reason, fault.hint);
}

void reset() {
  const auto streams = StreamState::all();
  drain(streams);
  for (const auto& stream : streams) stream->take_fault();
  forget_faults();
  forget_peers();
  work_deadline = std::numeric_limits<double>::infinity();
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  registry.orphans = {};
}

// --- public functions ------------------------------------------------------------------------------

void synchronize() {
  const int device = selected();
  const auto streams = StreamState::of_device(device);
  drain(streams);
  FaultPointer first;
  for (const auto& stream : streams) {
    if (FaultPointer fault = stream->take_fault(); fault && !first) first = std::move(fault);
  }
  auto& registry = Registry::instance();
  {
    const std::lock_guard lock(registry.mutex);
    FaultPointer& orphan = registry.orphans[static_cast<std::size_t>(device)];
    if (FaultPointer fault = std::exchange(orphan, nullptr); fault && !first) first = std::move(fault);
  }
  if (first) throw_fault(*first, "synchronize");
}

Stream::Stream() {
  configuration();  // so that errors in the environment variable are thrown here, not on the stream's thread
  state_ = StreamState::create(selected());
}

Stream::~Stream() {
  if (state_) state_->shut_down();
}

void Stream::synchronize() {
  StreamState& state = outside_capture(*this, "stream_synchronize");
  state.wait_all();
  if (const FaultPointer fault = state.take_fault()) throw_fault(*fault, "stream_synchronize");
}

bool Stream::idle() {
  StreamState& state = outside_capture(*this, "stream_idle");
  if (!state.idle()) return false;
  if (const FaultPointer fault = state.take_fault()) throw_fault(*fault, "stream_idle");
  return true;
}

void Stream::wait(const Event& event) {
  StreamState& state = outside_capture(*this, "stream_wait");
  const auto occurrence = event.last_;
  if (!occurrence) return;  // the event was never recorded: do not wait, as in CUDA
  state.submit([occurrence](const FaultPointer&) { return occurrence->wait(); }, StreamState::When::healthy, nullptr,
               StreamState::Role::wait);
}

Event::Event() : device_(selected()) {}

void Event::record(Stream& stream) {
  StreamState& state = outside_capture(stream, "event_record");
  if (device_ != state.device()) {
    throw Error(ErrorKind::failure, "event_record",
                sentence("the event belongs to device {}, the stream to device {}", device_, state.device()),
                "create the event with the stream's device selected");
  }
  auto occurrence = std::make_shared<Occurrence>(state.weak_from_this());
  last_ = occurrence;
  state.submit(
      [occurrence](const FaultPointer& fault) -> FaultPointer {
        occurrence->happen(fault);
        return nullptr;
      },
      StreamState::When::always, &occurrence->ticket);
}

void Event::synchronize() {
  const auto occurrence = last_;
  if (!occurrence) return;
  if (const FaultPointer fault = occurrence->wait()) throw_fault(*fault, "event_synchronize");
}

bool Event::done() {
  const auto occurrence = last_;
  if (!occurrence) return true;
  occurrence->demand();
  if (!occurrence->happened()) return false;
  if (const FaultPointer fault = occurrence->fault()) throw_fault(*fault, "event_done");
  return true;
}

double elapsed(const Event& begin, const Event& end) {
  const auto &first = begin.last_, &second = end.last_;
  if (begin.device_ != end.device_) {
    throw Error(ErrorKind::failure, "elapsed",
                sentence("one event belongs to device {}, the other to device {}", begin.device_, end.device_),
                "record both events on one device, because two devices share no clock");
  }
  if (!first || !second) {
    throw Error(ErrorKind::failure, "elapsed", "an event was never recorded", "record both events");
  }
  if (!first->happened() || !second->happened()) {
    throw Error(ErrorKind::failure, "elapsed", "an event has not happened yet",
                "synchronize with the later event first");
  }
  for (const auto& occurrence : {first, second}) {
    if (const FaultPointer fault = occurrence->fault()) throw_fault(*fault, "elapsed");
  }
  return second->time() - first->time();
}

}  // namespace emulator
