#include "harness/measure/passes/passes.hpp"

#include <algorithm>
#include <cmath>

#include "workload/clock.hpp"

namespace isthmus::harness {

using memory::Travel;

Passes::Passes(CaseState& state, Body& body, bool latched)
    : s_(state),
      body_(body),
      placement_(*state.spec.placement),
      set_(*state.set),
      stream_(*state.stream),
      units_(state.units()),
      timer_(stream_, state.sampling.latch_timeout) {
  for (const auto& buffer : s_.declared.buffers) {
    const auto role = buffer.spec.role;
    const bool copied = set_.copied(static_cast<std::size_t>(&buffer - s_.declared.buffers.data()));
    if (copied && (role == memory::Role::input || role == memory::Role::inout)) in_bytes_ += buffer.spec.bytes;
    if (role == memory::Role::output || role == memory::Role::inout) out_bytes_ += buffer.spec.bytes;
    has_inout_ |= role == memory::Role::inout;
  }
  const auto in = placement_->in, out = placement_->out;
  has_in_ = in_bytes_ > 0 && in != Travel::none;
  has_out_ = out_bytes_ > 0 && out != Travel::none;
  out_by_clock_ = out == Travel::host_access;
  overlapped_by_clock_ = out_by_clock_ || in == Travel::blocking || out == Travel::blocking || body.waits();
  latch_copies_ = latched && !set_.copies_block();
  const bool body_blocks = body.waits() || (body.recorder().travels() && set_.copies_block());
  latch_kernel_ = latched && !body_blocks && body.fits_queue(1);
  latch_whole_ = latch_copies_ && latch_kernel_;
  if (latch_copies_ || latch_kernel_) s_.consult("--latch-timeout");
  body_.recorder().timer = &timer_;
  if (placement_->chunked) chunks_ = memory::cut(s_.declared.chunk_units, s_.sampling.chunks);
}

/// Restores poison and fresh inputs where the last pass left results, and makes caches cold.
void Passes::reset() {
  {
    const ScopedPhase verifying(s_, "", Part::verifying);
    set_.reset(stream_);
  }
  const ScopedPhase inputs(s_, "", Part::inputs);
  for (std::size_t i = 0; dirty_ && i < s_.declared.buffers.size(); ++i) {
    if (s_.declared.buffers[i].spec.role == memory::Role::inout) s_.fill(i);
  }
  dirty_ = false;
  // Caches must be flushed: on a host whose inputs were modified in the caches of 16 cores, a 1 MiB copy to the device
  // took 20 to 190 us.
  if (!set_.flush_host_caches())
    s_.result.warn("caches_not_flushed",
                   "programs cannot flush the caches of this CPU, so small copies may read from them");
}

void Passes::check_placement() {
  if (std::exchange(placement_checked_, true)) return;
  for (auto& sentence : set_.disagreements()) s_.result.warn("placement_disagrees", std::move(sentence));
}

double Passes::kernel_phase(Pass& pass) {
  const bool apart = body_.repeats() > 1;
  const auto queue = [&] {
    for (int i = 0; i < batches_.kernel; ++i) body_.submit(stream_, units_, apart && i == 0 ? &first_done_ : nullptr);
  };
  const double begin = now();
  if (body_.recorder().watches) {
    queue();  // the recorder times each piece separately with the same timer, so the whole cannot use it
    stream_.synchronize();
    pass.kernel_clock = now() - begin;
    if (apart) pass.repeats = {pass.kernel_clock, pass.kernel_clock};
    return pass.kernel_clock;
  }
  const double seconds = timer_.time(latch_kernel_, Next::kernel, pass.invalid, queue);
  pass.kernel_clock = (now() - begin) / batches_.kernel;
  if (apart) {
    const auto [first, later] = timer_.split(first_done_);
    pass.repeats = {first, later / static_cast<double>(body_.repeats() - 1)};
  }
  return body_.waits() ? pass.kernel_clock : seconds / batches_.kernel;
}

Pass Passes::phased(Part part, std::size_t sample) {
  reset();
  const ScopedPhase whole(s_, "", part, sample);
  Pass pass;
  dirty_ = true;
  const auto travel = [&](const char* name, bool latched, Next next, int batch, double& clock, auto move) {
    const ScopedPhase piece(s_, name, part, sample);
    const double begin = now();
    const double seconds = timer_.time(latched, next, pass.invalid, [&] {
      for (int i = 0; i < batch; ++i) move();
    });
    clock = (now() - begin) / batch;
    return seconds / batch;
  };
  if (has_in_) {
    pass.in =
        travel("in", latch_copies_, next_in(), batches_.in, pass.in_clock, [&] { in_moved_ = set_.copy_in(stream_); });
  }
  check_placement();
  {
    const ScopedPhase piece(s_, "kernel", part, sample);
    pass.kernel = kernel_phase(pass);
  }
  if (batches_.kernel > 1 && has_inout_) {
    // The batch has applied the kernel repeatedly to its own results, but `out` must copy the results of a single run.
    set_.copy_in(stream_);
    body_.submit(stream_, units_, nullptr);
    stream_.synchronize();
  }
  if (has_out_ && out_by_clock_) {
    const ScopedPhase piece(s_, "out", part, sample);
    const double begin = now();
    out_moved_ = set_.copy_out(stream_);
    pass.out = pass.out_clock = now() - begin;
  } else if (has_out_) {
    pass.out = travel("out", latch_copies_, next_out(), batches_.out, pass.out_clock,
                      [&] { out_moved_ = set_.copy_out(stream_); });
  }
  set_.check(stream_);
  return pass;
}

double Passes::overlapped(Part part, std::size_t sample, bool& invalid) {
  reset();
  const double seconds = queue_at_once(part, sample, invalid);
  set_.check(stream_);
  return seconds;
}

double Passes::queue_at_once(Part part, std::size_t sample, bool& invalid) {
  const ScopedPhase whole(s_, "overlapped", part, sample);
  dirty_ = true;
  const auto queue = [&] {
    set_.copy_in(stream_);
    body_.submit(stream_, units_, nullptr);
    set_.copy_out(stream_);
  };
  if (overlapped_by_clock_) {
    const double begin = now();
    queue();
    stream_.synchronize();
    return now() - begin;
  }
  if (!chunks_.empty()) return streamed(invalid);
  return timer_.time(latch_whole_, next_in(), invalid, [&] {
    for (int i = 0; i < batches_.overlapped; ++i) queue();
  }) / batches_.overlapped;
}

/// Times a pass in chunks on three streams, one each for copies in, kernels and copies out. Chunk k's kernel waits for
/// its copy in, and its copy out waits for its kernel. Each stream is in order, so a kernel also finds the data of all
/// earlier chunks.
double Passes::streamed(bool& invalid) {
  if (!kernels_stream_) {
    kernels_stream_.emplace();
    out_stream_.emplace();
    brought_.resize(chunks_.size());
    computed_.resize(chunks_.size());
  }
  const bool latched = latch_kernel_ && body_.fits_queue(chunks_.size());
  return timer_.time_until(*out_stream_, latched, next_in(), invalid, [&] {
    for (std::size_t k = 0; k < chunks_.size(); ++k) {
      set_.copy_in(stream_, chunks_[k], k == 0);
      brought_[k].record(stream_);
      kernels_stream_->wait(brought_[k]);
      body_.submit(*kernels_stream_, chunks_[k], nullptr);
      computed_[k].record(*kernels_stream_);
      out_stream_->wait(computed_[k]);
      set_.copy_out(*out_stream_, chunks_[k], k + 1 == chunks_.size());
    }
  });
}

double Passes::nothing() {
  bool invalid = false;
  double sum = 0;
  const auto none = [] {};
  const auto wait = [&] {
    const double begin = now();
    stream_.synchronize();
    return now() - begin;
  };
  if (has_in_) sum += timer_.time(latch_copies_, next_in(), invalid, none);
  sum += body_.waits() ? wait() : timer_.time(latch_kernel_, Next::kernel, invalid, none);
  if (has_out_) sum += out_by_clock_ ? wait() : timer_.time(latch_copies_, next_out(), invalid, none);
  return sum;
}

int Passes::batch_for(std::optional<double> seconds, bool repeatable) const {
  if (!seconds || !repeatable || s_.emulated) return 1;
  const double wanted = s_.sampling.least_ticks * device::timer_tick();
  return static_cast<int>(
      std::clamp(std::ceil(wanted / std::max(*seconds, 1e-9)), 1.0, static_cast<double>(s_.sampling.largest_batch)));
}

void Passes::choose_batches(const Pass& pass) {
  // A second prefetch of a page, or a second access to it, finds the page in place, so only copies, and kernels that
  // cause no transfer of pages, can be repeated.
  const bool copies = placement_->two_memories() && !placement_->paged;
  const auto most = static_cast<int>(std::min<std::size_t>(body_.most_batch(), 1 << 20));
  batches_.in = batch_for(pass.in, copies);
  batches_.out = batch_for(pass.out, copies && !out_by_clock_);
  const bool repeatable = copies || (!placement_->paged && memory::page_locked(placement_->host) && !has_inout_);
  const bool alone = body_.waits() || body_.repeats() > 1;  // one pass is long, or is timed in parts
  batches_.kernel = std::min(most, batch_for(pass.kernel, repeatable && !alone));
  const double whole = pass.in.value_or(0) + pass.kernel.value_or(0) + pass.out.value_or(0);
  batches_.overlapped =
      std::min(most, batch_for(whole, copies && !has_inout_ && !overlapped_by_clock_ && chunks_.empty() && !alone));
}

}  // namespace isthmus::harness
