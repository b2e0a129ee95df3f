#pragma once

// Batches of GPU jobs that run one after the other or overlapped: while one job computes, the memory of the next job is
// allocated and filled, and the memory of the previous one is read and freed (pipelining-taco2025, section 8). A job is
//
//   allocate → in → kernel → out → finish → release
//
// and jobs reach the device in the given order, no matter what overlaps. A job that fails, or finds no memory, cancels
// only itself: its memory is freed, and the other jobs continue.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "interjob/request.hpp"

namespace isthmus::interjob {

/// Arguments of a job's phase: a stream to queue on, the job's memory in the order of its requests, and a slot: a
/// number below `depth` that no two jobs have while both have memory, for resources that the caller divides among jobs.
struct Work {
  device::Stream& stream;
  std::span<void* const> memory;
  std::size_t slot = 0;
};

struct Job {
  std::string name{};
  std::vector<Request> memory{};
  // Phases queue work and do not wait; each may be empty. The work of a phase runs after the work of the previous
  // phase.
  std::function<void(const Work&)> in{}, kernel{}, out{};
  /// Called on the host when all phases have run, before the memory is freed; never for two jobs at the same time.
  std::function<void(std::span<void* const>)> finish{};
};

enum class Mode {
  serial,         ///< nothing overlaps
  overlap_alloc,  ///< allocation and release overlap with the work of other jobs, which stays in one stream (the
                  ///< paper's mode)
  overlap_all,    ///< `overlap_alloc`, and each job's copies overlap with kernels of other jobs, in three streams
  recycled,       ///< `overlap_all`, with memory passed on to the next job that requests the same size and kind
};
std::string_view name(Mode) noexcept;

/// List of all modes.
inline constexpr Mode kModes[] = {Mode::serial, Mode::overlap_alloc, Mode::overlap_all, Mode::recycled};

struct Costs;  // interjob/costs.hpp

struct Options {
  Mode mode = Mode::overlap_all;
  /// True: overlap in any case. False: run and time the first two jobs serially, and overlap the rest only if that is
  /// expected to be faster.
  bool force = false;
  /// Costs of batches like this one, which the caller keeps from batch to batch: jobs then need not run serially to be
  /// timed, and the real time of an overlapped batch decides about the next batch. nullptr: this batch is independent.
  Costs* costs = nullptr;
  int depth = 3;                 ///< maximum number of jobs that have memory at the same time; 1 for `serial`
  int allocating_threads = 1;    ///< number of threads that allocate, in overlapped modes
  std::size_t device_limit = 0;  ///< maximum bytes of device memory that all jobs have at the same time; 0: all of the
                                 ///< device
  bool wait_for_room = true;     ///< a job waits for earlier jobs to release memory; if false, it fails when it finds
                                 ///< too little
  int device = 0;
  std::size_t chunk_bytes = 0;  ///< size of chunks; 0: a quarter of the largest request, or a sixteenth with a limit,
                                ///< but at most 64 MiB
  /// Bytes that the device's pool keeps at synchronisations, from this batch on; nullopt: unchanged.
  std::optional<std::uint64_t> pool_keeps{};
};

/// Seconds since the batch began; both are 0 if the job never reached the phase.
struct Span {
  double begin = 0, end = 0;
};

struct Outcome {
  std::string name;
  std::exception_ptr failure;  ///< failure of the job; nullptr: it did not fail
  std::string error;           ///< message of the failure
  /// `submit` is the time that the calls of in, kernel and out take on the host, including waits for memory.
  Span allocate, submit, in, kernel, out, finish, release;
};

struct Result {
  Mode mode = Mode::serial;  ///< mode in which the jobs ran, except jobs that ran serially to be timed
  std::string reason;        ///< reason for that mode, as a sentence
  std::vector<Outcome> jobs;
  double seconds = 0;                 ///< time from the first allocation until all memory is released
  std::size_t peak_device_bytes = 0;  ///< peak of the jobs' device memory, including memory kept for other jobs
};

/// Runs a batch. Chunked memory is allocated for one job at a time, in order. Throws std::invalid_argument if an option
/// or a request is invalid, device::Error if streams, events or chunks cannot be made; a failure within a job is in the
/// job's outcome. The calling thread's selected device must not change while it runs.
Result run(std::span<const Job> jobs, const Options& options);

}  // namespace isthmus::interjob
