#include "memory/control_groups.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "../temporary_path.hpp"
#include "memory/host_memory.hpp"

namespace isthmus::memory {
namespace {

namespace fs = std::filesystem;

/// Fixture with a folder that stands in for a machine's /proc and control groups.
class ControlGroups : public testing::Test {
 protected:
  void SetUp() override { root_ = temporary_path("control-groups"); }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    const fs::path file = root_.string() + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void group_1(const std::string& folder, const std::string& limit, const std::string& used = "0") const {
    write("/sys/fs/cgroup/memory" + folder + "/memory.limit_in_bytes", limit);
    write("/sys/fs/cgroup/memory" + folder + "/memory.usage_in_bytes", used);
  }
  void group_2(const std::string& folder, const std::string& limit, const std::string& used = "0") const {
    write(folder + "/memory.max", limit);
    write(folder + "/memory.current", used);
  }
  std::optional<std::size_t> left() const { return control_group_memory(root_).bytes; }

  static constexpr const char* kMount1 = "35 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n";
  static constexpr const char* kMount2 = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
  static constexpr const char* kNoLimit1 = "9223372036854771712\n";
  fs::path root_;
};

TEST_F(ControlGroups, OfVersion1LimitUpThePath) {
  write("/proc/self/mountinfo", kMount1);
  write("/proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/slurm/uid_7/job_1/step_0\n0::/\n");
  group_1("", kNoLimit1, "5000000");
  EXPECT_GT(left().value(), std::size_t{1} << 60) << "no limit is a large number";
  group_1("/slurm", "900", "100");
  group_1("/slurm/uid_7/job_1", "700\n", "50\n");
  group_1("/slurm/uid_7/job_1/step_0", kNoLimit1, "50");
  EXPECT_EQ(left(), 650u);
  group_1("/slurm", "900", "500");
  EXPECT_EQ(left(), 400u) << "the groups above have other processes";
  group_1("/slurm", "900", "1000");
  EXPECT_EQ(left(), 0u);
}

TEST_F(ControlGroups, OfVersion1MayHaveSeveralControllersInOneMount) {
  write("/proc/self/mountinfo", "35 31 0:32 / /groups/all\\040of\\040them rw - cgroup none rw,cpu,memory,pids\n");
  write("/proc/self/cgroup", "4:cpu,memory,pids:/a\n");
  write("/groups/all of them/a/memory.limit_in_bytes", "700");
  EXPECT_EQ(left(), 700u);
}

TEST_F(ControlGroups, OfVersion2LimitUpThePath) {
  write("/proc/self/mountinfo", "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  write("/proc/self/cgroup", "0::/system.slice/job\n");
  EXPECT_EQ(left(), std::nullopt);
  group_2("/sys/fs/cgroup/system.slice/job", "max", "10");
  EXPECT_EQ(left(), std::nullopt);
  group_2("/sys/fs/cgroup/system.slice", "800", "10");
  EXPECT_EQ(left(), 790u);
}

TEST_F(ControlGroups, OfBothVersionsTheSmallerLimitCounts) {
  write("/proc/self/mountinfo", std::string(kMount1) + kMount2);
  write("/proc/self/cgroup", "4:memory:/a\n0::/b\n");
  group_1("/a", "700");
  EXPECT_EQ(left(), 700u);
  group_2("/sys/fs/cgroup/unified/b", "600");
  EXPECT_EQ(left(), 600u);
  group_1("/a", "500");
  EXPECT_EQ(left(), 500u);
}

TEST_F(ControlGroups, OfAContainerBeginAtItsMount) {
  write("/proc/self/mountinfo", "35 31 0:32 /docker/1f /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  write("/proc/self/cgroup", "4:memory:/docker/1f/inner\n");
  group_1("", "700");
  group_1("/inner", "600");
  EXPECT_EQ(left(), 600u);
  write("/proc/self/cgroup", "4:memory:/docker/1f\n");
  EXPECT_EQ(left(), 700u);
  write("/proc/self/cgroup", "4:memory:/elsewhere\n");
  EXPECT_EQ(left(), 700u);
}

TEST_F(ControlGroups, OfANamespaceAreFoundByTheirProcesses) {
  write("/proc/self/mountinfo", "41 31 0:38 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  write("/proc/self/cgroup", "0::/inner\n");
  group_2("/sys/fs/cgroup/pods/other/inner", "100");
  write("/sys/fs/cgroup/pods/other/inner/cgroup.procs", "1\n");
  EXPECT_NE(control_group_memory(root_).unknown, "");
  EXPECT_EQ(left(), std::nullopt);
  EXPECT_NE(machine_memory(root_, 1000).doubt.find("free"), std::string::npos) << "what is worse is said";
  write("/proc/meminfo", "MemAvailable: 1 kB\n");
  EXPECT_NE(machine_memory(root_, 1000).doubt.find("is hidden by a namespace"), std::string::npos);

  group_2("/sys/fs/cgroup/pods/ours/inner", "max");
  group_2("/sys/fs/cgroup/pods/ours", "700");
  write("/sys/fs/cgroup/pods/ours/inner/cgroup.procs", "1\n" + std::to_string(getpid()) + "\n");
  EXPECT_EQ(control_group_memory(root_).unknown, "");
  EXPECT_EQ(left(), 700u);
  EXPECT_EQ(machine_memory(root_, 1000).doubt, "");
}

TEST_F(ControlGroups, AFileThatSaysNoNumberIsNotTakenForNoLimit) {
  write("/proc/self/mountinfo", kMount1);
  write("/proc/self/cgroup", "4:memory:/a\n");
  write("/proc/meminfo", "MemAvailable: 1 kB\n");
  group_1("/a", "700", "100");
  EXPECT_EQ(control_group_memory(root_).unknown, "");
  for (const auto& [limit, used] : {std::pair{"", "100"}, {"many", "100"}, {"-1", "100"}, {"700 ", ""}, {"700", "x"}}) {
    group_1("/a", limit, used);
    EXPECT_NE(control_group_memory(root_).unknown.find("_in_bytes does not contain a number"), std::string::npos)
        << limit << used;
  }
  EXPECT_NE(machine_memory(root_, 1000).doubt.find("memory.usage_in_bytes does not contain a number"),
            std::string::npos);
  fs::remove_all(root_ / "sys");
  EXPECT_EQ(control_group_memory(root_).unknown, "");
}

TEST_F(ControlGroups, OfFilesThatAreNoneSetNoLimit) {
  EXPECT_EQ(left(), std::nullopt);
  write("/proc/self/mountinfo", "a - b\n-\n\n1 2 3 4 5 - cgroup\n");
  write("/proc/self/cgroup", "memory\n:\n::\n4:memory");
  EXPECT_EQ(left(), std::nullopt);
}

}  // namespace
}  // namespace isthmus::memory
