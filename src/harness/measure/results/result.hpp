#pragma once

// What one case yields: filled while it is measured, turned into a record by record.hpp.

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

/// Why sampling ended.
enum class Stop { interval, samples, budget, emulated, interrupted, derived, single };

/// Seconds between two values that "event" or "clock" can tell apart; 0 for "none".
double timer_tick(std::string_view timer);

struct Limit {
  double value = 0;
  std::string source;
};

/// The samples of one metric.
struct Series {
  std::string name;
  std::string unit = "s";
  std::optional<Better> better = Better::lower;
  std::string timer = "event";
  std::string direction;  ///< empty: none
  std::optional<double> bytes_needed, bytes_moved;
  std::vector<double> samples;
  std::vector<std::size_t> invalid;  ///< indices, ascending
  Stop stop = Stop::single;
  int warmups = 0;
  int batch = 1;
  double tick = 0;      ///< seconds per tick of the timer behind it
  bool coarse = false;  ///< a sample is shorter than 100 ticks
  std::optional<Limit> limit;
  std::string limit_reason;

  static Series of(std::string_view name, std::string_view timer, std::string_view unit = "s");
  /// Samples that count.
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
  std::string inputs;                              ///< equal for cases that must have the same results
  std::map<std::string, std::uint64_t> checksums;  ///< of buffers that are the same in all of them
};

/// What is too long for a line of the record.
struct Table {
  std::string name;
  std::vector<std::string> columns;
  std::vector<std::vector<double>> values;  ///< one vector a column, all of one length; what is not finite is unknown
};

/// One kernel, or one call of a library, of the device's part of a case.
struct WorkReport {
  device::KernelInfo info;
  std::optional<device::LaunchShape> shape;  ///< of the largest grid; nullopt: a library's work
  std::size_t launches = 0;                  ///< in one pass; 0: not counted
  Traffic traffic;                           ///< of all of them
  std::optional<double> seconds;             ///< of one launch: the mean of `timed` launches
  std::size_t timed = 0;
};

/// How the timed passes of measure() were submitted.
enum class Submission { stream, graph };

struct CaseResult {
  CaseSpec spec;
  std::vector<Series> metrics;
  std::vector<WorkReport> kernels;
  Traffic traffic;  ///< of one pass of measure()
  std::optional<Submission> submission;
  std::optional<std::size_t> host_turns;  ///< in one pass
  std::vector<Table> tables;
  Verification verification;
  std::vector<Warning> warnings;
  std::optional<std::string> fallback, skipped, error;
  std::map<std::string, std::string> notes;  ///< facts in words
  SkipKind skip_kind = SkipKind::unsupported;
  bool over_budget = false;              ///< skipped since it does not fit into the seconds that a case may take
  std::optional<Shortage> shortage;      ///< of a case skipped for memory, where it is known
  std::vector<std::string> observed_by;  ///< asked observers: its times are held to no reference
  bool interrupted = false;
  bool device_lost = false;
  bool ended_by_other_rank = false;
  std::optional<device::DeviceInfo> device;
  std::optional<device::Telemetry> before, after;
  /// Where a case uses several.
  struct OtherDevice {
    device::DeviceInfo info;
    device::Telemetry before, after;
  };
  std::vector<OtherDevice> other_devices;
  std::optional<InputFileFacts> input_file;  ///< of a case that reads one
  int numa_node = -1;
  std::optional<std::size_t> chunks;  ///< of `streamed`
  std::size_t peak_device_bytes = 0;
  double wall = 0;       ///< seconds from start to end of the case
  double accounted = 0;  ///< of wall: inputs, warm-ups, samples, verifying
  double process_wall = 0;
  std::optional<double> stolen_share;            ///< of the processors' time in this case
  std::set<std::string, std::less<>> consulted;  ///< settings that the case has read: its axes, and options as --seed

  bool failed() const { return error.has_value() || verification.verdict == Verdict::fail; }
  const Series* find(std::string_view metric) const noexcept;
  Series* find(std::string_view metric) noexcept;
  void warn(std::string code, std::string message, std::vector<std::size_t> samples = {});
  /// Declares a metric whose samples the caller fills in.
  Series& add(std::string_view metric, std::string_view timer, std::string_view unit = "s");
};

}  // namespace isthmus::harness
