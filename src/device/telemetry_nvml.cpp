// NVML without its header: a machine that builds this tree need not have it, and one that runs it may have any version.
// Every function is looked up by name and may be missing.

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "device/telemetry.hpp"

namespace isthmus::device {
namespace {

using Device = struct OpaqueDevice*;

constexpr int success = 0, insufficient_size = 7;

/// nvmlFieldValue_t: the same in every version since NVLink came.
struct FieldValue {
  unsigned field;
  unsigned scope;
  long long timestamp;
  long long latency;
  int type;  // 0 double, 1 unsigned, 2 unsigned long, 3 unsigned long long, 4 long long, 5 int
  int status;
  union {
    double as_double;
    unsigned as_unsigned;
    unsigned long as_unsigned_long;
    unsigned long long as_unsigned_long_long;
    long long as_long_long;
    int as_int;
  } value;
};
static_assert(sizeof(FieldValue) == 40);

/// nvmlProcessInfo_t of the calls that end in _v2 and _v3.
struct ProcessInfo {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(ProcessInfo) == 24);

class Nvml {
 public:
  /// The library of this path, loaded and initialised once; nullptr where that fails.
  static Nvml* instance(const std::string& asked) {
    static std::mutex mutex;
    static std::map<std::string, Nvml> libraries;
    std::string path = asked;
    if (path.empty()) {
      const char* from_environment = std::getenv("ISTHMUS_NVML");
      path = from_environment != nullptr ? from_environment : "libnvidia-ml.so.1";
    }
    const std::lock_guard lock(mutex);
    Nvml& nvml = libraries.try_emplace(path).first->second;
    if (nvml.library_ == nullptr) {
      // Tried again next time: a driver may be repaired while a long program runs.
      void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) return nullptr;
      nvml.library_ = library;
      if (!nvml.call("nvmlInit_v2")) {
        nvml.library_ = nullptr;
        dlclose(library);
        return nullptr;
      }
    }
    return &nvml;
  }

  /// Calls a function by name with exactly these argument types; its status, or -1 where there is no such function.
  template <class... Arguments>
  int status(const char* name, Arguments... arguments) const {
    void* symbol = dlsym(library_, name);
    if (symbol == nullptr) return -1;
    return reinterpret_cast<int (*)(Arguments...)>(symbol)(arguments...);
  }
  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    return status(name, arguments...) == success;
  }

 private:
  void* library_ = nullptr;
};

/// One device, asked fact by fact; a fact that is not given is null.
class Asker {
 public:
  Asker(const Nvml& nvml, Device device) : nvml_(nvml), device_(device) {}

  template <class... Before>
  std::optional<unsigned> number(const char* name, Before... before) const {
    unsigned value = 0;
    return nvml_.call(name, device_, before..., &value) ? std::optional(value) : std::nullopt;
  }
  template <class... Before>
  std::optional<double> scaled(double unit, const char* name, Before... before) const {
    const auto value = number(name, before...);
    return value ? std::optional(unit * *value) : std::nullopt;
  }
  std::optional<int> integer(const char* name) const {
    const auto value = number(name);
    return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
  }
  /// The first of two numbers: what is, not what will be after a reboot.
  std::optional<bool> current_of_two(const char* name) const {
    unsigned current = 0, pending = 0;
    return nvml_.call(name, device_, &current, &pending) ? std::optional(current != 0) : std::nullopt;
  }
  std::optional<std::string> text(const char* name) const {
    std::array<char, 96> buffer{};
    return nvml_.call(name, device_, buffer.data(), static_cast<unsigned>(buffer.size()))
               ? std::optional<std::string>(buffer.data())
               : std::nullopt;
  }
  std::optional<double> field(unsigned id, unsigned scope) const {
    FieldValue value{};
    value.field = id;
    value.scope = scope;
    if (!nvml_.call("nvmlDeviceGetFieldValues", device_, 1, &value) || value.status != success) return std::nullopt;
    switch (value.type) {
      case 0:
        return value.value.as_double;
      case 1:
        return value.value.as_unsigned;
      case 2:
        return static_cast<double>(value.value.as_unsigned_long);
      case 3:
        return static_cast<double>(value.value.as_unsigned_long_long);
      case 4:
        return static_cast<double>(value.value.as_long_long);
      case 5:
        return value.value.as_int;
      default:
        return std::nullopt;
    }
  }
  const Nvml& nvml() const { return nvml_; }
  Device device() const { return device_; }

 private:
  const Nvml& nvml_;
  Device device_;
};

std::vector<std::string> throttle_reasons(const Asker& ask) {
  unsigned long long bits = 0;
  if (!ask.nvml().call("nvmlDeviceGetCurrentClocksEventReasons", ask.device(), &bits) &&
      !ask.nvml().call("nvmlDeviceGetCurrentClocksThrottleReasons", ask.device(), &bits)) {
    return {};
  }
  // Bit 0, idle, is left out: a GPU that waits for work is not held back.
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

std::vector<std::string> active_links(const Asker& ask) {
  constexpr unsigned most_links = 18;
  constexpr unsigned speed_of_link = 164, speed_common = 90;  // NVML_FI_DEV_NVLINK_…, in MB/s
  std::vector<std::string> links;
  for (unsigned link = 0; link < most_links; ++link) {
    const auto active = ask.number("nvmlDeviceGetNvLinkState", link);
    if (!active || *active == 0) continue;
    auto speed = ask.field(speed_of_link, link);
    if (!speed || *speed <= 0) speed = ask.field(link < 6 ? 84 + link : 132 + link - 6, 0);  // fields per link, to 11
    if (!speed || *speed <= 0) speed = ask.field(speed_common, 0);
    links.push_back(speed && *speed > 0 ? fmt::format("nvlink {:.3f} GB/s", *speed * 1e-3) : "nvlink");
  }
  return links;
}

std::vector<unsigned> foreign_processes(const Asker& ask) {
  const auto list = [&](const char* name) -> std::optional<std::vector<ProcessInfo>> {
    unsigned count = 0;
    const int first = ask.nvml().status(name, ask.device(), &count, static_cast<ProcessInfo*>(nullptr));
    if (first == success && count == 0) return std::vector<ProcessInfo>{};
    if (first != insufficient_size && first != success) return std::nullopt;
    count += 8;  // some may start between the two calls
    std::vector<ProcessInfo> processes(count);
    if (!ask.nvml().call(name, ask.device(), &count, processes.data())) return std::nullopt;
    processes.resize(std::min<std::size_t>(count, processes.size()));
    return processes;
  };
  auto processes = list("nvmlDeviceGetComputeRunningProcesses_v3");
  if (!processes) processes = list("nvmlDeviceGetComputeRunningProcesses_v2");
  if (!processes) return {};

  std::vector<unsigned> pids;
  bool saw_ourselves = false;
  for (const ProcessInfo& process : *processes) {
    if (process.pid == static_cast<unsigned>(getpid())) {
      saw_ourselves = true;
    } else {
      pids.push_back(process.pid);
    }
  }
  // In a container the pids are those of the host and ours is not among them: one that cannot be seen from here is us.
  if (!saw_ourselves) {
    const auto unseen = std::find_if(
        pids.begin(), pids.end(), [](unsigned pid) { return access(fmt::format("/proc/{}", pid).c_str(), F_OK) != 0; });
    if (unseen != pids.end()) pids.erase(unseen);
  }
  return pids;
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
  if (ask.nvml().call("nvmlDeviceGetTotalEccErrors", ask.device(), uncorrected, since_boot, &errors)) {
    t.ecc_uncorrected = errors;
  }
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
  t.links = active_links(ask);
}

/// Calls `body` with the device, or not at all where there is no library or no such device.
template <class Body>
void with_device(const std::string& uuid, const std::string& pci_bus, const std::string& library, Body body) {
  const Nvml* nvml = Nvml::instance(library);
  Device device = nullptr;
  if (nvml == nullptr || (!nvml->call("nvmlDeviceGetHandleByUUID", uuid.c_str(), &device) &&
                          !nvml->call("nvmlDeviceGetHandleByPciBusId_v2", pci_bus.c_str(), &device))) {
    return;
  }
  // A MIG instance has no clocks, power or links of its own: its GPU is asked.
  Device parent = nullptr;
  if (nvml->call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", device, &parent)) device = parent;
  body(Asker(*nvml, device));
}

}  // namespace

Telemetry telemetry_nvml(const std::string& uuid, const std::string& pci_bus, const std::string& library) noexcept {
  try {
    Telemetry t;
    with_device(uuid, pci_bus, library, [&](const Asker& ask) {
      t.source = "nvml";
      ask_what_changes(ask, t);
      ask_what_stays(ask, t);
    });
    return t;
  } catch (...) {
    return {};
  }
}

void refresh_nvml(Telemetry& telemetry, const std::string& uuid, const std::string& pci_bus,
                  const std::string& library) noexcept {
  try {
    with_device(uuid, pci_bus, library, [&](const Asker& ask) { ask_what_changes(ask, telemetry); });
  } catch (...) {  // the facts of before stay
  }
}

std::optional<std::string> nvml_driver_version(const std::string& library) noexcept {
  try {
    const Nvml* nvml = Nvml::instance(library);
    std::array<char, 96> buffer{};
    if (nvml == nullptr ||
        !nvml->call("nvmlSystemGetDriverVersion", buffer.data(), static_cast<unsigned>(buffer.size()))) {
      return std::nullopt;
    }
    return buffer.data();
  } catch (...) {
    return std::nullopt;
  }
}

bool nvml_is_mig(const std::string& hex, const std::string& library) noexcept {
  try {
    const Nvml* nvml = Nvml::instance(library);
    Device device = nullptr;
    return nvml != nullptr && !nvml->call("nvmlDeviceGetHandleByUUID", ("GPU-" + hex).c_str(), &device) &&
           nvml->call("nvmlDeviceGetHandleByUUID", ("MIG-" + hex).c_str(), &device);
  } catch (...) {
    return false;
  }
}

}  // namespace isthmus::device
