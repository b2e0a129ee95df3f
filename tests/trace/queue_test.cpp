// Tests of the reader with a driver that the test simulates: the driver's answers, its queue, and errors in both.

#include "trace/uvm/queue.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <span>
#include <vector>

#include "bytes.hpp"
#include "fake_driver.hpp"

namespace isthmus::trace::uvm {
namespace {

/// Returns the reason why a queue cannot be opened, or "" if it can.
std::string refusal(FakeDriver& driver, const QueueOptions& options = {.entries = 64}) {
  try {
    const Queue queue(driver, options);
    return "";
  } catch (const Unavailable& reason) {
    EXPECT_TRUE(driver.all_closed()) << "a descriptor is left open";
    return reason.what();
  }
}

void expect_words(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words)
    EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' is not in: " << text;
}

TEST(UvmQueue, WhatTheDriverPutsIsTaken) {
  FakeDriver driver;
  Queue queue(driver, {.entries = 64});
  EXPECT_TRUE(driver.enabled);
  for (const int type : {1, 2, 3, 4, 10, 11, 12, 13}) EXPECT_NE(driver.types >> type & 1, 0u) << type;
  driver.put(fault_entry(0x200000, 5));
  driver.put(replay_entry(5));
  const auto taken = queue.take();
  ASSERT_EQ(taken.events.size(), 2u);
  EXPECT_EQ(std::get<GpuFault>(taken.events[0]).address, 0x200000u);
  EXPECT_EQ(std::get<Replay>(taken.events[1]).batch, 5u);
  EXPECT_EQ(taken.dropped, 0u);
  EXPECT_TRUE(queue.take().events.empty()) << "each event is taken once";
}

TEST(UvmQueue, WhatTheDriverHoldsBackComesWithTheFlush) {
  FakeDriver driver;
  driver.at_flush = [](FakeDriver& self) { self.put(fault_entry(0x1000, 1)); };
  Queue queue(driver, {.entries = 64});
  EXPECT_EQ(queue.take().events.size(), 1u);
}

// A queue of 64 entries has room for 63 events. Nevertheless, ten thousand events arrive, and in order.
TEST(UvmQueue, ItIsDrainedWhileTheDriverWrites) {
  FakeDriver driver;
  Queue queue(driver, {.entries = 64});
  constexpr std::uint64_t kMany = 10'000;
  for (std::uint64_t i = 0; i < kMany; ++i) {
    driver.put(fault_entry(i << 12, 1));
    if (i % 32 == 31) usleep(1000);
  }
  auto taken = queue.take();
  ASSERT_EQ(taken.events.size() + taken.dropped, kMany);
  std::uint64_t before = 0;
  for (const auto& event : taken.events) {
    const auto address = std::get<GpuFault>(event).address;
    EXPECT_TRUE(address == 0 || address > before);
    before = address;
  }
}

// The thread does not empty the queue while the driver serves page faults, unless the queue fills.
TEST(UvmQueue, WhatHasRoomStaysInTheQueueUntilItIsAskedFor) {
  FakeDriver driver;
  Queue queue(driver, {.entries = 64});
  for (std::uint64_t i = 0; i < 15; ++i) driver.put(fault_entry(i << 12, 1));
  usleep(20'000);
  EXPECT_EQ(driver.taken(), 0u);
  driver.put(fault_entry(15 << 12, 1));  // now a quarter of the queue is full
  for (int i = 0; i < 10'000 && driver.taken() == 0; ++i) usleep(1000);
  EXPECT_EQ(driver.taken(), 16u);
  driver.put(fault_entry(16 << 12, 1));
  const auto taken = queue.take();
  EXPECT_EQ(taken.events.size(), 17u);
  EXPECT_EQ(taken.dropped, 0u);
}

// Events are kept without a call of take(), because a process that is killed does not call it again.
TEST(UvmQueue, WhatCameIsKeptThoughNobodyAsks) {
  FakeDriver driver;
  std::mutex mutex;
  std::vector<Entry> kept;
  std::uint64_t dropped = 0;
  const auto keep = [&](std::span<const Entry> entries, std::uint64_t more) {
    const std::lock_guard lock(mutex);
    kept.insert(kept.end(), entries.begin(), entries.end());
    dropped += more;
  };
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return kept.size();
  };
  const auto wait_for = [&](std::size_t wanted) {
    for (int i = 0; i < 10'000 && count() < wanted; ++i) usleep(1000);
    EXPECT_EQ(count(), wanted);
  };
  Queue queue(driver, {.entries = 64, .keep = keep});
  driver.put(fault_entry(0x1000, 1));
  wait_for(1);
  driver.put(fault_entry(0x2000, 1));
  driver.put(replay_entry(77));  // replay for another process
  driver.drop(3, 5);
  wait_for(2);
  EXPECT_EQ(decode(kept[1]), Event(decode(fault_entry(0x2000, 1))));
  const auto taken = queue.take();
  EXPECT_EQ(taken.events.size(), 2u) << "who asks is given them too";
  EXPECT_EQ(taken.dropped, 5u);
  driver.put(fault_entry(0x3000, 1));
  queue.take();
  EXPECT_EQ(count(), 3u) << "also what was taken before the thread came";
  EXPECT_EQ(dropped, 5u);
}

TEST(UvmQueue, WhatMovesIsNotAskedForWhereNobodyWantsIt) {
  FakeDriver driver;
  const Queue queue(driver, {.entries = 64, .moves = false});
  EXPECT_EQ(driver.types >> 2 & 1, 0u);
  for (const int type : {1, 3, 4, 6, 10, 11, 12, 13}) EXPECT_NE(driver.types >> type & 1, 0u) << type;
}

TEST(UvmQueue, DroppedEventsAreToldOnce) {
  FakeDriver driver;
  Queue queue(driver, {.entries = 64});
  driver.drop(3, 5);
  driver.drop(63, 2);
  EXPECT_EQ(queue.take().dropped, 7u);
  EXPECT_EQ(queue.take().dropped, 0u);
}

TEST(UvmQueue, ReplaysOfOtherProcessesAreCountedAndNotKept) {
  FakeDriver driver;
  Queue queue(driver, {.entries = 64});
  driver.put(replay_entry(1));
  driver.put(fault_entry(0x1000, 2));
  driver.put(replay_entry(2));
  driver.put(replay_entry(2, 0, 2));  // replay of a batch with the same number on another GPU
  auto taken = queue.take();
  EXPECT_EQ(taken.events.size(), 2u);
  EXPECT_EQ(taken.foreign_replays, 2u);
  driver.put(replay_entry(2));  // a second replay of batch 2, after the call of take()
  driver.put(replay_entry(3));
  taken = queue.take();
  EXPECT_EQ(taken.events.size(), 1u);
  EXPECT_EQ(taken.foreign_replays, 1u);
  for (int i = 0; i < 5; ++i) queue.drained();  // a recorder calls it repeatedly while the driver still serves a batch
  driver.put(replay_entry(2));
  EXPECT_EQ(queue.take().foreign_replays, 0u);
}

TEST(UvmQueue, TheWrongDescriptorIsLeftForTheOther) {
  FakeDriver driver;
  driver.memory_descriptors = {6, 7};
  EXPECT_EQ(refusal(driver), "");
  ASSERT_EQ(driver.tries.size(), 2u);
  EXPECT_EQ(driver.tries[0].second, 6u);
  EXPECT_EQ(driver.tries[1].second, 7u);
  EXPECT_NE(driver.tries[0].first, driver.tries[1].first) << "a descriptor of the queue is asked once";
  EXPECT_TRUE(driver.all_closed());
}

TEST(UvmQueue, AllDescriptorsAreWrong) {
  FakeDriver driver;
  driver.own_descriptor = 9;
  driver.memory_descriptors = {6, 7};
  expect_words(refusal(driver), {"provides no queue", "0x16"});
}

TEST(UvmQueue, TheVersionOfTheEntriesIsWhereABranchLooksForIt) {
  for (const char* version : {"550.54.14", "555.42.02", "560.28.03", "580.159.04"}) {
    FakeDriver driver;
    driver.version = version;
    EXPECT_EQ(refusal(driver), "") << version;
    EXPECT_EQ(driver.word_48, 1u) << version;
    EXPECT_EQ(driver.word_52, 1u) << version;
  }
}

TEST(UvmQueue, TheStatusIsReadWhereABranchWritesIt) {
  for (const char* version : {"535.129.03", "555.42.02", "560.28.03", "580.159.04"}) {
    FakeDriver driver;
    driver.version = version;
    driver.init_status = 0x1f;
    expect_words(refusal(driver), {"provides no queue", "0x1f"});
  }
}

TEST(UvmQueue, AnUnknownBranchIsRefusedUnlessForced) {
  for (const char* version : {"510.47.03", "601.12", ""}) {
    FakeDriver driver;
    driver.version = version;
    expect_words(refusal(driver), {"ISTHMUS_UVM=force"});
    EXPECT_TRUE(driver.tries.empty()) << "nothing is asked of it";
    EXPECT_EQ(refusal(driver, {.entries = 64, .forced = true}), "");
  }
}

TEST(UvmQueue, NoNode) {
  FakeDriver driver;
  driver.version = "";
  driver.open_answer = -ENOENT;
  expect_words(refusal(driver), {"/dev/nvidia-uvm-tools", "No such file", "container", "profiler=cupti"});
  driver.open_answer = -EACCES;
  expect_words(refusal(driver), {"Permission denied", "666"});
}

TEST(UvmQueue, ASandboxedNode) {
  for (const int failure : {-ENOTTY, -EINVAL, -ENOSYS, -EPERM}) {
    FakeDriver driver;
    driver.control_answer = failure;
    expect_words(refusal(driver), {"accepts no request", "sandbox", "profiler=cupti"});
  }
}

TEST(UvmQueue, NoCudaInThisProcess) {
  FakeDriver driver;
  driver.memory_descriptors.clear();
  expect_words(refusal(driver), {"not begun to use CUDA"});
}

TEST(UvmQueue, EventsThatCannotBeEnabled) {
  FakeDriver driver;
  driver.enable_status = 0x56;
  expect_words(refusal(driver), {"does not enable", "0x56"});
}

TEST(UvmQueue, AFlushThatFailsIsNoEmptySample) {
  FakeDriver driver;
  Queue queue(driver, {.entries = 64});
  driver.flush_status = 0x40;
  try {
    queue.take();
    FAIL() << "it said nothing";
  } catch (const Unavailable& reason) {
    expect_words(reason.what(), {"0x40", "run again"});
  }
}

TEST(UvmQueue, EventsAreOffBeforeTheQueueIsClosed) {
  FakeDriver driver;
  {
    const Queue queue(driver, {.entries = 64});
  }
  EXPECT_FALSE(driver.enabled);
  EXPECT_FALSE(driver.closed_enabled);
  EXPECT_TRUE(driver.all_closed());
}

// The driver continues to write to the parent's pages, so a child that inherited them would see stale or torn entries.
TEST(UvmQueue, AChildDoesNotInheritTheQueue) {
  FakeDriver driver;
  const Queue queue(driver, {.entries = 64});
  void* page = driver.queue();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int pipes[2];
    if (pipe(pipes) != 0) _exit(2);
    _exit(write(pipes[1], page, 1) < 0 && errno == EFAULT ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace isthmus::trace::uvm
