#include "memory/control_groups.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace isthmus::memory {

namespace {

namespace fs = std::filesystem;

/// File system and file names of one version of control groups.
struct Version {
  const char *file_system, *limit, *used;
};
constexpr Version kVersion1{"cgroup", "memory.limit_in_bytes", "memory.usage_in_bytes"};
constexpr Version kVersion2{"cgroup2", "memory.max", "memory.current"};

/// Mounted hierarchy; `group` is the part of the hierarchy that is visible at the mount point.
struct Mount {
  std::string point, group;
};

std::vector<std::string> words_of(const std::string& text, char between) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, between);) words.push_back(word);
  return words;
}

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Returns the text with the kernel's escapes (\040 and the like) replaced.
std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](std::size_t at) { return text[i + at] >= '0' && text[i + at] <= '7'; };
    if (text[i] == '\\' && i + 3 < text.size() && digit(1) && digit(2) && digit(3)) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

/// Returns the mounts of one version that have, or may have, the memory controller.
std::vector<Mount> mounts_of(const fs::path& root, const Version& version) {
  std::vector<Mount> mounts;
  std::ifstream stream(root / "proc/self/mountinfo");
  for (std::string line; std::getline(stream, line);) {
    const auto words = words_of(line, ' ');
    const auto separator = std::find(words.begin(), words.end(), "-");
    if (words.size() < 5 || words.end() - separator < 4 || separator[1] != version.file_system) continue;
    if (&version == &kVersion1 && !contains(words_of(separator[3], ','), "memory")) continue;
    mounts.push_back({unescaped(words[4]), unescaped(words[3])});
  }
  return mounts;
}

/// Returns this process's group in a version's memory hierarchy, from a line such as "4:memory:/slurm/job_1" or
/// "0::/slurm/job_1".
std::optional<std::string> group_of(const fs::path& root, const Version& version) {
  std::ifstream stream(root / "proc/self/cgroup");
  for (std::string line; std::getline(stream, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    const bool fits = &version == &kVersion1 ? contains(words_of(controllers, ','), "memory") : controllers.empty();
    if (fits) return line.substr(second + 1);
  }
  return std::nullopt;
}

/// Contents of a group's file.
struct Number {
  std::optional<std::size_t> value;  ///< nullopt: the file does not exist, or contains "max"
  bool known = true;                 ///< false: the file exists but contains neither a number nor "max"
};

Number number_in(const fs::path& path) {
  std::error_code problem;
  const auto kind = fs::status(path, problem).type();
  if (kind == fs::file_type::not_found) return {};
  std::ifstream stream(path);
  std::string word;
  stream >> word;
  if (word == "max") return {};
  std::size_t value = 0;
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (word.empty() || failure != std::errc{} || end != word.data() + word.size()) return {std::nullopt, false};
  return {value};
}

/// Returns whether this process is in the group that the folder represents.
bool has_us(const fs::path& folder) {
  std::ifstream stream(folder / "cgroup.procs");
  for (long pid = 0; stream >> pid;) {
    if (pid == getpid()) return true;
  }
  return false;
}

/// Finds this process's group in a mount whose root is `levels` levels above the root of this process's namespace,
/// where the group is called `group`. Returns the path below the mount point; nullopt if no folder of that name
/// contains this process.
std::optional<std::string> hidden_path(const fs::path& point, std::ptrdiff_t levels, const std::string& group) {
  constexpr std::size_t kMost = 10000;  // maximum number of folders inspected; bounds the time in a large hierarchy
  std::vector<std::string> level{""};
  for (; levels > 0; --levels) {
    std::vector<std::string> next;
    for (const auto& folder : level) {
      std::error_code problem;
      for (const auto& entry : fs::directory_iterator(point.string() + folder, problem)) {
        if (next.size() < kMost && entry.is_directory(problem) && !entry.is_symlink(problem))
          next.push_back(folder + "/" + entry.path().filename().string());
      }
    }
    level = std::move(next);
  }
  const std::string below = group == "/" ? "" : group;
  const auto ours =
      std::ranges::find_if(level, [&](const auto& each) { return has_us(point.string() + each + below); });
  return ours == level.end() ? std::nullopt : std::optional(*ours + below);
}

/// Returns the path of the group below the mount point; nullopt if it is unknown.
std::optional<std::string> path_inside(const fs::path& point, const Mount& mount, const std::string& group) {
  if (mount.group == "/") return group;
  // The root of the mount is above the root of this process's namespace: "/../..".
  if (mount.group == "/.." || mount.group.starts_with("/../"))
    return hidden_path(point, std::ranges::count(mount.group, '/'), group);
  // A mount in a container may show only the container's part of the hierarchy.
  const bool is_part = group == mount.group || group.starts_with(mount.group + "/");
  return is_part ? group.substr(mount.group.size()) : "";
}

/// Returns the smallest amount of memory that any folder from the group up to the mount point leaves.
ControlGroupMemory left_below(const fs::path& root, const Mount& mount, const std::string& group,
                              const Version& version) {
  const fs::path point = root / fs::path(mount.point).relative_path();
  const auto found = path_inside(point, mount, group);
  if (!found) return {.bytes = std::nullopt, .unknown = "it is hidden by a namespace"};
  std::string inside = *found;
  ControlGroupMemory least;
  for (;;) {
    while (inside.ends_with('/')) inside.pop_back();
    const fs::path folder = point.string() + inside;
    const auto limit = number_in(folder / version.limit), used = number_in(folder / version.used);
    if (limit.value) {
      const std::size_t left = *limit.value - std::min(*limit.value, used.value.value_or(0));
      least.bytes = std::min(least.bytes.value_or(left), left);
    }
    if (!limit.known) least.unknown = (folder / version.limit).string() + " does not contain a number";
    if (limit.value && (!used.known || !used.value))
      least.unknown = (folder / version.used).string() + " does not contain a number";
    if (inside.empty()) return least;
    const auto slash = inside.rfind('/');
    inside.erase(slash == std::string::npos ? 0 : slash);
  }
}

}  // namespace

ControlGroupMemory control_group_memory(const fs::path& root) {
  ControlGroupMemory all;
  for (const char* file : {"proc/self/cgroup", "proc/self/mountinfo"}) {
    std::error_code problem;
    if (fs::exists(root / file, problem) && !std::ifstream(root / file))
      all.unknown = (root / file).string() + " cannot be read";
  }
  for (const Version* version : {&kVersion1, &kVersion2}) {
    const auto group = group_of(root, *version);
    if (!group) continue;
    for (const auto& mount : mounts_of(root, *version)) {
      const auto [left, unknown] = left_below(root, mount, *group, *version);
      if (left) all.bytes = std::min(all.bytes.value_or(*left), *left);
      if (!unknown.empty()) all.unknown = unknown;
    }
  }
  return all;
}

}  // namespace isthmus::memory
