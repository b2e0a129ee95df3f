#pragma once

// `--oversubscribe RATIO`: workloads whose managed memory is larger than the device's free memory. A driver that has to
// evict pages can hang the GPU, and with it the work of all its users, so a run is refused unless it passes all checks
// that can be made beforehand.

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

/// Oversubscription that the user requested.
struct Oversubscription {
  std::optional<double> ratio;       ///< footprint divided by free memory
  bool allowed = false;              ///< the operator confirms that nobody else uses this host
  std::optional<double> hang_after;  ///< seconds without progress until the run is ended; nullopt for hang_limit()
};

/// Parses a ratio above 1 and at most 4. Throws InputError.
double parse_ratio(const std::string& text);

/// Throws InputError for a request that must not run on any device. Called before any device is touched.
void check_oversubscription(const Oversubscription& asked, const Request& request, const std::vector<CaseSpec>& cases,
                            int processes, int ranks);

/// State of a device before a case of this process uses it.
struct DeviceState {
  device::Backend backend = device::Backend::cuda;
  std::string driver;
  device::Occupancy occupancy;
};
/// Returns why this device must not be oversubscribed; empty if it may be. The driver of an emulated device is not
/// checked.
std::string refused_on(const DeviceState& state);

/// Driver branch with which oversubscription is refused.
struct RefusedDriver {
  int branch;
  const char* reason;
};
std::span<const RefusedDriver> refused_drivers();

/// Returns `ratio` times `free`, rounded up to whole blocks of 2 MiB.
std::size_t oversubscribed_bytes(double ratio, std::size_t free);
/// Returns the seconds without progress after which a run is ended. They grow with the footprint, because the host
/// writes all of it between two reports of progress.
double hang_limit(std::size_t footprint);
/// Sets the footprint of each case. Throws InputError if the host has no room for it, or if a case's setting of the
/// driver's prefetcher does not support so many bytes. `available`: bytes of host memory; nullopt if unknown.
void set_footprints(std::vector<CaseSpec>& cases, double ratio, std::size_t free, std::optional<std::size_t> available);

/// File that receives the driver's events of the running case. Events are written as they arrive, so that the file
/// contains them however the process ends. Each arrival is reported to the watchdog as progress.
class EventFile {
 public:
  explicit EventFile(Watchdog& watchdog) : watchdog_(watchdog) {}
  void begin(const std::string& path, const std::string& label);
  /// Ends the file of the case. If the case `failed`, the file stays; otherwise it is removed, because the record has
  /// the events' figures.
  void end(bool failed);
  void keep(std::span<const trace::uvm::Entry> entries, std::uint64_t dropped) noexcept;
  /// Returns why the file lacks some of the events; empty if it has all.
  std::string problem() const;

 private:
  Watchdog& watchdog_;
  mutable std::mutex mutex_;
  std::string path_, problem_;
  std::optional<trace::uvm::TraceWriter> file_;
};

}  // namespace isthmus::harness
