#pragma once

// NVML without its header: a machine that builds this project need not have NVML, and a machine that runs it may have
// any version. Every function is looked up by name and may be missing.

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace isthmus::device::nvml {

using Device = struct OpaqueDevice*;

inline constexpr int success = 0, insufficient_size = 7;

/// nvmlFieldValue_t, which has not changed in any version since NVLink was introduced.
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

class Library {
 public:
  /// Returns the library at this path, which is loaded and initialised once; nullptr if that fails.
  static Library* instance(const std::string& asked) {
    static std::mutex mutex;
    static std::map<std::string, Library> libraries;
    std::string path = asked;
    if (path.empty()) {
      const char* from_environment = std::getenv("ISTHMUS_NVML");
      path = from_environment != nullptr && *from_environment != '\0' ? from_environment : "libnvidia-ml.so.1";
    }
    const std::lock_guard lock(mutex);
    Library& nvml = libraries.try_emplace(path).first->second;
    if (nvml.library_ == nullptr) {
      // A failure is not cached, because a driver may be repaired while a long program runs.
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

  /// Calls a function by name with exactly these argument types. Returns the function's status, or -1 if the library
  /// does not have the function.
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

/// Queries of one device, value by value; a missing value is null.
class Asker {
 public:
  Asker(const Library& nvml, Device device) : nvml_(nvml), device_(device) {}

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
  /// Returns the first of two numbers, which is the current state; the second is the state after a reboot.
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
  const Library& nvml() const { return nvml_; }
  Device device() const { return device_; }

 private:
  const Library& nvml_;
  Device device_;
};

/// Active NVLink; the rate is in B/s in one direction, null if unknown.
struct NvLink {
  unsigned number;
  std::optional<double> rate;
};
std::vector<NvLink> active_nvlinks(const Asker& ask);

/// Returns the device; null if the library or the device does not exist. A MIG instance does not have its own clocks,
/// power or links, so its GPU is returned instead.
std::optional<Asker> find(const std::string& uuid, const std::string& pci_bus, const std::string& library);

}  // namespace isthmus::device::nvml
