// Telemetry from NVML.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "device/telemetry/nvml.hpp"
#include "device/telemetry/telemetry.hpp"

namespace isthmus::device {
namespace {

using nvml::Asker;

/// nvmlProcessInfo_t, for calls whose names end in _v2 or _v3.
struct ProcessInfo {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(ProcessInfo) == 24);

/// Returns the active throttle reasons; nullopt if NVML does not report them.
std::optional<std::vector<std::string>> throttle_reasons(const Asker& ask) {
  unsigned long long bits = 0;
  if (!ask.nvml().call("nvmlDeviceGetCurrentClocksEventReasons", ask.device(), &bits) &&
      !ask.nvml().call("nvmlDeviceGetCurrentClocksThrottleReasons", ask.device(), &bits)) {
    return std::nullopt;
  }
  // Bit 0, idle, is omitted, because a GPU that waits for work is not throttled.
  constexpr std::array<const char*, 11> names{nullptr,
                                              "applications_clocks_setting",
                                              "sw_power_cap",
                                              "hw_slowdown",
                                              "sync_boost",
                                              "sw_thermal_slowdown",
                                              "hw_thermal_slowdown",
                                              "hw_power_brake_slowdown",
                                              "display_clock_setting",
                                              "board_limit",
                                              "reliability"};
  std::vector<std::string> reasons;
  for (unsigned bit = 1; bit < 64; ++bit) {
    if ((bits >> bit & 1) == 0) continue;
    reasons.push_back(bit < names.size() ? names[bit] : fmt::format("bit_{}", bit));
  }
  return reasons;
}

/// Returns the processes; nullopt if the library does not have the function or NVML does not answer.
std::optional<std::vector<ProcessInfo>> list_processes(const Asker& ask, const char* name) {
  unsigned count = 0;
  const int first = ask.nvml().status(name, ask.device(), &count, static_cast<ProcessInfo*>(nullptr));
  if (first == nvml::success && count == 0) return std::vector<ProcessInfo>{};
  if (first != nvml::insufficient_size && first != nvml::success) return std::nullopt;
  constexpr int tries = 5;  // retry, because more processes than fit may start between two calls
  for (int i = 0; i < tries; ++i) {
    count += 8;
    std::vector<ProcessInfo> processes(count);
    const int answer = ask.nvml().status(name, ask.device(), &count, processes.data());
    processes.resize(std::min<std::size_t>(count, processes.size()));
    if (answer == nvml::success) return processes;
    if (answer != nvml::insufficient_size) break;
  }
  return std::nullopt;
}

std::optional<std::vector<ProcessInfo>> compute_processes(const Asker& ask) {
  auto processes = list_processes(ask, "nvmlDeviceGetComputeRunningProcesses_v3");
  return processes ? processes : list_processes(ask, "nvmlDeviceGetComputeRunningProcesses_v2");
}

/// Returns the pids of other processes; nullopt if NVML does not report them.
std::optional<std::vector<unsigned>> foreign_processes(const Asker& ask) {
  const auto processes = compute_processes(ask);
  if (!processes) return std::nullopt;

  std::vector<unsigned> pids;
  bool saw_ourselves = false;
  for (const ProcessInfo& process : *processes) {
    if (process.pid == static_cast<unsigned>(getpid())) {
      saw_ourselves = true;
    } else {
      pids.push_back(process.pid);
    }
  }
  // In a container, process IDs are those of the host, and ours is not among them: an ID that is not visible here is
  // taken to be ours.
  if (!saw_ourselves) {
    const auto unseen = std::find_if(
        pids.begin(), pids.end(), [](unsigned pid) { return access(fmt::format("/proc/{}", pid).c_str(), F_OK) != 0; });
    if (unseen != pids.end()) pids.erase(unseen);
  }
  return pids;
}

/// Collector of critical errors that the driver reports, from the first query on; the driver does not keep errors for
/// later subscribers.
class XidWatch {
 public:
  explicit XidWatch(const Asker& ask) : nvml_(ask.nvml()) {
    constexpr unsigned long long critical_xids = 8;  // nvmlEventTypeXidCriticalError
    watching_ = nvml_.call("nvmlEventSetCreate", &events_) &&
                nvml_.call("nvmlDeviceRegisterEvents", ask.device(), critical_xids, events_);
  }
  ~XidWatch() {
    if (events_ != nullptr) nvml_.call("nvmlEventSetFree", events_);
  }
  XidWatch(const XidWatch&) = delete;
  XidWatch& operator=(const XidWatch&) = delete;

  std::optional<std::vector<unsigned>> seen() {
    struct {  // nvmlEventData_t
      nvml::Device device;
      unsigned long long type, xid;
      unsigned gpu_instance, compute_instance;
    } event{};
    constexpr unsigned no_wait = 0;
    constexpr std::size_t most = 1000;  // limit for a failing chip that reports errors endlessly
    constexpr int none_now = 10;        // NVML_ERROR_TIMEOUT
    while (watching_ && xids_.size() < most) {
      const int answer = nvml_.status("nvmlEventSetWait_v2", events_, static_cast<void*>(&event), no_wait);
      watching_ = answer == nvml::success || answer == none_now;
      if (answer != nvml::success) break;
      xids_.push_back(static_cast<unsigned>(event.xid));
    }
    // Errors already seen remain valid when queries no longer work; without any errors, the answer is unknown.
    return watching_ || !xids_.empty() ? std::optional(xids_) : std::nullopt;
  }

 private:
  const nvml::Library& nvml_;
  struct OpaqueEventSet* events_ = nullptr;
  bool watching_ = false;
  std::vector<unsigned> xids_;
};

std::optional<std::vector<unsigned>> xids(const Asker& ask) {
  static std::mutex mutex;
  static std::map<std::pair<const nvml::Library*, nvml::Device>, XidWatch> watches;
  const std::lock_guard lock(mutex);
  return watches.try_emplace({&ask.nvml(), ask.device()}, ask).first->second.seen();
}

std::optional<std::string> compute_mode(const Asker& ask) {
  const auto mode = ask.number("nvmlDeviceGetComputeMode");
  if (!mode) return std::nullopt;
  constexpr std::array<const char*, 4> names{"default", "exclusive_thread", "prohibited", "exclusive_process"};
  return *mode < names.size() ? names[*mode] : fmt::format("mode {}", *mode);
}

constexpr unsigned sm_clock = 1, memory_clock = 2;  // nvmlClockType_t

void ask_what_changes(const Asker& ask, Telemetry& t) {
  t.pcie_generation = ask.integer("nvmlDeviceGetCurrPcieLinkGeneration");
  t.pcie_width = ask.integer("nvmlDeviceGetCurrPcieLinkWidth");
  t.sm_clock_hz = ask.scaled(1e6, "nvmlDeviceGetClockInfo", sm_clock);
  t.memory_clock_hz = ask.scaled(1e6, "nvmlDeviceGetClockInfo", memory_clock);
  t.temperature_c = ask.scaled(1, "nvmlDeviceGetTemperature", 0u);
  t.power_w = ask.scaled(1e-3, "nvmlDeviceGetPowerUsage");
  constexpr unsigned uncorrected = 1, since_boot = 0;
  unsigned long long errors = 0;
  t.ecc_uncorrected.reset();  // the previous value must not be reported if this query fails
  if (ask.nvml().call("nvmlDeviceGetTotalEccErrors", ask.device(), uncorrected, since_boot, &errors)) {
    t.ecc_uncorrected = errors;
  }
  t.xids = xids(ask);
  t.throttle = throttle_reasons(ask);
  t.foreign_processes = foreign_processes(ask);
}

void ask_what_stays(const Asker& ask, Telemetry& t) {
  t.pcie_generation_max = ask.integer("nvmlDeviceGetMaxPcieLinkGeneration");
  t.pcie_width_max = ask.integer("nvmlDeviceGetMaxPcieLinkWidth");
  t.sm_clock_max_hz = ask.scaled(1e6, "nvmlDeviceGetMaxClockInfo", sm_clock);
  t.power_limit_w = ask.scaled(1e-3, "nvmlDeviceGetEnforcedPowerLimit");
  if (!t.power_limit_w) t.power_limit_w = ask.scaled(1e-3, "nvmlDeviceGetPowerManagementLimit");
  t.power_limit_default_w = ask.scaled(1e-3, "nvmlDeviceGetPowerManagementDefaultLimit");
  t.ecc = ask.current_of_two("nvmlDeviceGetEccMode");
  if (const auto persistence = ask.number("nvmlDeviceGetPersistenceMode")) t.persistence = *persistence != 0;
  t.mig = ask.current_of_two("nvmlDeviceGetMigMode");
  t.vbios = ask.text("nvmlDeviceGetVbiosVersion");
  std::array<char, 96> firmware{};
  if (ask.nvml().call("nvmlDeviceGetGspFirmwareVersion", ask.device(), firmware.data()) && firmware[0] != '\0') {
    t.gsp_firmware = firmware.data();
  }
  t.compute_mode = compute_mode(ask);
  for (const auto& link : nvml::active_nvlinks(ask)) {
    t.links.push_back(link.rate ? fmt::format("nvlink {:.3f} GB/s", *link.rate * 1e-9) : "nvlink");
  }
}

}  // namespace

Telemetry telemetry_nvml(const std::string& uuid, const std::string& pci_bus, const std::string& library) noexcept {
  try {
    Telemetry t;
    if (const auto ask = nvml::find(uuid, pci_bus, library)) {
      t.source = "nvml";
      ask_what_changes(*ask, t);
      ask_what_stays(*ask, t);
    }
    return t;
  } catch (...) {
    return {};
  }
}

void refresh_nvml(Telemetry& telemetry, const std::string& uuid, const std::string& pci_bus,
                  const std::string& library) noexcept {
  try {
    if (const auto ask = nvml::find(uuid, pci_bus, library)) ask_what_changes(*ask, telemetry);
  } catch (...) {  // keep the previous values
  }
}

std::optional<std::size_t> memory_used_nvml(const std::string& uuid, const std::string& pci_bus,
                                            const std::string& library) noexcept {
  try {
    struct {
      unsigned long long total, free, used;
    } memory{};  // nvmlMemory_t
    const auto ask = nvml::find(uuid, pci_bus, library);
    if (!ask || !ask->nvml().call("nvmlDeviceGetMemoryInfo", ask->device(), static_cast<void*>(&memory)))
      return std::nullopt;
    return memory.used;
  } catch (...) {
    return std::nullopt;
  }
}

Occupancy occupancy_nvml(const std::string& uuid, const std::string& pci_bus, const std::string& library) noexcept {
  try {
    Occupancy found;
    const auto ask = nvml::find(uuid, pci_bus, library);
    if (!ask) return found;
    if (const auto processes = compute_processes(*ask)) {
      found.processes.emplace();
      for (const auto& process : *processes) found.processes->push_back(process.pid);
      // A GPU that renders for no program may not report graphics processes.
      for (const auto& process :
           list_processes(*ask, "nvmlDeviceGetGraphicsRunningProcesses_v3").value_or(std::vector<ProcessInfo>{}))
        found.processes->push_back(process.pid);
      std::erase(*found.processes, static_cast<unsigned>(getpid()));
    }
    unsigned current = 0, pending = 0;
    constexpr int no_function = -1, not_supported = 3;  // library without MIG functions, chip without MIG
    const int answer = ask->nvml().status("nvmlDeviceGetMigMode", ask->device(), &current, &pending);
    if (answer == nvml::success) found.mig = current != 0;
    if (answer == no_function || answer == not_supported) found.mig = false;
    return found;
  } catch (...) {
    return {};
  }
}

std::optional<std::string> nvml_driver_version(const std::string& library) noexcept {
  try {
    const nvml::Library* driver = nvml::Library::instance(library);
    std::array<char, 96> buffer{};
    if (driver == nullptr ||
        !driver->call("nvmlSystemGetDriverVersion", buffer.data(), static_cast<unsigned>(buffer.size()))) {
      return std::nullopt;
    }
    return buffer.data();
  } catch (...) {
    return std::nullopt;
  }
}

bool nvml_is_mig(const std::string& hex, const std::string& library) noexcept {
  try {
    const nvml::Library* driver = nvml::Library::instance(library);
    nvml::Device device = nullptr;
    return driver != nullptr && !driver->call("nvmlDeviceGetHandleByUUID", ("GPU-" + hex).c_str(), &device) &&
           driver->call("nvmlDeviceGetHandleByUUID", ("MIG-" + hex).c_str(), &device);
  } catch (...) {
    return false;
  }
}

}  // namespace isthmus::device
