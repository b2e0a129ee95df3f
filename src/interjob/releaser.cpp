#include "interjob/releaser.hpp"

#include <algorithm>
#include <utility>

namespace isthmus::interjob {

void Releaser::run() {
  for (auto& entry : batch_.entries) {
    {
      Batch::Lock lock(batch_.mutex);
      batch_.changed.wait(lock, [&] { return entry.queued || entry.state == State::done; });
      if (entry.state == State::done) continue;
    }
    conclude(entry);
  }
}

void Releaser::conclude(Entry& entry) {
  auto& outcome = entry.outcome;
  const auto attempt = [&](const auto& body) {
    try {
      body();
    } catch (...) {
      entry.note(std::current_exception());
    }
  };
  if (!entry.failed()) {
    attempt([&] {
      shrink_after(entry, Phase::in, entry.in_done);
      shrink_after(entry, Phase::kernel, entry.kernel_done);
      entry.out_done.synchronize();
      read_times(entry);
    });
  }
  if (entry.failed()) {  // some of the job's work may still be running
    for (auto* each : {&batch_.in, &batch_.kernel, &batch_.out}) attempt([&] { each->synchronize(); });
  } else if (entry.job->finish) {
    outcome.finish = batch_.clock.span([&] { attempt([&] { entry.job->finish(entry.memory.addresses); }); });
  }
  const bool for_others = batch_.options.mode == Mode::recycled && !entry.failed();
  Batch::Lock lock(batch_.mutex);
  outcome.release = batch_.clock.span([&] { batch_.give_back(entry, batch_.releasing, for_others, lock); });
  batch_.end(entry);
}

void Releaser::read_times(Entry& entry) {
  const auto& clock = batch_.clock;
  auto& outcome = entry.outcome;
  outcome.in = clock.span(entry.began, entry.in_done);
  outcome.kernel = clock.span(entry.in_done, entry.kernel_done);
  outcome.out = clock.span(entry.kernel_done, entry.out_done);
  // Work queued in one stream waits there for the previous job; this waiting is not part of the job's time.
  for (auto [phase, before] : {std::pair{&outcome.kernel, &kernel_end_}, std::pair{&outcome.out, &out_end_}}) {
    phase->begin = std::min(std::max(phase->begin, *before), phase->end);
    *before = phase->end;
  }
}

/// Releases the chunks that no later phase uses, after this phase has ended: another job may be waiting for them.
void Releaser::shrink_after(Entry& entry, Phase phase, device::Event& done) {
  for (std::size_t i = 0; i < entry.requests.size(); ++i) {
    const auto& block = entry.memory.blocks[i];
    if (block == nullptr || entry.requests[i].until != phase || block->mapped() == 0) continue;
    done.synchronize();
    block->shrink();
    const Batch::Lock lock(batch_.mutex);
    batch_.gave_back();
  }
}

}  // namespace isthmus::interjob
