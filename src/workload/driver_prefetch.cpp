#include "workload/driver_prefetch.hpp"

#include <fmt/format.h>

#include <limits>
#include <string>
#include <vector>

#include "device/api/device.hpp"
#include "memory/host_memory.hpp"
#include "trace/uvm/range_groups.hpp"
#include "trace/uvm/source.hpp"
#include "workload/clock.hpp"
#include "workload/skip.hpp"

namespace isthmus::workload {

namespace {

/// Maximum number of separate pieces; the driver keeps a range for each. With pages of 4 KiB they cover 2 GiB.
constexpr std::size_t kMostPieces = std::size_t{1} << 19;

struct Value {
  const char* name;
  std::size_t piece;
};
constexpr Value kValues[] = {{"default", 0}, {"off", 4096}, {"64KiB", 64 << 10}, {"2MiB", 2 << 20}};

std::size_t piece_of(std::string_view value) {
  for (const auto& [name, piece] : kValues) {
    if (value == name) return piece;
  }
  throw std::logic_error("driver_prefetch has no value " + std::string(value));
}

}  // namespace

Axis driver_prefetch_axis() {
  std::vector<AxisValue> values;
  for (const auto& value : kValues) values.emplace_back(value.name);
  return how(choice_axis(std::string(kDriverPrefetch),
                         "the driver's prefetcher: default, off, or limited to pieces of that size",
                         std::move(values)));
}

std::size_t most_driver_prefetch_bytes(std::string_view value) {
  const std::size_t piece = piece_of(value);
  return piece == 0 ? std::numeric_limits<std::size_t>::max() : kMostPieces * piece;
}

void require_driver_prefetch(std::string_view value, std::size_t bytes) {
  const std::size_t most = most_driver_prefetch_bytes(value);
  if (value == "off" && bytes > most)
    throw Skip(
        fmt::format("driver_prefetch=off supports at most {} of managed memory, but this case has {}: the driver keeps "
                    "a range for each page; choose a smaller size, or 64KiB",
                    memory::format_bytes(static_cast<double>(most)), memory::format_bytes(static_cast<double>(bytes))),
        SkipKind::not_applicable);
}

struct DriverPrefetch::Settings {
  std::shared_ptr<trace::uvm::System> driver;
  std::vector<std::unique_ptr<trace::uvm::RangeGroups>> groups;
};

DriverPrefetch::DriverPrefetch(std::string_view value) : piece_(piece_of(value)) {}

DriverPrefetch::~DriverPrefetch() {
  release();
}

void DriverPrefetch::set(const void* begin, std::size_t bytes) {
  if (piece_ == 0 || bytes == 0) return;
  const double since = now();
  if (!settings_) settings_ = std::make_unique<Settings>(Settings{trace::uvm::driver_of_device(), {}});
  if (!settings_->driver)
    throw device::Error(device::ErrorKind::failure, "driver_prefetch",
                        "only NVIDIA's driver has a prefetcher that this program can set",
                        "measure with driver_prefetch=default");
  try {
    settings_->groups.push_back(std::make_unique<trace::uvm::RangeGroups>(
        *settings_->driver, reinterpret_cast<std::uintptr_t>(begin), bytes, piece_, trace::uvm::is_forced()));
  } catch (const trace::uvm::Unavailable& reason) {
    throw device::Error(device::ErrorKind::failure, "driver_prefetch", reason.what(), "");
  }
  seconds_ += now() - since;
}

void DriverPrefetch::release() noexcept {
  settings_.reset();
  seconds_ = 0;
}

}  // namespace isthmus::workload
