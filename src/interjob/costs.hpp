#pragma once

// Costs of jobs that run one after the other, and the expected gain from overlapping them.

#include <map>
#include <span>
#include <string>

#include "interjob/pipeline.hpp"

namespace isthmus::interjob {

/// Properties of the memory of jobs, apart from the time of allocation and release.
struct MemoryTraits {
  bool freeing_waits = false;  ///< freeing waits for all work on the device and blocks other driver calls until then
  bool faults = false;         ///< first accesses cause page faults, so copies into new memory and kernels run one
                               ///< after the other
  bool handed_on = true;       ///< `recycled` passes it to the next job; if false, it is mapped for each job even in
                               ///< that mode
  bool page_locked = false;    ///< page-locked host memory, whose calls take long, mostly outside the driver
};
MemoryTraits memory_traits_of(std::span<const Request> requests);

/// Seconds of the phases of one job that runs alone, and measurements of batches of such jobs.
struct Costs {
  double allocate = 0, submit = 0, in = 0, kernel = 0, out = 0, finish = 0, release = 0;
  double job = 0;    ///< seconds from the first allocation to the last release; 0: unknown
  double least = 0;  ///< `job` in the fastest serial batch; 0: same as `job`
  struct Seen {
    double job = 0;  ///< minimum over batches of seconds divided by number of jobs
    int batches = 0;
  };
  std::map<Mode, Seen> overlapped{};
  MemoryTraits memory{};
  bool known() const noexcept { return job > 0; }
};

/// Returns the mean of each phase over jobs that ran serially and did not fail (jobs may be of several kinds); unknown
/// if there are no such jobs.
Costs costs_of(std::span<const Outcome> jobs);

/// Shortest time of a batch, as if phases of different jobs never delayed each other.
struct Ideal {
  double seconds = 0;
  std::string busiest;  ///< busiest resource: "allocating", "submitting", "in", "kernel", "out", "releasing", or
                        ///< "stream" if in, kernel and out share a stream
};
/// Returns the time of one job, plus the time of the mode's busiest resource for each other job; for `serial`, the time
/// of all jobs' phases. Recycled jobs allocate `depth` times, at the beginning.
Ideal ideal(const Costs& costs, Mode mode, std::size_t jobs, int depth, int allocating_threads);

/// Seconds until a thread that was woken runs, and seconds to start a thread; measured once per process, which takes
/// about a millisecond.
struct ThreadCosts {
  double wake = 0, start = 0;
};
const ThreadCosts& thread_costs();

/// Decision whether overlapping `jobs` jobs is worth it, and the reason. No mode is expected to reach its ideal time,
/// because driver calls wait for each other and take longer after they had to wait.
struct Verdict {
  bool overlap = false;
  std::string reason;
};
Verdict judge(const Costs& costs, const ThreadCosts& threads, const Options& options, std::size_t jobs);

}  // namespace isthmus::interjob
