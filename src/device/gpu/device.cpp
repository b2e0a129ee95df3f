// Device enumeration, capabilities, and initialisation of the runtime.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "device/gpu/check.hpp"
#include "device/gpu/device_limits.hpp"
#include "device/telemetry/link.hpp"
#include "device/telemetry/telemetry.hpp"

namespace isthmus::device {
namespace {

/// Dummy variable that sets an environment variable before main(), because the driver reads it only once, when it
/// initialises. A kernel that is loaded at its first launch can deadlock behind a spin latch, so a user's setting of
/// lazy loading is overridden.
[[maybe_unused]] const int loads_kernels_eagerly = setenv(gpu::eager_loading[0], gpu::eager_loading[1], 1);

bool exists(const char* path) {
  return access(path, F_OK) == 0;
}

/// Returns true if a character device exists that only a GPU driver creates; it would then be wrong to report no
/// devices.
bool driver_is_there() {
  return gpu::this_backend == Backend::cuda ? exists("/dev/nvidiactl") : exists("/dev/kfd");
}

int attribute(const char* api, gpu::Attribute which, int device) {
  int value = 0;
  ISTHMUS_CALL(api, DeviceGetAttribute, &value, which, device);
  return value;
}

/// Returns an attribute, or 0 if an old driver or a MIG instance does not support it.
int attribute_or_zero(gpu::Attribute which, int device) {
  int value = 0;
  if (ISTHMUS_GPU(DeviceGetAttribute)(&value, which, device) != ISTHMUS_GPU(Success)) {
    static_cast<void>(ISTHMUS_GPU(GetLastError)());
    return 0;
  }
  return value;
}

std::string hexadecimal(const unsigned char (&bytes)[16]) {
  std::string text;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    constexpr char digits[] = "0123456789abcdef";
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text;
}

std::string device_uuid(int device) {
  unsigned char bytes[16] = {};
  if (gpu::device_uuid(device, bytes) != ISTHMUS_GPU(Success)) {
    static_cast<void>(ISTHMUS_GPU(GetLastError)());
    return {};
  }
  if (gpu::this_backend == Backend::hip) {
    // The HIP runtime returns sixteen characters of text, amd-smi's unique ID, instead of a number of sixteen bytes.
    const bool printable = std::all_of(std::begin(bytes), std::end(bytes),
                                       [](unsigned char c) { return c == 0 || (c >= ' ' && c < 127); });
    if (printable) {
      std::string text = "GPU-";
      for (const unsigned char c : bytes) {
        if (c != 0) text += static_cast<char>(c);
      }
      return text;
    }
  }
  const std::string hex = hexadecimal(bytes);
  return (gpu::this_backend == Backend::cuda && nvml_is_mig(hex) ? "MIG-" : "GPU-") + hex;
}

std::string pci_bus(int device) {
  char text[32] = {};
  if (ISTHMUS_GPU(DeviceGetPCIBusId)(text, sizeof text, device) != ISTHMUS_GPU(Success)) {
    static_cast<void>(ISTHMUS_GPU(GetLastError)());
    return {};
  }
  std::string bus = text;
  std::transform(bus.begin(), bus.end(), bus.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return bus;
}

std::string first_line(const char* path) {
  std::string line;
  if (std::FILE* file = std::fopen(path, "r")) {
    for (int c = std::fgetc(file); c != EOF && c != '\n'; c = std::fgetc(file)) line += static_cast<char>(c);
    std::fclose(file);
  }
  return line;
}

std::string driver_version() {
  if (gpu::this_backend == Backend::cuda) {
    if (auto version = nvml_driver_version()) return *version;
    if (std::string version = first_line("/sys/module/nvidia/version"); !version.empty()) return version;
  } else {
    // AMD's packaged driver has its own version; the in-tree driver has the version of the kernel.
    if (std::string version = first_line("/sys/module/amdgpu/version"); !version.empty()) return version;
    if (std::string release = first_line("/proc/sys/kernel/osrelease"); !release.empty()) return "kernel " + release;
  }
  const char* unit = "";
  const int version = gpu::driver_api_version(unit);
  return version == 0 ? std::string() : unit + gpu::version_text(version);
}

std::string runtime_version() {
  int version = 0;
  if (ISTHMUS_GPU(RuntimeGetVersion)(&version) != ISTHMUS_GPU(Success)) return {};
  return gpu::version_text(version);
}

}  // namespace

Backend backend() noexcept {
  return gpu::this_backend;
}

int count() {
  injection_point("count");
  int devices = 0;
  const auto status = ISTHMUS_GPU(GetDeviceCount)(&devices);
  if (status == ISTHMUS_GPU(Success)) return devices;
  static_cast<void>(ISTHMUS_GPU(GetLastError)());  // clear the error, so that later calls do not report it
  if (status == ISTHMUS_GPU(ErrorNoDevice)) return 0;
  // A runtime without a driver reports an insufficient driver with version 0.
  const char* unit = "";
  if (status == ISTHMUS_GPU(ErrorInsufficientDriver) && gpu::driver_api_version(unit) == 0 && !driver_is_there()) {
    return 0;
  }
  gpu::fail("count", ISTHMUS_GPU_NAME(GetDeviceCount), status);
}

DeviceInfo info(int index) {
  injection_point("info");
  const int devices = count();
  if (index < 0 || index >= devices) {
    throw Error(ErrorKind::failure, "info",
                "there is no device " + std::to_string(index) + " (" + std::to_string(devices) + " visible)",
                "see `isthmus-bench info`");
  }
  gpu::DeviceProperties properties{};
  ISTHMUS_CALL("info", GetDeviceProperties, &properties, index);
  namespace attributes = gpu::attribute;
  const auto number = [&](gpu::Attribute which) { return attribute("info", which, index); };
  const auto size = [&](gpu::Attribute which) { return static_cast<std::size_t>(std::max(0, number(which))); };
  const auto flag = [&](gpu::Attribute which) { return attribute_or_zero(which, index) != 0; };

  DeviceInfo info;
  info.index = index;
  info.name = properties.name;
  info.uuid = device_uuid(index);
  info.arch = gpu::architecture(properties);
  info.pci_bus = pci_bus(index);
  info.driver = driver_version();
  info.runtime = runtime_version();
  info.warp_size = number(attributes::warp_size);
  info.multiprocessors = number(attributes::multiprocessors);
  info.max_threads_per_block = number(attributes::max_threads_per_block);
  info.max_threads_per_multiprocessor = number(attributes::max_threads_per_multiprocessor);
  info.shared_per_block = std::max(size(attributes::shared_per_block), size(attributes::shared_per_block_optin));
  info.shared_per_multiprocessor = std::max<std::size_t>(
      info.shared_per_block,
      static_cast<std::size_t>(std::max(0, attribute_or_zero(attributes::shared_per_multiprocessor, index))));
  info.l2_bytes = size(attributes::l2_bytes);
  info.memory_bytes = properties.totalGlobalMem;
  if (const double hertz = 1e3 * attribute_or_zero(attributes::clock_khz, index); hertz > 0) {
    info.clock_hz = hertz;
    if (const auto lanes = gpu::fp32_lanes(properties)) info.fp32_rate = 2.0 * *lanes * info.multiprocessors * hertz;
  }
  const double memory_clock = 1e3 * attribute_or_zero(attributes::memory_clock_khz, index);
  const double bus_bytes = attribute_or_zero(attributes::memory_bus_bits, index) / 8.0;
  if (memory_clock > 0 && bus_bytes > 0) {
    info.memory_bandwidth = gpu::memory_transfers_per_clock(properties) * memory_clock * bus_bytes;
  }
  info.numa_node = numa_node_sysfs(info.pci_bus);
  info.integrated = flag(attributes::integrated);
  info.managed = flag(attributes::managed);
  info.concurrent_managed = flag(attributes::concurrent_managed);
  info.pageable_access = flag(attributes::pageable_access);
  info.host_native_atomics = flag(attributes::host_native_atomics);
  info.memory_pools = flag(attributes::memory_pools);
  info.virtual_memory = gpu::has_virtual_memory(index);
  info.can_map_host = flag(attributes::can_map_host);
  info.cooperative = flag(attributes::cooperative);
  info.copy_engines = attribute_or_zero(attributes::copy_engines, index);

  // Capabilities of kernels depend on the chip and on how the kernels were compiled, which the probe kernel shows.
  int before = 0;
  ISTHMUS_CALL("info", GetDevice, &before);
  ISTHMUS_CALL("info", SetDevice, index);
  const int capability = gpu::compiled_capability(gpu::probe_attributes());
  info.async_shared_copy = gpu::compiled_async_copy(capability);
  info.bulk_shared_copy = gpu::compiled_bulk_copy(capability);
  ISTHMUS_CALL("info", SetDevice, before);
  return info;
}

void select(int index) {
  injection_point("select");
  ISTHMUS_CALL("select", SetDevice, index);
}

int selected() {
  int device = 0;
  ISTHMUS_CALL("selected", GetDevice, &device);
  return device;
}

PeerInfo peer_info(int device, int peer) {
  injection_point("peer_info");
  if (device == peer) return {.access = true, .native_atomics = true};
  int access = 0, atomics = 0;
  ISTHMUS_CALL("peer_info", DeviceCanAccessPeer, &access, device, peer);
  if (access != 0) {
    ISTHMUS_CALL("peer_info", DeviceGetP2PAttribute, &atomics, gpu::attribute::peer_native_atomics, device, peer);
  }
  return {.access = access != 0, .native_atomics = atomics != 0};
}

namespace {

/// Checks the status of a change of the selected device's peer access. The status `already`, which means that access
/// was already as requested, is not an error.
void change_peer_access(const char* api, const char* vendor_call, gpu::Status status, gpu::Status already) {
  if (status == already) {
    static_cast<void>(ISTHMUS_GPU(GetLastError)());
    return;
  }
  gpu::check(api, vendor_call, status);
}

}  // namespace

void enable_peer_access(int peer) {
  injection_point("enable_peer_access");
  if (peer == selected()) return;
  change_peer_access("enable_peer_access", ISTHMUS_GPU_NAME(DeviceEnablePeerAccess),
                     ISTHMUS_GPU(DeviceEnablePeerAccess)(peer, 0), ISTHMUS_GPU(ErrorPeerAccessAlreadyEnabled));
}

void disable_peer_access(int peer) {
  injection_point("disable_peer_access");
  if (peer == selected()) return;
  change_peer_access("disable_peer_access", ISTHMUS_GPU_NAME(DeviceDisablePeerAccess),
                     ISTHMUS_GPU(DeviceDisablePeerAccess)(peer), ISTHMUS_GPU(ErrorPeerAccessNotEnabled));
}

void set_work_deadline(double) noexcept {}

void load_kernels() {
  injection_point("load_kernels");
  // With eager loading, creating the context loads every kernel of the binary; this call creates the context.
  ISTHMUS_CALL("load_kernels", Free, nullptr);
  ISTHMUS_CALL("load_kernels", DeviceSynchronize);
}

Occupancy occupancy(int index) noexcept {
  try {
    if (gpu::this_backend == Backend::cuda) return occupancy_nvml(device_uuid(index), pci_bus(index));
  } catch (...) {  // the users are unknown
  }
  return {};
}

Telemetry telemetry(int index) noexcept {
  try {
    if (gpu::this_backend == Backend::cuda) return telemetry_nvml(device_uuid(index), pci_bus(index));
    return telemetry_sysfs(pci_bus(index));
  } catch (...) {
    return {};
  }
}

void refresh(Telemetry& telemetry, int index) noexcept {
  try {
    if (gpu::this_backend == Backend::cuda) {
      refresh_nvml(telemetry, device_uuid(index), pci_bus(index));
    } else if (auto now = telemetry_sysfs(pci_bus(index)); !now.source.empty()) {
      telemetry = std::move(now);
    }
  } catch (...) {  // keep the previous values
  }
}

std::optional<std::size_t> driver_memory_used(int index) noexcept {
  try {
    if (gpu::this_backend == Backend::cuda) return memory_used_nvml(device_uuid(index), pci_bus(index));
    return memory_used_sysfs(pci_bus(index));
  } catch (...) {
    return std::nullopt;
  }
}

std::optional<Link> link(int device, int peer, std::string* reason) noexcept {
  try {
    std::string why = "it could not be queried";
    std::optional<Link> found;
    if (device == peer) {
      why = "a device has no link to itself";
    } else if (gpu::this_backend == Backend::cuda) {
      const auto end = [](int index) { return LinkEnd{device_uuid(index), pci_bus(index)}; };
      found = link_nvml(end(device), peer < 0 ? std::nullopt : std::optional(end(peer)), why);
    } else {
      found = link_sysfs(pci_bus(device), peer < 0 ? std::nullopt : std::optional(pci_bus(peer)), why);
    }
    if (!found && reason != nullptr) *reason = why;
    return found;
  } catch (...) {
    return std::nullopt;
  }
}

namespace gpu {

const Limits& limits(int device) {
  static std::mutex mutex;
  static std::deque<std::optional<Limits>> known;  // a deque, because references remain valid while it grows
  const std::lock_guard lock(mutex);
  while (known.size() <= static_cast<std::size_t>(device)) known.emplace_back();
  auto& limits = known[static_cast<std::size_t>(device)];
  if (!limits) {
    const auto number = [&](Attribute which) { return isthmus::device::attribute("launch", which, device); };
    const auto extent = [&](Attribute x, Attribute y, Attribute z) {
      return Extent(static_cast<unsigned>(number(x)), static_cast<unsigned>(number(y)),
                    static_cast<unsigned>(number(z)));
    };
    Limits found;
    found.grid = extent(attribute::grid_x, attribute::grid_y, attribute::grid_z);
    found.block = extent(attribute::block_x, attribute::block_y, attribute::block_z);
    found.threads_per_block = number(attribute::max_threads_per_block);
    found.threads_per_multiprocessor = number(attribute::max_threads_per_multiprocessor);
    found.multiprocessors = number(attribute::multiprocessors);
    found.shared_per_block = static_cast<std::size_t>(
        std::max(number(attribute::shared_per_block), number(attribute::shared_per_block_optin)));
    found.cooperative = number(attribute::cooperative) != 0;
    limits = found;
  }
  return *limits;
}

}  // namespace gpu

}  // namespace isthmus::device
