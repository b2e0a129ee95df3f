#include "memory/way.hpp"

#include <array>
#include <stdexcept>

namespace isthmus::memory {

namespace {

constexpr std::array kWays{Way::device,     Way::pool,           Way::managed, Way::mapped,
                           Way::registered, Way::write_combined, Way::system};

HostKind host_kind(Way way) {
  switch (way) {
    case Way::mapped:
      return HostKind::mapped;
    case Way::registered:
      return HostKind::registered;
    case Way::write_combined:
      return HostKind::write_combined;
    default:
      return HostKind::pageable;
  }
}

bool is_host_block(Way way) {
  return stays_on_host(way) || way == Way::system;
}

}  // namespace

std::string_view name(Way way) noexcept {
  switch (way) {
    case Way::device:
      return "device";
    case Way::pool:
      return "pool";
    case Way::managed:
      return "managed";
    case Way::mapped:
      return "mapped";
    case Way::registered:
      return "registered";
    case Way::write_combined:
      return "write_combined";
    case Way::system:
      return "system";
  }
  return "";
}

std::span<const Way> all_ways() noexcept {
  return kWays;
}

Way way(std::string_view wanted) {
  for (const Way each : kWays) {
    if (name(each) == wanted) return each;
  }
  throw std::invalid_argument("there is no way to allocate that is called " + std::string(wanted));
}

std::optional<std::string> lack(Way way, const device::DeviceInfo& device) {
  const std::string who = device.name + " (" + device.arch + ")";
  if (way == Way::pool && !device.memory_pools) return who + " has no stream-ordered allocation";
  if (way == Way::managed && !device.managed) return who + " has no managed memory";
  if (stays_on_host(way) && !device.can_map_host) return who + " cannot reach mapped host memory";
  if (way == Way::system && !device.pageable_access)
    return who + " cannot read plain malloc memory (no HMM, ATS or XNACK)";
  return std::nullopt;
}

bool stays_on_host(Way way) noexcept {
  return way == Way::mapped || way == Way::registered || way == Way::write_combined;
}

bool host_reaches(Way way, const device::DeviceInfo& device) noexcept {
  return (way != Way::device && way != Way::pool) || (way == Way::device && device.integrated);
}

bool shared_at_once(Way way, const device::DeviceInfo& device) noexcept {
  return host_reaches(way, device) && (way != Way::managed || device.concurrent_managed);
}

WayBlock::WayBlock(Way way, std::size_t bytes, HostBlockOptions options)
    : way_(way), bytes_(bytes), device_(device::selected()) {
  if (is_host_block(way)) {
    host_.emplace(host_kind(way), bytes, options);
    data_ = host_->data();
    return;
  }
  if (way == Way::pool) {
    stream_.emplace();
    data_ = static_cast<std::byte*>(device::malloc_pooled(bytes, *stream_));
    stream_->synchronize();
    return;
  }
  data_ = static_cast<std::byte*>(way == Way::managed ? device::malloc_managed(bytes) : device::malloc_device(bytes));
}

WayBlock::~WayBlock() {
  if (host_) return;
  try {
    const device::Selected on(device_);
    if (stream_) {
      device::free_pooled(data_, *stream_);
      stream_->synchronize();
    } else if (way_ == Way::managed) {
      device::free_managed(data_);
    } else {
      device::free_device(data_);
    }
  } catch (const device::Error&) {  // the failure that led here has been reported; a second one adds nothing
  }
}

std::byte* WayBlock::device_data() const {
  return host_ ? host_->device_data() : data_;
}

std::vector<std::string> WayBlock::disagreements(std::string_view what) const {
  if (host_) return host_->disagreements(what);
  const auto given = device::pointer_info(data_);
  const auto asked = way_ == Way::managed ? device::PointerKind::managed : device::PointerKind::device;
  if (given.kind == asked && (way_ == Way::managed || given.device == device_)) return {};
  return {std::string(what) + " is " + std::string(device::name(given.kind)) + " memory of device " +
          std::to_string(given.device) + " to the driver where " + std::string(device::name(asked)) +
          " memory of device " + std::to_string(device_) + " was asked for"};
}

}  // namespace isthmus::memory
