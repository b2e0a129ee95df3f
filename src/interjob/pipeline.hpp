#pragma once

// Batches of GPU jobs, one after the other or overlapped: while a job computes, the next one's memory is allocated and
// filled and the last one's is read and freed (pipelining-taco2025, section 8). Each job is
//
//   allocate → in → kernel → out → finish → release
//
// and jobs reach the device in the order they are given, whatever overlaps. A job that fails, or finds no memory,
// cancels nothing but itself: what it held is freed, and the others go on.

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

/// What a phase of a job is given: a stream to queue on, the job's memory in the order it asked for it, and a number
/// below `depth` that no two jobs have while both hold memory, for what the caller shares out among them.
struct Work {
  device::Stream& stream;
  std::span<void* const> memory;
  std::size_t slot = 0;
};

struct Job {
  std::string name{};
  std::vector<Request> memory{};
  // They queue and do not wait; each may be empty. What one queues runs after what the one before it queued.
  std::function<void(const Work&)> in{}, kernel{}, out{};
  /// Called on the host when all of it has run, before the memory goes; of one job at a time.
  std::function<void(std::span<void* const>)> finish{};
};

enum class Mode {
  serial,         ///< nothing overlaps
  overlap_alloc,  ///< allocating and releasing beside the other jobs' work, which stays in one stream (the paper's)
  overlap_all,    ///< and each job's copies beside the kernels of its neighbours, in three streams
  recycled,       ///< overlap_all, with memory that is handed on to the next job that asks for as much of its kind
};
std::string_view name(Mode) noexcept;

/// All of them.
inline constexpr Mode kModes[] = {Mode::serial, Mode::overlap_alloc, Mode::overlap_all, Mode::recycled};

struct Costs;  // interjob/costs.hpp

struct Options {
  Mode mode = Mode::overlap_all;
  /// Overlap whatever it costs. Else the first two jobs run serially and are timed, and the rest are overlapped only
  /// where that is expected to gain.
  bool force = false;
  /// Of batches like this one, kept by the caller from one to the next: then no job runs serially to be timed, and how
  /// long an overlapped batch really took decides on the next. nullptr: this batch stands alone.
  Costs* costs = nullptr;
  int depth = 3;                 ///< jobs that hold memory at once, at most; `serial` is one
  int allocating_threads = 1;    ///< of the overlapped modes
  std::size_t device_limit = 0;  ///< bytes of device memory that all jobs may hold at once; 0: what there is
  bool wait_for_room = true;     ///< for jobs before it to release theirs; else a job without room fails
  int device = 0;
  std::size_t chunk_bytes = 0;  ///< of chunked memory; 0: a quarter of the largest request, under a limit a
                                ///< sixteenth, 64 MiB at most
  /// Bytes that the device's pool keeps at a synchronisation, from this batch on; nullopt: as it is set.
  std::optional<std::uint64_t> pool_keeps{};
};

/// Seconds since the batch began; both 0 where the job never came to it.
struct Span {
  double begin = 0, end = 0;
};

struct Outcome {
  std::string name;
  std::exception_ptr failure;  ///< of the job; nullptr: none
  std::string error;           ///< its sentence
  /// `submit` is what the calls of in, kernel and out take on the host, what they wait for memory included.
  Span allocate, submit, in, kernel, out, finish, release;
};

struct Result {
  Mode mode = Mode::serial;  ///< how jobs ran, those apart that were only timed
  std::string reason;        ///< for that mode, in a sentence
  std::vector<Outcome> jobs;
  double seconds = 0;                 ///< from the first allocation until all memory is released
  std::size_t peak_device_bytes = 0;  ///< that jobs held at once, handed-on memory included
};

/// Runs a batch. Chunked memory is given to one job at a time, in their order. Throws std::invalid_argument where an
/// option or a request makes no sense, device::Error where streams or events cannot be made, or chunks; what fails
/// within a job is in its outcome. No other thread may select devices for this one meanwhile.
Result run(std::span<const Job> jobs, const Options& options);

}  // namespace isthmus::interjob
