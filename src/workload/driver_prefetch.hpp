#pragma once

// The driver's own prefetcher of managed memory as an axis: at its default, limited to pieces, or off. The setting
// applies only to this process and this memory (docs/uvm.md); explicit prefetches are not affected.

#include <cstddef>
#include <memory>
#include <string_view>

#include "workload/axis.hpp"

namespace isthmus::workload {

inline constexpr std::string_view kDriverPrefetch = "driver_prefetch";  ///< name of the axis
inline constexpr const char* kDriverPrefetchSetup = "driver_prefetch_setup";
inline constexpr std::string_view kDriverPrefetchDefault = "default";

/// Returns the axis `driver_prefetch`: default, off, 64KiB, 2MiB.
Axis driver_prefetch_axis();

/// Returns the maximum number of managed bytes for which the value works; the driver can manage half a million separate
/// pieces.
std::size_t most_driver_prefetch_bytes(std::string_view value);

/// Throws Skip if the driver's prefetcher cannot be set to `value` for `bytes` bytes: `off` needs a range for each
/// page.
void require_driver_prefetch(std::string_view value, std::size_t bytes);

/// Scope in which the driver's prefetcher of managed memory is limited according to the axis's value. Does nothing for
/// `default`.
class DriverPrefetch {
 public:
  explicit DriverPrefetch(std::string_view value);
  ~DriverPrefetch();
  DriverPrefetch(const DriverPrefetch&) = delete;
  DriverPrefetch& operator=(const DriverPrefetch&) = delete;

  /// Limits the prefetcher in this memory. Throws device::Error with a sentence if the driver refuses.
  void set(const void* begin, std::size_t bytes);
  /// Restores the driver's settings for all the memory. Call it before freeing any of the memory.
  void release() noexcept;
  /// Returns the seconds that set() has needed since the last release().
  double seconds() const noexcept { return seconds_; }

 private:
  struct Settings;
  std::size_t piece_;  ///< 0: the driver's default
  double seconds_ = 0;
  std::unique_ptr<Settings> settings_;
};

}  // namespace isthmus::workload
