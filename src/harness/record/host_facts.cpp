#include "harness/record/host_facts.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "harness/plan/names.hpp"
#include "memory/parallel.hpp"
#include "memory/topology.hpp"

namespace isthmus::harness {

namespace {

namespace fs = std::filesystem;

/// Returns a file's first line, or the first bytes of a longer one.
std::optional<std::string> first_line(const std::string& path) {
  std::ifstream stream(path);
  std::array<char, 1 << 14> line{};
  stream.getline(line.data(), line.size());
  if (line[0] == '\0') return std::nullopt;
  return line.data();
}

/// Returns the word in brackets: "madvise" for "always [madvise] never".
std::optional<std::string> bracketed(const std::optional<std::string>& line) {
  if (!line) return std::nullopt;
  const auto open = line->find('['), close = line->find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return line;
  return line->substr(open + 1, close - open - 1);
}

std::optional<std::string> os_name() {
  std::ifstream stream("/etc/os-release");
  for (std::string line; std::getline(stream, line);) {
    if (line.compare(0, 12, "PRETTY_NAME=") != 0) continue;
    std::string value = line.substr(12);
    std::erase(value, '"');
    return value;
  }
  return std::nullopt;
}

/// Returns "on" or "off" for address translation, followed by the kernel's options for it; nullopt if one of the two is
/// unknown.
std::optional<std::string> iommu_state() {
  std::error_code unreadable;
  const bool off = fs::is_empty("/sys/kernel/iommu_groups", unreadable);
  const auto options = first_line("/proc/cmdline");
  if (unreadable || !options) return std::nullopt;
  std::string state = off ? "off" : "on";
  std::istringstream words(*options);
  for (std::string word; words >> word;) {
    if (word.find("iommu") != std::string::npos) state += " " + word;
  }
  return state;
}

/// Returns the model name from hwloc, else from /proc/cpuinfo, else the machine type.
std::string cpu_model(hwloc_topology_t topology, const std::string& machine) {
  if (hwloc_obj_t package = topology != nullptr ? hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0) : nullptr) {
    const char* model = hwloc_obj_get_info_by_name(package, "CPUModel");
    if (model != nullptr && *model != '\0') return model;
  }
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    const auto colon = line.find(": ");
    if (line.compare(0, 10, "model name") == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return machine;
}

/// Returns the kinds of caches, sorted by level. There may be several kinds per level, because cores of different kinds
/// have caches of different sizes.
std::vector<CacheFacts> caches_of(hwloc_topology_t topology) {
  std::vector<CacheFacts> found;
  for (int depth = 0; depth < hwloc_topology_get_depth(topology); ++depth) {
    if (!hwloc_obj_type_is_cache(hwloc_get_depth_type(topology, depth))) continue;
    for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_depth(topology, depth, object)) != nullptr;) {
      const auto& cache = object->attr->cache;
      if (cache.size == 0) continue;
      const CacheFacts facts{.level = static_cast<int>(cache.depth),
                             .instructions = cache.type == HWLOC_OBJ_CACHE_INSTRUCTION,
                             .bytes = cache.size,
                             .line_bytes = cache.linesize,
                             .processors = std::max(1, hwloc_bitmap_weight(object->cpuset)),
                             .count = 1};
      const auto same = std::find_if(found.begin(), found.end(), [&](CacheFacts other) {
        other.count = 1;
        return other == facts;
      });
      if (same != found.end()) {
        ++same->count;
      } else {
        found.push_back(facts);
      }
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.level < b.level; });
  return found;
}

/// Returns the number of objects of this type; nullopt if the topology has none, as in some containers.
std::optional<int> count_of(hwloc_topology_t topology, hwloc_obj_type_t type) {
  const int count = hwloc_get_nbobjs_by_type(topology, type);
  return count > 0 ? std::optional(count) : std::nullopt;
}

HostFacts ask() {
  HostFacts facts;
  utsname names{};
  if (uname(&names) == 0) facts.kernel = std::string(names.sysname) + " " + names.release;
  const auto topology = memory::load_topology();
  facts.cpu = cpu_model(topology.get(), names.machine);
  if (topology) {
    facts.cores = count_of(topology.get(), HWLOC_OBJ_CORE);
    facts.caches = caches_of(topology.get());
    facts.numa_nodes = count_of(topology.get(), HWLOC_OBJ_NUMANODE);
  }
  facts.thp = bracketed(first_line("/sys/kernel/mm/transparent_hugepage/enabled"));
  facts.governor = governor_of("/sys/devices/system/cpu");
  facts.iommu = iommu_state();
  facts.os = os_name();
  facts.boot_id = first_line("/proc/sys/kernel/random/boot_id");
  facts.uvm_parameters = module_parameters("/sys/module/nvidia_uvm/parameters");
  if (const auto balancing = first_line("/proc/sys/kernel/numa_balancing")) facts.numa_balancing = *balancing != "0";
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) facts.memory_bytes = static_cast<std::size_t>(pages) * static_cast<std::size_t>(page);
  facts.processors_allowed = static_cast<int>(memory::host_threads());
  return facts;
}

}  // namespace

std::optional<std::map<std::string, std::string>> module_parameters(const fs::path& folder) {
  std::error_code failure;
  std::map<std::string, std::string> parameters;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
    if (const auto value = first_line(entry->path().string())) parameters[entry->path().filename().string()] = *value;
  }
  if (failure || parameters.empty()) return std::nullopt;
  return parameters;
}

std::optional<std::string> governor_of(const fs::path& folder) {
  const auto is_processor = [](const std::string& name) {
    return name.size() > 3 && name.starts_with("cpu") && name.find_first_not_of("0123456789", 3) == std::string::npos;
  };
  std::error_code failure;
  std::set<std::string> governors;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
    const auto file = entry->path() / "cpufreq/scaling_governor";
    std::error_code unknown;
    if (!is_processor(entry->path().filename().string()) || (!fs::exists(file, unknown) && !unknown)) continue;
    const auto governor = first_line(file.string());
    if (!governor) return std::nullopt;
    governors.insert(*governor);
  }
  if (failure || governors.empty()) return std::nullopt;
  return join(std::vector<std::string>(governors.begin(), governors.end()), ",");
}

const HostFacts& host_facts() {
  static const HostFacts facts = ask();
  return facts;
}

std::string node_name() {
  if (const char* name = std::getenv("SLURMD_NODENAME"); name != nullptr && *name != '\0') return name;
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "unknown";
  return name;
}

}  // namespace isthmus::harness
