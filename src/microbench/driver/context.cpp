// driver/context: cost of a process before its first useful call. Each sample is a fresh process of this program.

#include "microbench/driver/calls.hpp"
#include "workload/fresh_process.hpp"

namespace isthmus::microbench::driver {
namespace {

using namespace workload;

/// Returns the seconds of the driver's start, of creating the context, and of everything until the first kernel has
/// run.
std::vector<double> begin_anew(int gpu) {
  const double started = timed([] { device::count(); });
  const double created = timed([gpu] {
    device::select(gpu);
    device::free_device(nullptr);  // a call that needs the context and has no effect
  });
  const double launched = timed([] {
    device::load_kernels();
    device::Stream stream;
    launch_empty(stream);
    stream.synchronize();
  });
  return {started, created, launched};
}

const FreshProcess fresh("driver/context", begin_anew);

void run(Case& c) {
  c.needs(0, 0);
  c.sampling().limit(5, 1);
  c.sampling().sample(
      {time_metric("driver_start", "clock", kCallsUnbounded), time_metric("context", "clock", kCallsUnbounded),
       time_metric("first_launch", "clock", kCallsUnbounded), time_metric("process", "clock", kCallsUnbounded)},
      [&] {
        std::vector<double> seconds;
        const double process = timed([&] { seconds = fresh.run(c.device().index); });
        seconds.push_back(process);
        return seconds;
      });
}

const Registration registration = workload("context", run, "time of a fresh process until its first kernel has run",
                                           {"driver_start", "context", "first_launch", "process"}, 0.3)
                                      .unverified("a process that starts and ends leaves nothing to check")
                                      .size("tiny", {});

}  // namespace
}  // namespace isthmus::microbench::driver
