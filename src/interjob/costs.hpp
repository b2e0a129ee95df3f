#pragma once

// What jobs cost one after the other, and what that says about overlapping them.

#include <map>
#include <span>
#include <string>

#include "interjob/pipeline.hpp"

namespace isthmus::interjob {

/// How the memory of jobs behaves, beside what its calls take.
struct MemoryTraits {
  bool freeing_waits = false;  ///< for all that the device was given, and nobody else may call the driver meanwhile
  bool faults = false;         ///< where it is new: copies into it and kernels are served one after the other
  bool handed_on = true;       ///< `recycled` hands it on; else it is mapped for each job all the same
  bool page_locked = false;    ///< host memory, whose calls are long and mostly not the driver's
};
MemoryTraits memory_traits_of(std::span<const Request> requests);

/// Seconds of one job's phases, run alone, and what was seen of batches of such jobs.
struct Costs {
  double allocate = 0, submit = 0, in = 0, kernel = 0, out = 0, finish = 0, release = 0;
  double job = 0;    ///< from its first allocation to its last release; 0: not known
  double least = 0;  ///< `job` of the fastest serial batch; 0: as `job`
  struct Seen {
    double job = 0;  ///< seconds of a batch over its jobs; the least
    int batches = 0;
  };
  std::map<Mode, Seen> overlapped{};
  MemoryTraits memory{};
  bool known() const noexcept { return job > 0; }
};

/// The mean of each phase over jobs that ran serially and did not fail (jobs may be of several kinds); not known where
/// there is none.
Costs costs_of(std::span<const Outcome> jobs);

/// The least that a batch can take, were phases of different jobs never in each other's way.
struct Ideal {
  double seconds = 0;
  std::string busiest;  ///< what works all the time: "allocating", "submitting", "in", "kernel", "out", "releasing", or
                        ///< "stream" for in, kernel and out in one
};
/// The time of one job, and, for each other job, of what is busiest in the mode; of `serial`, of all jobs' phases.
/// Recycled jobs allocate as often as `depth` says, at the beginning.
Ideal ideal(const Costs& costs, Mode mode, std::size_t jobs, int depth, int allocating_threads);

/// Seconds from the moment a thread wakes another until that one runs, and to start a thread; measured once in a
/// process, in about a millisecond.
struct ThreadCosts {
  double wake = 0, start = 0;
};
const ThreadCosts& thread_costs();

/// Whether overlapping `jobs` jobs is worth it, and why: no mode is expected to be as fast as its ideal, since the
/// calls of a driver wait for each other and take longer where they had to.
struct Verdict {
  bool overlap = false;
  std::string reason;
};
Verdict judge(const Costs& costs, const ThreadCosts& threads, const Options& options, std::size_t jobs);

}  // namespace isthmus::interjob
