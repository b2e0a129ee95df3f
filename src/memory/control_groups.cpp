#include "memory/control_groups.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::memory {

namespace {

namespace fs = std::filesystem;

/// Names of a version's files.
struct Version {
  const char *file_system, *limit, *used;
};
constexpr Version kVersion1{"cgroup", "memory.limit_in_bytes", "memory.usage_in_bytes"};
constexpr Version kVersion2{"cgroup2", "memory.max", "memory.current"};

/// A hierarchy that is mounted: `group` is the part of it that the mount shows.
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

/// Text without the kernel's \040 and the like.
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

/// Mounts of one version that have the memory controller, or may have it.
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

/// This process's group of a version's memory hierarchy, as "4:memory:/slurm/job_1" or "0::/slurm/job_1" names it.
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

/// Number in a file; nullopt where it is absent, or says "max".
std::optional<std::size_t> number_in(const fs::path& path) {
  std::ifstream stream(path);
  std::size_t value = 0;
  if (stream >> value) return value;
  return std::nullopt;
}

/// What the folders from `group` up to the mount point leave.
std::optional<std::size_t> left_below(const fs::path& root, const Mount& mount, const std::string& group,
                                      const Version& version) {
  // In a container the mount may show only the part of the hierarchy that is the container's.
  std::string inside = group;
  if (mount.group != "/") {
    const bool is_part = group == mount.group || group.starts_with(mount.group + "/");
    inside = is_part ? group.substr(mount.group.size()) : "";
  }
  std::optional<std::size_t> least;
  for (;;) {
    while (inside.ends_with('/')) inside.pop_back();
    const fs::path folder = (root / fs::path(mount.point).relative_path()).string() + inside;
    const auto limit = number_in(folder / version.limit), used = number_in(folder / version.used);
    if (limit) {
      const std::size_t left = *limit - std::min(*limit, used.value_or(0));
      least = std::min(least.value_or(left), left);
    }
    if (inside.empty()) return least;
    const auto slash = inside.rfind('/');
    inside.erase(slash == std::string::npos ? 0 : slash);
  }
}

}  // namespace

std::optional<std::size_t> control_group_memory(const fs::path& root) {
  std::optional<std::size_t> least;
  for (const Version* version : {&kVersion1, &kVersion2}) {
    const auto group = group_of(root, *version);
    if (!group) continue;
    for (const auto& mount : mounts_of(root, *version)) {
      if (const auto left = left_below(root, mount, *group, *version)) least = std::min(least.value_or(*left), *left);
    }
  }
  return least;
}

}  // namespace isthmus::memory
