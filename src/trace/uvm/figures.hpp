#pragma once

// Figures of one sample, computed only from its events (docs/uvm.md defines each figure).

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
  double mean = 0, deviation = 0, least = 0, most = 0;  ///< `deviation` is that of the population
};

/// Page faults that the driver handled together. Times are in seconds since the first event of the sample.
struct Batch {
  std::uint8_t gpu = 0;
  Client client_kind = Client::gpc;
  std::uint32_t number = 0;
  std::size_t faults = 0, pages = 0, blocks = 0, clients = 0, gpcs = 0;
  double begin = 0;              ///< time when the batch's first page fault was handled
  double last = 0;               ///< time when the batch's last page fault was handled
  std::optional<double> replay;  ///< time when the GPU was told to retry; nullopt if events end before that
  /// Number of moves queued between the batch's first page fault and its replay, because of page faults, the prefetcher
  /// or eviction.
  std::size_t moves = 0;
  std::uint64_t bytes = 0;
  double transfer = 0;  ///< sum of the seconds of these moves on the GPU's clock; 0 if no times are known
};

struct Moved {
  Cause cause = Cause::fault;
  std::uint8_t source = 0, destination = 0;
  std::uint64_t address = 0, bytes = 0;
  double begin = 0;               ///< time when the move was queued, in seconds since the first event
  std::optional<double> seconds;  ///< duration in seconds on the GPU's clock
};

/// Evictions by GPUs that ran out of memory. A block counts as evicted once, no matter how many moves its eviction
/// takes.
struct Evictions {
  std::size_t blocks = 0;
  std::optional<double> age;  ///< mean share of the GPU's other blocks that had arrived earlier; 0 means that the
                              ///< oldest block is always evicted
  std::size_t returned = 0;   ///< number of blocks that arrived again
  std::uint64_t returned_bytes = 0;
  std::uint64_t discarded_bytes = 0;  ///< bytes that arrived although, by the events, they were still on the GPU: the
                                      ///< copy was dropped without being written back
};

struct Figures {
  std::uint64_t began = 0;  ///< time of the first event, in nanoseconds on the CPU's clock
  std::size_t faults = 0, pages = 0, replays = 0, cpu_faults = 0, fatal_faults = 0;
  std::size_t throttlings = 0, thrashings = 0, remote_maps = 0, others = 0;
  /// Number of bytes moved, indexed by Cause; [0] counts bytes of unknown causes.
  std::uint64_t bytes[6] = {};
  Spread faults_of_batch, blocks_of_batch, clients_of_batch, gpcs_of_batch;
  Spread faults_of_block;  ///< page faults of each block in each batch, as in Table 3 of the paper

  /// Times in seconds; absent if the clocks are inconsistent or no event has times.
  struct Times {
    double service = 0;                              ///< sum of the times from a batch's first fault to its replay
    double between = 0;                              ///< sum of the times from a replay to the next batch's first fault
    double transfer = 0;                             ///< time with at least one move running, on the GPU's clock
    std::optional<double> latency_p50, latency_p95;  ///< time from the GPU writing a page fault to its replay
    double throttled = 0;
  };
  std::optional<Times> times;
  /// Sentences, one for each way in which the clocks are wrong; if there are any, times are omitted, but counts remain.
  std::vector<std::string> problems;

  std::vector<Batch> batches;  ///< sorted by `begin`
  std::vector<Moved> migrations;
  std::optional<Evictions> evictions;  ///< nullopt: no eviction

  std::uint64_t of(Cause cause) const { return bytes[static_cast<std::size_t>(cause)]; }
};

/// Computes the figures of a sample. The order of the events does not matter, because each event has a time.
Figures figures_of(std::span<const Event> events);

}  // namespace isthmus::trace::uvm
