#include "harness/measure/passes/body.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "workload/clock.hpp"

namespace isthmus::harness {

namespace {

/// Maximum number of launches queued on a held stream. On an H200 the 1,022nd launch blocks until the hold ends.
constexpr std::size_t kHeldLaunches = 900;

}  // namespace

Body::Body(CaseState& state, Control control, std::function<void(Run&)> function, bool latched)
    : s_(state), control_(control), function_(std::move(function)), recorder_(*state.set, control, latched) {
  rehearse();
  choose_submission();
}

void Body::run(device::Stream& stream, memory::Range units, std::size_t first, std::size_t last) {
  for (std::size_t repeat = first; repeat < last; ++repeat) {
    Run run(recorder_, stream, units, repeat);
    recorder_.run_begins(stream);
    function_(run);
    recorder_.run_ends(stream);
  }
}

void Body::rehearse() {
  if (waits()) return;
  struct Rehearsing {
    bool& flag;
    explicit Rehearsing(bool& flag_) : flag(flag_) { flag = true; }
    ~Rehearsing() { flag = false; }
  };
  const Rehearsing rehearsing(s_.rehearsing);
  recorder_.watch(RunRecorder::Watching::rehearsal);
  run(*s_.stream, s_.units(), 0, s_.declared.repeats);
  recorder_.watch(RunRecorder::Watching::nothing);
  recorder_.make_async_copies();
}

std::size_t Body::queue_entries() const {
  return submission_ == Submission::graph ? 3 : recorder_.work_items() + recorder_.events() + 2;
}

bool Body::fits_queue(std::size_t passes) const {
  return passes * queue_entries() <= kHeldLaunches;
}

std::size_t Body::most_batch() const {
  return std::max<std::size_t>(1, kHeldLaunches / queue_entries());
}

void Body::choose_submission() {
  s_.consult("submission");
  const auto* axis = s_.spec.find("submission");
  const auto asked = axis != nullptr ? to_text(*axis) : "automatic";
  const bool concurrent = recorder_.numbers() > 0;
  const bool copies = recorder_.travels() && (*s_.spec.placement)->in != memory::Travel::asynchronous;
  if (asked == "graph" && waits())
    throw Skip("a body that waits for results cannot be captured into a graph", SkipKind::not_applicable);
  if (asked == "graph" && concurrent)
    throw Skip("a graph contains the work of one stream, but concurrent copies use another: set submission=stream",
               SkipKind::not_applicable);
  if (asked == "graph" && copies)
    throw Skip("a graph cannot contain copies of this placement", SkipKind::not_applicable);
  if (asked == "graph" || (asked == "automatic" && !waits() && !copies && !concurrent && !fits_queue(1)))
    submission_ = Submission::graph;
  if (!waits() && !fits_queue(1))
    s_.result.warn("queue_full", fmt::format("a pass queues {} launches, more than the roughly {} that a latched "
                                             "stream can queue, so no latch is used and times include submission",
                                             recorder_.work_items(), kHeldLaunches));
}

std::optional<double> Body::capture(device::Stream& stream) {
  graphs_.clear();
  if (submission_ != Submission::graph) return std::nullopt;
  const double begin = now();
  const auto add = [&](std::size_t first, std::size_t last) {
    graphs_.emplace_back(device::Graph(stream, [&] { run(stream, s_.units(), first, last); }));
  };
  add(0, 1);
  if (s_.declared.repeats > 1) add(1, s_.declared.repeats);
  return now() - begin;
}

void Body::submit(device::Stream& stream, memory::Range units, device::Event* first_done) {
  // A chunk of the work and a watched pass are submitted launch by launch.
  const bool whole = units.count == s_.units().count;
  const bool as_graph = !graphs_.empty() && !recorder_.watches && whole;
  if (whole) recorder_.pass_begins();
  const auto part = [&](std::size_t number, std::size_t first, std::size_t last) {
    as_graph ? graphs_[number].launch(stream) : run(stream, units, first, last);
  };
  part(0, 0, 1);
  if (s_.declared.repeats == 1) return;
  if (first_done != nullptr) first_done->record(stream);
  part(1, 1, s_.declared.repeats);
}

}  // namespace isthmus::harness
