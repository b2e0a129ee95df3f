#include "interjob/submitter.hpp"

#include <functional>

namespace isthmus::interjob {

void Submitter::run() {
  for (auto& entry : batch_.entries) {
    {
      Batch::Lock lock(batch_.mutex);
      batch_.changed.wait(lock,
                          [&] { return entry.in_ready || entry.state == State::ready || entry.state == State::done; });
      if (entry.state == State::done) continue;
      if (entry.state == State::ready) entry.state = State::running;
    }
    queue(entry);
    const Batch::Lock lock(batch_.mutex);
    entry.queued = true;
    batch_.changed.announce();
  }
}

void Submitter::queue(Entry& entry) {
  auto& kernel = batch_.kernel;
  auto& in = batch_.three_streams ? batch_.in : kernel;
  auto& out = batch_.three_streams ? batch_.out : kernel;
  const auto phase = [&](const std::function<void(const Work&)>& body, device::Stream& stream, device::Event& after) {
    if (body) body({stream, entry.memory.addresses, entry.slot});
    after.record(stream);
  };
  entry.outcome.submit = batch_.clock.span([&] {
    try {
      in.wait(entry.ready);
      entry.began.record(in);
      phase(entry.job->in, in, entry.in_done);
      if (const auto failure = await_rest(entry)) std::rethrow_exception(failure);
      if (batch_.three_streams) kernel.wait(entry.in_done);
      phase(entry.job->kernel, kernel, entry.kernel_done);
      if (batch_.three_streams) out.wait(entry.kernel_done);
      phase(entry.job->out, out, entry.out_done);
    } catch (...) {
      const Batch::Lock lock(batch_.mutex);
      entry.note(std::current_exception());
    }
    await_rest(entry);
  });
}

/// Waits until the job has all of its memory or has failed; returns the failure.
std::exception_ptr Submitter::await_rest(Entry& entry) {
  Batch::Lock lock(batch_.mutex);
  batch_.changed.wait(lock, [&] { return entry.state != State::allocating; });
  entry.state = State::running;
  return entry.outcome.failure;
}

}  // namespace isthmus::interjob
