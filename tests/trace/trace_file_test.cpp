// Tests of trace files: complete, truncated at any byte, damaged, and from a process that was killed.

#include "trace/uvm/trace_file.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>

#include "bytes.hpp"
#include "fake_driver.hpp"
#include "trace/uvm/recorder.hpp"

namespace isthmus::trace::uvm {
namespace {

namespace fs = std::filesystem;

class UvmTrace : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "isthmus-uvm-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    path = (folder_ / "run.uvm").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string bytes() const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void replace(const std::string& bytes) const { std::ofstream(path, std::ios::binary) << bytes; }

  std::string prefix() const { return path.substr(0, path.rfind(".uvm")); }

  std::string path;

 private:
  fs::path folder_;
};

std::vector<Entry> entries(std::size_t count) {
  std::vector<Entry> all;
  for (std::size_t i = 0; i < count; ++i)
    all.push_back(fault_entry(i * kPageBytes, static_cast<std::uint32_t>(i / 256)));
  return all;
}

TEST_F(UvmTrace, WhatIsWrittenIsRead) {
  {
    TraceWriter writer(path, {{"command", "a b\nc"}, {"driver", "580.1"}});
    writer.append(entries(1000), 2, 3);
    writer.append({}, 0, 0);
    writer.append(entries(300'000), 0, 4);  // more entries than fit into a chunk
    writer.end();
  }
  const auto trace = read_trace(path);
  EXPECT_EQ(trace.problem, "");
  EXPECT_EQ(trace.facts, (TraceFacts{{"command", "a b c"}, {"driver", "580.1"}}));
  ASSERT_EQ(trace.events.size(), 301'000u);
  EXPECT_EQ(trace.dropped, 2u);
  EXPECT_EQ(trace.foreign_replays, 7u);
  EXPECT_EQ(std::get<GpuFault>(trace.events[1000 + 299'999]).address, 299'999 * kPageBytes);
  EXPECT_LT(fs::file_size(path), 301'000 * kEntryBytes / 8);
}

// A truncated file without a complete head is refused. Otherwise, reading it returns the complete chunks and a sentence
// about the problem.
TEST_F(UvmTrace, CutShortAnywhere) {
  {
    TraceWriter writer(path, {{"driver", "580.1"}});
    for (int i = 0; i < 3; ++i) writer.append(entries(10), 0, 0);
    writer.end();
  }
  const auto whole = bytes();
  std::size_t most = 0;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    replace(whole.substr(0, length));
    try {
      const auto trace = read_trace(path);
      EXPECT_NE(trace.problem, "") << length;
      EXPECT_EQ(trace.events.size() % 10, 0u) << "no half chunk";
      EXPECT_GE(trace.events.size(), most);
      most = trace.events.size();
    } catch (const std::runtime_error& refusal) {
      EXPECT_NE(std::string(refusal.what()).find("not a trace"), std::string::npos);
      EXPECT_EQ(most, 0u);
    }
  }
  EXPECT_EQ(most, 30u);
}

TEST_F(UvmTrace, InvalidAnywhere) {
  {
    TraceWriter writer(path, {{"driver", "580.1"}});
    for (int i = 0; i < 3; ++i) writer.append(entries(50), 0, 0);
    writer.end();
  }
  const auto whole = bytes();
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    auto changed = whole;
    for (int i = 0; i < 1 + round % 4; ++i) changed[random() % changed.size()] = static_cast<char>(random());
    replace(changed);
    try {
      const auto trace = read_trace(path);
      EXPECT_LE(trace.events.size(), 150u);
    } catch (const std::runtime_error&) {
    }
  }
}

TEST_F(UvmTrace, WhatIsNoTrace) {
  EXPECT_THROW(read_trace(path), std::runtime_error);
  replace("isthmus");
  EXPECT_THROW(read_trace(path), std::runtime_error);
  replace(std::string(1000, 'x'));
  EXPECT_THROW(read_trace(path), std::runtime_error);
  EXPECT_THROW(TraceWriter(path + "/there/is/none", {}), std::runtime_error);
}

TEST_F(UvmTrace, ARunIsRecorded) {
  FakeDriver driver;
  driver.at_flush = [](FakeDriver& self) { self.put(replay_entry(0)); };
  {
    Recorder recorder(driver, prefix(), {{"process", "1"}}, {.entries = 64});
    driver.put(fault_entry(0x1000, 0));
    recorder.step();
    driver.put(fault_entry(0x2000, 0));
    driver.drop(3, 1);
    driver.put(replay_entry(9));
    recorder.finish();
  }
  const auto trace = read_trace(path);
  EXPECT_EQ(trace.problem, "");
  EXPECT_EQ(trace.facts.at("driver"), "580.159.04");
  EXPECT_EQ(trace.events.size(), 3u) << "two faults, and the replay that the driver held back";
  EXPECT_EQ(trace.dropped, 1u);
  EXPECT_EQ(trace.foreign_replays, 1u);
}

TEST_F(UvmTrace, AnEarlierFileIsNotOverwritten) {
  for (int run = 1; run <= 3; ++run) {
    FakeDriver driver;
    Recorder recorder(driver, prefix(), {{"run", std::to_string(run)}}, {.entries = 64});
    recorder.finish();
  }
  EXPECT_EQ(read_trace(path).facts.at("run"), "1");
  for (const std::string number : {"2", "3"}) {
    const auto next = prefix() + "-" + number + ".uvm";
    EXPECT_EQ(read_trace(next).facts.at("run"), number);
  }
}

TEST_F(UvmTrace, WhatAKilledProcessDrainedIsKept) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    FakeDriver driver;
    Recorder recorder(driver, prefix(), {}, {.entries = 64});
    for (std::uint64_t i = 0; i < 20; ++i) driver.put(fault_entry(i << 12, 1));
    recorder.step();
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  const auto trace = read_trace(path);
  EXPECT_EQ(trace.events.size(), 20u);
  EXPECT_NE(trace.problem.find("killed"), std::string::npos) << trace.problem;
}

}  // namespace
}  // namespace isthmus::trace::uvm
