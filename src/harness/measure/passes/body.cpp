#include "harness/measure/passes/body.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "workload/clock.hpp"

namespace isthmus::harness {

namespace {

/// Launches that a held stream takes: on an H200 the 1,022nd waits until the hold ends.
constexpr std::size_t kHeldLaunches = 900;

}  // namespace

Body::Body(CaseState& state, Control control, std::function<void(Run&)> function, bool latched)
    : s_(state), control_(control), function_(std::move(function)), keeper_(*state.set, control, latched) {
  rehearse();
  choose_submission();
}

void Body::run(device::Stream& stream, memory::Range units, std::size_t first, std::size_t last) {
  for (std::size_t repeat = first; repeat < last; ++repeat) {
    Run run(keeper_, stream, units, repeat);
    keeper_.run_begins(stream);
    function_(run);
    keeper_.run_ends(stream);
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
  keeper_.watch(Keeper::Watching::rehearsal);
  run(*s_.stream, s_.units(), 0, s_.declared.repeats);
  keeper_.watch(Keeper::Watching::nothing);
  keeper_.make_arrivals();
}

std::size_t Body::queue_entries() const {
  return submission_ == Submission::graph ? 3 : keeper_.pieces() + keeper_.events() + 2;
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
  const bool beside = keeper_.numbers() > 0;
  const bool copies = keeper_.travels() && (*s_.spec.placement)->in != memory::Travel::asynchronous;
  if (asked == "graph" && waits())
    throw Skip("a body that waits for results cannot be captured into a graph", SkipKind::not_applicable);
  if (asked == "graph" && beside)
    throw Skip(
        "a graph holds the work of one stream, and copies that run beside it have another: set submission=stream",
        SkipKind::not_applicable);
  if (asked == "graph" && copies) throw Skip("a graph holds no copies of this placement", SkipKind::not_applicable);
  if (asked == "graph" || (asked == "automatic" && !waits() && !copies && !beside && !fits_queue(1)))
    submission_ = Submission::graph;
  if (!waits() && !fits_queue(1))
    s_.result.warn("queue_full", fmt::format("a pass queues {} launches and a held stream takes about {}, so none is "
                                             "held and times include submission",
                                             keeper_.pieces(), kHeldLaunches));
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
  // A chunk of the work, and a pass that is watched, go launch by launch.
  const bool whole = units.count == s_.units().count;
  const bool as_graph = !graphs_.empty() && !keeper_.watches && whole;
  if (whole) keeper_.pass_begins();
  const auto part = [&](std::size_t number, std::size_t first, std::size_t last) {
    as_graph ? graphs_[number].launch(stream) : run(stream, units, first, last);
  };
  part(0, 0, 1);
  if (s_.declared.repeats == 1) return;
  if (first_done != nullptr) first_done->record(stream);
  part(1, 1, s_.declared.repeats);
}

}  // namespace isthmus::harness
