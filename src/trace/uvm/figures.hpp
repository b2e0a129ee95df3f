#pragma once

// From the events of one sample to its figures (docs/uvm.md says what each means). Arithmetic only.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trace/uvm/events.hpp"

namespace isthmus::trace::uvm {

struct Spread {
  std::size_t count = 0;
  double mean = 0, deviation = 0, least = 0, most = 0;  ///< deviation of the population
};

/// What the driver took up together. Times are seconds since the first event of the sample.
struct Batch {
  std::uint8_t gpu = 0;
  Client client_kind = Client::gpc;
  std::uint32_t number = 0;
  std::size_t faults = 0, pages = 0, blocks = 0, clients = 0, gpcs = 0;
  double begin = 0;              ///< its first fault was taken up
  double last = 0;               ///< its last fault was
  std::optional<double> replay;  ///< the GPU was told to try again; none where the stream ends before
  /// What was queued between its first fault and its replay: for faults, by the prefetcher, evicted.
  std::size_t moves = 0;
  std::uint64_t bytes = 0;
  double transfer = 0;  ///< seconds of these moves on the GPU's clock, added; 0 where nothing is known
};

struct Moved {
  Cause cause = Cause::fault;
  std::uint8_t source = 0, destination = 0;
  std::uint64_t address = 0, bytes = 0;
  double begin = 0;               ///< queued, seconds since the first event
  std::optional<double> seconds;  ///< on the GPU's clock
};

/// What a GPU that was short of memory gave up. A block is evicted once, however many moves that takes.
struct Evictions {
  std::size_t blocks = 0;
  std::optional<double> age;  ///< mean share of the GPU's other blocks that had arrived longer ago: 0 the oldest first
  std::size_t returned = 0;   ///< blocks that arrived again
  std::uint64_t returned_bytes = 0;
  std::uint64_t discarded_bytes = 0;  ///< arrived again without having left: given up without being written back
};

struct Figures {
  std::uint64_t began = 0;  ///< the first event's time, nanoseconds on the CPU's clock
  std::size_t faults = 0, pages = 0, replays = 0, cpu_faults = 0, fatal_faults = 0;
  std::size_t throttlings = 0, thrashings = 0, remote_maps = 0, others = 0;
  /// Bytes, by Cause; [0] is what has a cause that is not known.
  std::uint64_t bytes[6] = {};
  Spread faults_of_batch, blocks_of_batch, clients_of_batch, gpcs_of_batch;
  Spread faults_of_block;  ///< of each block in each batch: Table 3 of the paper

  /// Absent where the clocks do not hold, and where there is nothing to time.
  struct Times {
    double service = 0;                              ///< from a batch's first fault to its replay, added up
    double between = 0;                              ///< from a replay to the next batch's first fault, added up
    double transfer = 0;                             ///< something was moving, on the GPU's clock
    std::optional<double> latency_p50, latency_p95;  ///< of a fault: written by the GPU to tried again
    double throttled = 0;
  };
  std::optional<Times> times;
  /// A sentence for each way in which the clocks cannot be right; times are left out then, counts stand.
  std::vector<std::string> problems;

  std::vector<Batch> batches;  ///< in order of their begin
  std::vector<Moved> migrations;
  std::optional<Evictions> evictions;  ///< none where nothing was evicted

  std::uint64_t of(Cause cause) const { return bytes[static_cast<std::size_t>(cause)]; }
};

/// The order of the events says nothing: their times do.
Figures figures_of(std::span<const Event> events);

}  // namespace isthmus::trace::uvm
