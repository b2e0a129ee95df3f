#pragma once

// What one case yields: filled while it is measured, turned into a record by record.hpp.

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/plan.hpp"
#include "harness/workload.hpp"

namespace isthmus::harness {

/// Why sampling ended.
enum class Stop { interval, samples, budget, emulated, interrupted, derived, single };
std::string_view name(Stop) noexcept;

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
};

struct KernelReport {
  device::KernelInfo info;
  std::optional<device::LaunchShape> shape;
};

struct CaseResult {
  CaseSpec spec;
  std::vector<Series> metrics;
  std::vector<KernelReport> kernels;
  Traffic traffic;
  Verification verification;
  std::vector<Warning> warnings;
  std::optional<std::string> fallback, skipped, error;
  std::map<std::string, std::string> notes;  ///< facts in words
  SkipKind skip_kind = SkipKind::unsupported;
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
  int numa_node = -1;
  std::optional<std::size_t> chunks;  ///< of `streamed`
  std::size_t peak_device_bytes = 0;
  double wall = 0;       ///< seconds from start to end of the case
  double accounted = 0;  ///< of wall: inputs, warm-ups, samples, verifying
  double process_wall = 0;

  bool failed() const { return error.has_value() || verification.verdict == Verdict::fail; }
  const Series* find(std::string_view metric) const noexcept;
  Series* find(std::string_view metric) noexcept;
  void warn(std::string code, std::string message, std::vector<std::size_t> samples = {});
};

}  // namespace isthmus::harness
