#include "workload/lanes.hpp"

#include <algorithm>
#include <barrier>
#include <exception>
#include <optional>
#include <thread>

#include "device/api/ignoring_errors.hpp"
namespace isthmus::workload {

/// Lane with its timing objects, all of which are on the lane's device.
struct Lanes::Track {
  Track(Lane lane_, bool latched) : lane(std::move(lane_)) {
    if (latched && lane.latchable && !lane.blocking) latch.emplace();
  }

  Lane lane;
  device::Stream stream;
  device::Event begin, end, joined;
  std::optional<device::SpinLatch> latch;
};

Lanes::Lanes(std::vector<Lane> lanes, bool latched, double latch_timeout) : latch_timeout_(latch_timeout) {
  if (lanes.empty()) throw std::logic_error("there is no lane to run");
  blocking_ = std::any_of(lanes.begin(), lanes.end(), [](const auto& lane) { return lane.blocking; });
  if (!blocking_) {
    for (const auto& lane : lanes) {
      const device::Selected on(lane.device);
      device::load_kernels();  // lazy loading could deadlock behind a latch
    }
  }
  for (auto& lane : lanes) {
    const device::Selected on(lane.device);
    tracks_.push_back(std::make_unique<Track>(std::move(lane), latched && !blocking_));
  }
}

Lanes::Lanes(const Case& c, std::vector<Lane> lanes)
    : Lanes(std::move(lanes), c.sampling().latch(), c.sampling().latch_timeout()) {}

Lanes::~Lanes() {
  for (auto& track : tracks_) {
    device::ignoring_errors([&] {
      const device::Selected on(track->lane.device);
      track.reset();
    });
  }
}

LaneTimes Lanes::run(int times, const std::function<void()>& start) {
  if (!blocking_) return run_on_streams(times, start);
  if (start) start();
  return run_on_threads(times);
}

void Lanes::synchronize() {
  for (const auto& track : tracks_) track->stream.synchronize();
}

LaneTimes Lanes::run_on_streams(int times, const std::function<void()>& start) {
  struct Release {  // also if queueing throws: otherwise, work behind a latch would wait until the latch times out
    Lanes& lanes;
    ~Release() {
      for (const auto& track : lanes.tracks_) {
        if (track->latch) track->latch->release();
      }
    }
  };
  {
    const Release release{*this};
    const bool held =
        std::all_of(tracks_.begin(), tracks_.end(), [](const auto& track) { return track->latch.has_value(); });
    if (start && !held) start();
    for (const auto& track : tracks_) {
      const device::Selected on(track->lane.device);
      if (track->latch) track->latch->hold(track->stream, latch_timeout_, track->lane.next);
      track->begin.record(track->stream);
      for (int i = 0; i < times; ++i) track->lane.queue(track->stream);
      track->end.record(track->stream);
    }
    if (tracks_.size() > 1) {
      auto& first = *tracks_.front();
      const device::Selected on(first.lane.device);
      for (std::size_t i = 1; i < tracks_.size(); ++i) first.stream.wait(tracks_[i]->end);
      first.joined.record(first.stream);
    }
    if (start && held) start();
  }
  LaneTimes times_taken;
  for (const auto& track : tracks_) {
    track->stream.synchronize();
    times_taken.invalid |= track->latch && track->latch->timed_out();
    times_taken.lanes.push_back(device::elapsed(track->begin, track->end) / times);
  }
  const auto& first = *tracks_.front();
  const bool one_device = std::all_of(tracks_.begin(), tracks_.end(),
                                      [&](const auto& track) { return track->lane.device == first.lane.device; });
  if (one_device) {
    for (const auto& from : tracks_) {
      for (const auto& to : tracks_)
        times_taken.all = std::max(times_taken.all, device::elapsed(from->begin, to->end) / times);
    }
  } else {
    // A lane on another device may have started before the first lane's event; that lane's own time is a lower bound.
    times_taken.all = std::max(device::elapsed(first.begin, first.joined) / times,
                               *std::max_element(times_taken.lanes.begin(), times_taken.lanes.end()));
  }
  return times_taken;
}

LaneTimes Lanes::run_on_threads(int times) {
  struct Span {
    double begin = 0, end = 0;
    std::exception_ptr failure;
  };
  std::vector<Span> spans(tracks_.size());
  std::barrier start(static_cast<std::ptrdiff_t>(tracks_.size()));
  const auto run = [&](std::size_t i) {
    auto& track = *tracks_[i];
    auto& span = spans[i];
    bool started = false;
    try {
      const device::Selected on(track.lane.device);
      started = true;
      start.arrive_and_wait();
      span.begin = now();
      for (int k = 0; k < times; ++k) track.lane.queue(track.stream);
      if (!track.lane.blocking) track.stream.synchronize();
      span.end = now();
    } catch (...) {
      span.failure = std::current_exception();
      if (!started) start.arrive_and_drop();  // the other lanes must not wait for this one
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < tracks_.size(); ++i) threads.emplace_back(run, i);
    run(0);
  }
  LaneTimes times_taken;
  double first = spans.front().begin, last = spans.front().end;
  for (const auto& span : spans) {
    if (span.failure) std::rethrow_exception(span.failure);
    times_taken.lanes.push_back((span.end - span.begin) / times);
    first = std::min(first, span.begin);
    last = std::max(last, span.end);
  }
  times_taken.all = (last - first) / times;
  return times_taken;
}

LaneTimes read(Case& c, Lanes& lanes, int times, const std::function<void()>& start) {
  c.sampling().batch(times);
  auto taken = lanes.run(times, start);
  if (taken.invalid)
    c.sampling().invalidate("latch_timeout", "the latch that holds the streams timed out before everything was queued");
  return taken;
}

}  // namespace isthmus::workload
