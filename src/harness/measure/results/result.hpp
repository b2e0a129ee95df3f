#pragma once

// Result of one case, which is filled while the case is measured and then turned into a record by record.hpp.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/plan/input_files.hpp"
#include "workload/registration.hpp"

namespace isthmus::harness {

using namespace workload;

/// Reason why sampling ended.
enum class Stop { interval, samples, budget, emulated, interrupted, derived, single };

/// Returns the resolution, in seconds, of timer "event" or "clock"; 0 for "none".
double timer_tick(std::string_view timer);

struct Limit {
  double value = 0;
  std::string source;
};

/// Samples of one metric.
struct Series {
  std::string name;
  std::string unit = "s";
  std::optional<Better> better = Better::lower;
  std::string timer = "event";
  std::string direction;  ///< empty if there is none
  std::optional<double> bytes_needed, bytes_moved;
  std::vector<double> samples;
  std::vector<std::size_t> invalid;  ///< indices of invalid samples, ascending
  Stop stop = Stop::single;
  int warmups = 0;
  int batch = 1;
  double tick = 0;      ///< seconds per tick of its timer
  bool coarse = false;  ///< some sample is shorter than 100 ticks
  std::optional<Limit> limit;
  std::string limit_reason;

  static Series of(std::string_view name, std::string_view timer, std::string_view unit = "s");
  /// Returns the valid samples.
  std::vector<double> valid() const;
};

struct Warning {
  std::string code, message;
  std::vector<std::size_t> samples;
};

enum class Verdict { pass, fail, not_applicable, not_run };

struct Verification {
  Verdict verdict = Verdict::not_run;
  std::string method, detail;
  std::optional<double> error, tolerance;
  std::size_t checked = 0;
  std::string inputs;                              ///< equal for cases that must have equal results
  std::map<std::string, std::uint64_t> checksums;  ///< checksums of the buffers that must be equal in those cases
};

/// Table of data that are too long for a line of the record.
struct Table {
  std::string name;
  std::vector<std::string> columns;
  std::vector<std::vector<double>> values;  ///< one vector per column, all equally long; unknown if not finite
};

/// One kernel or one library call in the device part of a case.
struct WorkReport {
  device::KernelInfo info;
  std::optional<device::LaunchShape> shape;  ///< shape with the largest grid; nullopt for a library call
  std::size_t launches = 0;                  ///< number in one pass; 0 if not counted
  Traffic traffic;                           ///< total of all launches
  std::optional<double> seconds;             ///< seconds of one launch: the mean of `timed` launches
  std::size_t timed = 0;
};

/// Kind of submission of the timed passes of measure(): launch by launch on a stream, or as a graph.
enum class Submission { stream, graph };

/// Beginning of the error of a case that was interrupted before it had a result.
inline constexpr std::string_view kInterruptedBefore = "interrupted before ";

struct CaseResult {
  CaseSpec spec;
  std::vector<Series> metrics;
  std::vector<WorkReport> kernels;
  Traffic traffic;  ///< traffic of one pass of measure()
  std::optional<Submission> submission;
  std::optional<std::size_t> host_round_trips;  ///< number in one pass
  std::vector<Table> tables;
  Verification verification;
  std::vector<Warning> warnings;
  std::optional<std::string> fallback, skipped, error;
  std::map<std::string, std::string> notes;  ///< facts in words, keyed by name
  SkipKind skip_kind = SkipKind::unsupported;
  bool over_budget = false;                               ///< skipped because its budget is too small
  std::optional<InsufficientMemory> insufficient_memory;  ///< memory that a skipped case lacked, if known
  std::vector<std::string> observed_by;  ///< requested observers; if any, times are not compared with references
  bool interrupted = false;
  bool device_lost = false;
  bool ended_by_other_rank = false;
  std::optional<device::DeviceInfo> device;
  std::optional<device::Telemetry> before, after;
  /// Device that the case uses in addition to `device`.
  struct OtherDevice {
    device::DeviceInfo info;
    device::Telemetry before, after;
  };
  std::vector<OtherDevice> other_devices;
  std::optional<InputFileFacts> input_file;  ///< file that the case reads, if any
  int numa_node = -1;
  std::optional<std::size_t> chunks;  ///< chunks of placement `streamed`
  std::size_t peak_device_bytes = 0;
  double wall = 0;       ///< seconds from start to end of the case
  double accounted = 0;  ///< seconds of `wall` spent on inputs, warm-ups, samples and verification
  double process_wall = 0;
  std::optional<double> stolen_share;            ///< share of processor time that a hypervisor took
  std::set<std::string, std::less<>> consulted;  ///< settings that were read: axes, and options such as --seed

  bool failed() const { return error.has_value() || verification.verdict == Verdict::fail; }
  const Series* find(std::string_view metric) const noexcept;
  Series* find(std::string_view metric) noexcept;
  void warn(std::string code, std::string message, std::vector<std::size_t> samples = {});
  /// Adds a metric whose samples the caller fills in.
  Series& add(std::string_view metric, std::string_view timer, std::string_view unit = "s");
};

}  // namespace isthmus::harness
