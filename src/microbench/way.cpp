#include "microbench/way.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "memory/numa_nodes.hpp"
#include "memory/pages.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench {

namespace {

struct WayFacts {
  Way way;
  std::string_view name;
  std::optional<memory::HostKind> host;
  bool on_device;
};
constexpr std::array<WayFacts, 9> kWays{{
    {Way::device, "device", std::nullopt, true},
    {Way::pool, "pool", std::nullopt, true},
    {Way::managed, "managed", std::nullopt, false},
    {Way::static_managed, "static", std::nullopt, false},
    {Way::mapped, "mapped", memory::HostKind::mapped, false},
    {Way::pinned, "pinned", memory::HostKind::pinned, false},
    {Way::registered, "registered", memory::HostKind::registered, false},
    {Way::write_combined, "wc", memory::HostKind::write_combined, false},
    {Way::malloced, "malloc", memory::HostKind::pageable, false},
}};

constexpr auto kEach = [] {
  std::array<Way, kWays.size()> each{};
  for (std::size_t i = 0; i < kWays.size(); ++i) each[i] = kWays[i].way;
  return each;
}();

const WayFacts& facts(Way way) {
  return *std::find_if(kWays.begin(), kWays.end(), [&](const auto& row) { return row.way == way; });
}

}  // namespace

std::span<const Way> all_ways() noexcept {
  return kEach;
}

std::string_view name(Way way) noexcept {
  return facts(way).name;
}

Way way(std::string_view wanted) {
  for (const Way each : kEach) {
    if (name(each) == wanted) return each;
  }
  throw std::invalid_argument("there is no way to allocate that is called " + std::string(wanted));
}

bool is_managed(Way way) noexcept {
  return way == Way::managed || way == Way::static_managed;
}

bool on_device(Way way) noexcept {
  return facts(way).on_device;
}

bool page_locked(Way way) noexcept {
  const auto& host = facts(way).host;
  return host && *host != memory::HostKind::pageable;
}

namespace {

std::optional<std::string_view> lack(Way way, Reader reader, const device::DeviceInfo& info) {
  if (is_managed(way) && !info.managed) return "has no managed memory";
  if (way == Way::pool && !info.memory_pools) return "has no stream-ordered allocation";
  if ((way == Way::mapped || way == Way::write_combined) && !info.can_map_host) return "cannot map host memory";
  if (reader == Reader::cpu)
    return on_device(way) && !info.integrated
               ? std::optional<std::string_view>("does not share its memory with the CPU")
               : std::nullopt;
  if (way == Way::malloced && !info.pageable_access) return "cannot read plain malloc memory (no HMM, ATS or XNACK)";
  if (page_locked(way) && !info.can_map_host) return "cannot map host memory";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> obstacle(Way way, Reader reader, const device::DeviceInfo& info) {
  const auto why = lack(way, reader, info);
  return why ? std::optional(info.name + " (" + info.arch + ") " + std::string(*why)) : std::nullopt;
}

void need_way(Way way, Reader reader, const device::DeviceInfo& info) {
  if (const auto why = obstacle(way, reader, info)) throw workload::Skip(*why);
}

bool shared_at_once(Way way, const device::DeviceInfo& info) {
  return !obstacle(way, Reader::cpu, info) && !obstacle(way, Reader::gpu, info) &&
         (!is_managed(way) || info.concurrent_managed);
}

WayBlock::WayBlock(Way way, std::size_t bytes, memory::HostBlockOptions options)
    : way_(way), bytes_(bytes), device_(-1), numa_node_(options.numa_node) {
  if (const auto host = facts(way).host) {
    host_.emplace(*host, bytes, options);
    data_ = host_->data();
    return;
  }
  device_ = device::selected();
  void* given = nullptr;
  switch (way) {
    case Way::managed:
      given = device::malloc_managed(bytes);
      break;
    case Way::static_managed:
      given = device::malloc_static_managed(bytes);
      break;
    case Way::pool:
      stream_.emplace();
      given = device::malloc_pooled(bytes, *stream_);
      stream_->synchronize();
      break;
    default:
      given = device::malloc_device(bytes);
  }
  data_ = static_cast<std::byte*>(given);
}

WayBlock::~WayBlock() {
  if (host_) return;
  try {
    const device::Selected on(device_);
    if (way_ == Way::managed) {
      device::free_managed(data_);
    } else if (way_ == Way::static_managed) {
      device::free_static_managed(data_);
    } else if (way_ == Way::device) {
      device::free_device(data_);
    } else {
      device::free_pooled(data_, *stream_);
      stream_->synchronize();
    }
  } catch (const device::Error&) {  // the failure that led here has been reported; a second one adds nothing
  }
}

std::byte* WayBlock::device_data() const {
  if (!host_ || host_->kind() != memory::HostKind::pinned) return host_ ? host_->device_data() : data_;
  // Not asked to be mapped: whether kernels reach it is the runtime's choice.
  if (!device::pointer_info(data_).mapped)
    throw workload::Skip("the driver gives page-locked memory no address for kernels unless it is asked to map it");
  return host_->device_data();
}

void WayBlock::touch() {
  if (on_device(way_)) throw std::logic_error("the CPU does not touch device memory");
  if (host_) return host_->touch();
  const memory::ScopedMemoryNode on_node(numa_node_);
  memory::touch_pages(data_, bytes_);
}

std::vector<std::string> WayBlock::disagreements(std::string_view what) const {
  if (host_) return host_->disagreements(what);
  const auto given = device::pointer_info(data_);
  const auto asked = is_managed(way_) ? device::PointerKind::managed : device::PointerKind::device;
  if (given.kind == asked && (asked == device::PointerKind::managed || given.device == device_)) return {};
  return {std::string(what) + " is " + std::string(device::name(given.kind)) + " memory of device " +
          std::to_string(given.device) + " to the driver where " + std::string(device::name(asked)) +
          " memory of device " + std::to_string(device_) + " was asked for"};
}

}  // namespace isthmus::microbench
