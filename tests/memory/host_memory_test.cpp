#include "memory/host_memory.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "../temporary_path.hpp"

namespace isthmus::memory {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKi = 1024, kGi = std::size_t{1} << 30;

/// Fixture with a folder that stands in for a machine's /proc and control groups.
class MachineMemory : public testing::Test {
 protected:
  void SetUp() override { root_ = temporary_path("host-memory"); }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    const fs::path file = root_.string() + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void limit_group_1(const std::string& bytes) const {
    write("/proc/self/mountinfo", "35 31 0:32 / /groups rw - cgroup cgroup rw,memory\n");
    write("/proc/self/cgroup", "4:memory:/job\n");
    write("/groups/job/memory.limit_in_bytes", bytes);
  }
  void limit_group_2(const std::string& bytes) const {
    write("/proc/self/mountinfo", "41 31 0:38 / /groups rw - cgroup2 cgroup2 rw\n");
    write("/proc/self/cgroup", "0::/job\n");
    write("/groups/job/memory.max", bytes);
  }
  HostMemory memory(std::optional<std::size_t> system) const { return machine_memory(root_, system); }

  fs::path root_;
};

TEST_F(MachineMemory, IsWhatMeminfoCallsAvailableWithoutADoubt) {
  write("/proc/meminfo", "MemTotal: 900 kB\nMemFree: 100 kB\nMemAvailable: 700 kB\n");
  EXPECT_EQ(memory(100 * kKi).bytes, 700 * kKi);
  EXPECT_TRUE(memory(100 * kKi).known);
  EXPECT_EQ(memory(100 * kKi).doubt, "");
}

TEST_F(MachineMemory, WithoutMeminfoIsWhatTheSystemCallsFreeAndSaysSo) {
  for (const char* text : {"", "MemTotal: 900 kB\nMemFree: 100 kB\n"}) {  // unreadable; from a kernel before 3.14
    write("/proc/meminfo", text);
    const auto found = memory(3 * kGi);
    EXPECT_EQ(found.bytes, 3 * kGi);
    EXPECT_TRUE(found.known);
    EXPECT_NE(found.doubt.find("only the 3 GiB that sysinfo(2) reports as free"), std::string::npos) << found.doubt;
    EXPECT_NE(found.doubt.find("ISTHMUS_HOST_MEMORY"), std::string::npos) << found.doubt;
  }
}

TEST_F(MachineMemory, ThatNothingTellsIsLittleAndNotUnlimited) {
  const auto found = memory(std::nullopt);
  EXPECT_EQ(found.bytes, kGi);
  EXPECT_FALSE(found.known);
  EXPECT_NE(found.doubt.find("more than 1 GiB are skipped"), std::string::npos) << found.doubt;
}

TEST_F(MachineMemory, IsLimitedByGroupsOfBothVersionsAlsoWithoutMeminfo) {
  for (const auto system : {std::optional<std::size_t>(), std::optional(2 * kGi)}) {
    limit_group_1("5000\n");
    EXPECT_EQ(memory(system).bytes, 5000u);
    limit_group_2("6000\n");
    EXPECT_EQ(memory(system).bytes, 6000u);
    limit_group_2("max\n");
    EXPECT_EQ(memory(system).bytes, system.value_or(kGi));
    limit_group_1("9223372036854771712\n");  // value that version 1 reports if there is no limit
    EXPECT_EQ(memory(system).bytes, system.value_or(kGi));
  }
}

TEST(HostMemory, OfThisMachineIsSomethingAndNotEverything) {
  const auto found = host_memory();
  EXPECT_GT(found.bytes, 0u);
  EXPECT_LT(found.bytes, std::size_t{1} << 50);
}

}  // namespace
}  // namespace isthmus::memory
