#include "harness/measure/passes/run_recorder.hpp"

#include <algorithm>
#include <stdexcept>

namespace isthmus::harness {

namespace {

/// Maximum number of launches of a kernel that are timed one by one, because each needs a wait.
constexpr std::size_t kMostTimed = 1000;

}  // namespace

void RunRecorder::watch(Watching what) {
  watching_ = what;
  watches = what != Watching::nothing;
  times_work_items = what == Watching::timing;
  if (watches) entries_.clear();
}

std::size_t RunRecorder::work_items() const {
  std::size_t sum = 0;
  for (const auto& entry : entries_) sum += entry.launches;
  return sum;
}

Traffic RunRecorder::traffic() const {
  Traffic sum;
  for (const auto& entry : entries_) sum += entry.traffic;
  return sum;
}

std::optional<double> RunRecorder::work_seconds() const {
  double sum = 0;
  for (const auto& entry : entries_) {
    if (entry.timed == 0) return std::nullopt;
    sum += entry.seconds / static_cast<double>(entry.timed) * static_cast<double>(entry.launches);
  }
  return sum;
}

std::vector<WorkReport> RunRecorder::reports() const {
  std::vector<WorkReport> list;
  for (const auto& entry : entries_) {
    auto& report = list.emplace_back();
    report.info.name = entry.name;
    if (entry.kernel != nullptr) {
      report.info = device::detail::kernel_info(entry.name.c_str(), entry.kernel, entry.shape);
      report.shape = entry.shape;
    }
    report.launches = entry.launches;
    report.traffic = entry.traffic;
    report.timed = entry.timed;
    if (entry.timed > 0) report.seconds = entry.seconds / static_cast<double>(entry.timed);
  }
  return list;
}

RunRecorder::Entry& RunRecorder::entry_of(const Work& work) {
  const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.kernel == work.kernel && entry.name == work.name;
  });
  if (same != entries_.end()) return *same;
  return entries_.emplace_back(Entry{std::string(work.name), work.kernel, work.shape, 0, {}, 0, 0});
}

void RunRecorder::work(const Work& work, device::Stream& stream, const std::function<void()>& queue) {
  auto& entry = entry_of(work);
  ++entry.launches;
  entry.traffic += work.traffic;
  if (work.shape.grid.size() > entry.shape.grid.size()) entry.shape = work.shape;
  if (watching_ == Watching::rehearsal) return;
  if (watching_ != Watching::timing || entry.timed >= kMostTimed || !timer->times(stream)) return queue();
  // A library call may wait for its own work, which would never start behind a latch, so such a call is held only
  // if it belongs to a queued body, which waits for nothing.
  bool invalid = false;
  const bool held = latched_ && (work.kernel != nullptr || control_ == Control::queued);
  const double seconds = timer->time(held, StreamTimer::Next::kernel, invalid, queue);
  if (invalid) return;
  entry.seconds += seconds;
  ++entry.timed;
}

void RunRecorder::read(device::Stream& stream, std::size_t buffer, std::size_t offset, std::span<std::byte> into) {
  if (control_ != Control::waits)
    throw std::logic_error("a queued body reads a result: measure it with Control::waits");
  ++host_round_trips_;
  set_.look(stream, buffer, offset, into);
}

void RunRecorder::fill(device::Stream& stream, std::size_t buffer, std::uint8_t value) {
  set_.fill(stream, buffer, value);
}

const void* RunRecorder::view(std::size_t buffer) const {
  const void* view = set_.view(buffer);
  if (view == nullptr) throw std::logic_error("a body requests pages of a buffer that was not passed to measure()");
  return view;
}

void RunRecorder::travel(device::Stream& stream, std::size_t buffer, memory::Range bytes, Direction direction) {
  travels_ = true;
  if (watching_ == Watching::rehearsal) return;
  (direction == Direction::to_device ? moved_in_ : moved_out_) +=
      direction == Direction::to_device ? set_.copy_in(stream, buffer, bytes) : set_.copy_out(stream, buffer, bytes);
}

bool RunRecorder::rehearses(std::size_t number, std::size_t events) {
  if (control_ == Control::waits)
    throw std::logic_error("concurrent copies need a body that waits for nothing: measure it with Control::queued");
  if (watching_ != Watching::rehearsal) return false;
  numbers_ = std::max(numbers_, number + 1);
  events_ += events;
  return true;
}

void RunRecorder::copy_in(std::size_t number, const Part& part, std::optional<std::size_t> after) {
  travels_ = true;
  if (rehearses(number, 0)) return;
  async_copies_.value().copy_in(number, after, set_.copies_block(), [&](device::Stream& stream) {
    moved_in_ += set_.copy_in(stream, part.source, part.bytes, part.to, part.offset);
  });
}

void RunRecorder::await(device::Stream& stream, std::size_t number) {
  if (!rehearses(number, 1)) async_copies_.value().await(stream, number);
}

void RunRecorder::mark(device::Stream& stream, std::size_t number) {
  if (!rehearses(number, 1)) async_copies_.value().mark(stream, number);
}

}  // namespace isthmus::harness
