#pragma once

// `--oversubscribe RATIO`: workloads whose managed memory is more than the device has free. A driver that has to evict
// can hang the GPU, and with it everybody's work, so this is refused unless all that can be known beforehand is well.

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/api/device.hpp"
#include "harness/plan/request.hpp"
#include "harness/ranks/watchdog.hpp"
#include "trace/uvm/trace_file.hpp"

namespace isthmus::harness {

/// What was asked for.
struct Oversubscription {
  std::optional<double> ratio;       ///< of the footprint to the memory that is free
  bool allowed = false;              ///< the operator says that nobody else uses this host
  std::optional<double> hang_after;  ///< seconds; else hang_limit()
};

/// Above 1 and at most 4. Throws InputError.
double parse_ratio(const std::string& text);

/// Throws InputError for what must not run, whatever the device is. Before any device is touched.
void check_oversubscription(const Oversubscription& asked, const Request& request, const std::vector<CaseSpec>& cases,
                            int processes, int ranks);

/// What is known of a device before a case of this process uses it.
struct DeviceState {
  device::Backend backend = device::Backend::cuda;
  std::string driver;
  device::Occupancy occupancy;
};
/// Why this device may not be oversubscribed; empty where it may. An emulated device has no driver to refuse.
std::string refused_on(const DeviceState& state);

/// A driver branch under which nothing is oversubscribed.
struct RefusedDriver {
  int branch;
  const char* reason;
};
std::span<const RefusedDriver> refused_drivers();

/// Whole blocks of 2 MiB, at least `ratio` times what is free.
std::size_t oversubscribed_bytes(double ratio, std::size_t free);
/// Seconds without progress that a run may have: the host writes all of it between two signs of life.
double hang_limit(std::size_t footprint);
/// Gives each case its footprint. Throws InputError where the host has no room for it, or where a case's setting of the
/// driver's prefetcher is not for so much. `available`: host memory; nullopt where unknown.
void set_footprints(std::vector<CaseSpec>& cases, double ratio, std::size_t free, std::optional<std::size_t> available);

/// The driver's events of the case that runs, in their file as they come, so that they are there however the process
/// ends. Told what comes, it shows the watchdog progress.
class EventFile {
 public:
  explicit EventFile(Watchdog& watchdog) : watchdog_(watchdog) {}
  void begin(const std::string& path, const std::string& label);
  /// The case has ended; its events stay where it failed, else its record has what they say.
  void end(bool failed);
  void keep(std::span<const trace::uvm::Entry> entries, std::uint64_t dropped) noexcept;
  /// Why the file has not all of them; empty where it has.
  std::string problem() const;

 private:
  Watchdog& watchdog_;
  mutable std::mutex mutex_;
  std::string path_, problem_;
  std::optional<trace::uvm::TraceWriter> file_;
};

}  // namespace isthmus::harness
