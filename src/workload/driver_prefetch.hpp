#pragma once

// The driver's own prefetcher of managed memory as an axis: as it is, held to pieces, or off, for this process and this
// memory only (docs/uvm.md). Explicit prefetches are something else and stay as they are.

#include <cstddef>
#include <memory>
#include <string_view>

#include "workload/axis.hpp"

namespace isthmus::workload {

inline constexpr std::string_view kDriverPrefetch = "driver_prefetch";  ///< the axis
inline constexpr const char* kDriverPrefetchSetup = "driver_prefetch_setup";
inline constexpr std::string_view kDriverPrefetchDefault = "default";

/// `driver_prefetch`: default, off, 64KiB, 2MiB.
Axis driver_prefetch_axis();

/// How many managed bytes the value is for: the driver keeps half a million pieces of their own.
std::size_t most_driver_prefetch_bytes(std::string_view value);

/// Throws Skip where the driver's prefetcher cannot be set so for so many bytes: off has a group for each page.
void need_driver_prefetch(std::string_view value, std::size_t bytes);

/// Holds the driver's prefetcher to what the axis's value says, in memory that is managed, until its end. Of `default`
/// it is nothing.
class DriverPrefetch {
 public:
  explicit DriverPrefetch(std::string_view value);
  ~DriverPrefetch();
  DriverPrefetch(const DriverPrefetch&) = delete;
  DriverPrefetch& operator=(const DriverPrefetch&) = delete;

  /// Throws device::Error in a sentence where the driver does not take it.
  void set(const void* begin, std::size_t bytes);
  /// All memory is as it was. Before any of it is freed.
  void release() noexcept;
  /// What set() has taken since the last release().
  double seconds() const noexcept { return seconds_; }

 private:
  struct Settings;
  std::size_t piece_;  ///< 0: as the driver has it
  double seconds_ = 0;
  std::unique_ptr<Settings> settings_;
};

}  // namespace isthmus::workload
