// Tests of batches of jobs on the emulator: every mode produces correct results, whatever call fails.

#include "interjob/pipeline.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>

#include "device/kernel/kernel.hpp"
#include "emulator/emulator.hpp"
#include "interjob/costs.hpp"

namespace isthmus::interjob {
namespace {

constexpr Source kDeviceSources[] = {Kind::device, Kind::pool, Kind::managed, Kind::vmm, kChunked};

// Launch shape with few threads, because each is expensive under TSan.
constexpr device::LaunchShape kShape{.grid = 2, .block = 32};

__global__ void add(unsigned* to, std::size_t count, unsigned what) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) to[i] += what;
}

/// Adds elements from both ends of the input, so that results are correct only if all of it is on the device.
__global__ void add_ends(const unsigned* from, std::size_t count, unsigned* to, std::size_t kept, unsigned what) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < kept; i += gridDim.x * blockDim.x)
    to[i] = from[i] + from[count - 1 - i] + what;
}

/// Jobs that copy numbers to the device, add the job's index to each and copy the sums back.
class Jobs {
 public:
  explicit Jobs(std::size_t count, Source source = Kind::device, std::size_t bytes = 4096) : results_(count) {
    for (std::size_t i = 0; i < count; ++i) add_job(source, bytes);
  }
  void add_job(Source source, std::size_t bytes) {
    const std::size_t i = jobs_.size();
    if (results_.size() <= i) results_.resize(i + 1);
    const std::size_t count = bytes / sizeof(unsigned);
    Job job{.name = "job " + std::to_string(i), .memory = {{source, bytes}, {Kind::pinned, bytes}}};
    job.in = [=](const Work& work) {
      auto* host = static_cast<unsigned*>(work.memory[1]);
      for (std::size_t k = 0; k < count; ++k) host[k] = static_cast<unsigned>(k);
      device::copy_async(work.memory[0], host, bytes, work.stream);
    };
    job.kernel = [=](const Work& work) {
      device::launch(work.stream, ISTHMUS_KERNEL(add), kShape, static_cast<unsigned*>(work.memory[0]), count,
                     static_cast<unsigned>(i));
    };
    job.out = [=](const Work& work) { device::copy_async(work.memory[1], work.memory[0], bytes, work.stream); };
    job.finish = [this, i, count](std::span<void* const> memory) {
      const auto* host = static_cast<const unsigned*>(memory[1]);
      bool right = true;
      for (std::size_t k = 0; k < count; ++k) right &= host[k] == k + i;
      results_[i] = right ? Seen::right : Seen::wrong;
    };
    jobs_.push_back(std::move(job));
  }

  /// Adds a job that adds its index to sums of its inputs. The inputs have `bytes` bytes, and the kernel is the last
  /// phase to read them. The results have `results` bytes, at most `bytes`, and the kernel is the first phase to write
  /// them.
  void add_chunked_job(std::size_t bytes, std::size_t results) {
    results = std::min(results, bytes);
    const std::size_t i = jobs_.size(), count = bytes / sizeof(unsigned), kept = results / sizeof(unsigned);
    if (results_.size() <= i) results_.resize(i + 1);
    Job job{.name = "job " + std::to_string(i),
            .memory = {{kChunked, bytes, Phase::in, Phase::kernel},
                       {kChunked, results, Phase::kernel, Phase::finish},
                       {Kind::pinned, bytes}}};
    job.in = [=](const Work& work) {
      auto* host = static_cast<unsigned*>(work.memory[2]);
      for (std::size_t k = 0; k < count; ++k) host[k] = static_cast<unsigned>(k);
      device::copy_async(work.memory[0], host, bytes, work.stream);
    };
    job.kernel = [=](const Work& work) {
      device::launch(work.stream, ISTHMUS_KERNEL(add_ends), kShape, static_cast<const unsigned*>(work.memory[0]), count,
                     static_cast<unsigned*>(work.memory[1]), kept, static_cast<unsigned>(i));
    };
    job.out = [=](const Work& work) { device::copy_async(work.memory[2], work.memory[1], results, work.stream); };
    job.finish = [this, i, kept, count](std::span<void* const> memory) {
      const auto* host = static_cast<const unsigned*>(memory[2]);
      bool right = true;
      for (std::size_t k = 0; k < kept; ++k) right &= host[k] == k + (count - 1 - k) + i;
      results_[i] = right ? Seen::right : Seen::wrong;
    };
    jobs_.push_back(std::move(job));
  }

  enum class Seen { nothing, right, wrong };
  Job& operator[](std::size_t i) { return jobs_[i]; }
  const std::vector<Job>& all() const { return jobs_; }
  Seen seen(std::size_t i) const { return results_[i]; }

 private:
  std::vector<Job> jobs_;
  std::vector<Seen> results_;
};

/// Runs a batch. If it hangs, aborts the test program with a message that names the batch.
Result run_watched(const Jobs& jobs, Options options, const std::string& what = {}) {
  options.force = true;  // emulated times do not show whether overlap is worth it
  auto running = std::async(std::launch::async, [&] { return run(jobs.all(), options); });
  if (running.wait_for(std::chrono::seconds(60)) != std::future_status::ready) {
    std::fprintf(stderr, "the batch hangs: %s %s\n", std::string(name(options.mode)).c_str(), what.c_str());
    std::abort();
  }
  return running.get();
}

class Pipeline : public testing::Test {
 protected:
  void SetUp() override {
    emulator::configure({});
    device::select(0);
    free_ = device::memory_info().free;
  }
  void TearDown() override {
    device::set_injection("");
    emulator::reset();
    emulator::configure({});
  }
  void use(const std::string& emulator) {
    emulator::configure(emulator::parse(emulator));
    free_ = device::memory_info().free;
  }
  void expect_nothing_held() { EXPECT_EQ(device::memory_info().free, free_); }
  std::size_t free_ = 0;
};

TEST_F(Pipeline, EveryModeAndKindGivesRightResults) {
  for (const Mode mode : kModes) {
    for (const Source source : kDeviceSources) {
      for (const int threads : {1, 3}) {
        Jobs jobs(12, source);
        const auto result = run_watched(jobs, {.mode = mode, .depth = 4, .allocating_threads = threads});
        ASSERT_EQ(result.jobs.size(), 12u);
        for (std::size_t i = 0; i < 12; ++i) {
          EXPECT_EQ(result.jobs[i].error, "") << name(mode) << " " << name(source);
          EXPECT_EQ(jobs.seen(i), Jobs::Seen::right) << name(mode) << " " << name(source) << " " << i;
          EXPECT_EQ(result.jobs[i].name, "job " + std::to_string(i));
        }
        expect_nothing_held();
      }
    }
  }
}

TEST_F(Pipeline, PhasesFollowEachOtherAndSerialJobsDoNotOverlap) {
  for (const Mode mode : kModes) {
    Jobs jobs(6);
    const auto result = run_watched(jobs, {.mode = mode});
    for (const auto& job : result.jobs) {
      EXPECT_LE(job.allocate.begin, job.allocate.end);
      EXPECT_LE(job.in.begin, job.in.end);
      EXPECT_LE(job.in.end, job.kernel.end);
      EXPECT_LE(job.kernel.end, job.out.end);
      EXPECT_LE(job.finish.end, job.release.begin);
      EXPECT_LE(job.release.end, result.seconds);
    }
    for (std::size_t i = 1; i < 6; ++i) {
      EXPECT_LE(result.jobs[i - 1].kernel.end, result.jobs[i].kernel.end) << "jobs keep their order";
      if (mode == Mode::serial) {
        EXPECT_LE(result.jobs[i - 1].release.end, result.jobs[i].allocate.begin);
      }
    }
  }
}

TEST_F(Pipeline, NoMoreJobsHoldMemoryThanAsked) {
  constexpr std::size_t kBytes = 64 << 10;
  for (const Mode mode : kModes) {
    for (const int depth : {1, 2, 5}) {
      Jobs jobs(10, Kind::device, kBytes);
      const auto result = run_watched(jobs, {.mode = mode, .depth = depth, .allocating_threads = 2});
      const auto most = static_cast<std::size_t>(mode == Mode::serial ? 1 : depth);
      EXPECT_LE(result.peak_device_bytes, most * kBytes) << name(mode);
      EXPECT_GE(result.peak_device_bytes, kBytes);
    }
  }
}

TEST_F(Pipeline, MemoryIsHandedOnWhereJobsAskForTheSame) {
  Jobs jobs(10);
  std::vector<void*> seen;
  for (std::size_t i = 0; i < 10; ++i) {
    auto before = jobs[i].kernel;
    jobs[i].kernel = [&seen, before](const Work& work) {
      if (std::find(seen.begin(), seen.end(), work.memory[0]) == seen.end()) seen.push_back(work.memory[0]);
      before(work);
    };
  }
  run_watched(jobs, {.mode = Mode::recycled, .depth = 2});
  EXPECT_LE(seen.size(), 2u);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(jobs.seen(i), Jobs::Seen::right);
  expect_nothing_held();
}

TEST_F(Pipeline, KeptMemoryMakesRoomForJobsThatAskForOther) {
  use("memory=512KiB");
  Jobs jobs(0);
  for (const std::size_t bytes : {3 << 16, 1 << 16, 3 << 16, 5 << 16, 1 << 16}) jobs.add_job(Kind::device, bytes);
  for (const std::size_t limit : {std::size_t{0}, std::size_t{6} << 16}) {
    const auto result = run_watched(jobs, {.mode = Mode::recycled, .device_limit = limit});
    for (const auto& job : result.jobs) EXPECT_EQ(job.error, "") << job.name;
    if (limit != 0) {
      EXPECT_LE(result.peak_device_bytes, limit);
    }
  }
  expect_nothing_held();
}

TEST_F(Pipeline, AJobThatFailsCancelsNothingButItself) {
  // Work queued before the failure still runs, so the job's memory may not be freed earlier.
  const auto fail_after = [](const auto& body) {
    return [body](const auto& argument) {
      body(argument);
      throw std::runtime_error("it went wrong");
    };
  };
  for (const Mode mode : kModes) {
    for (const Source source : kDeviceSources) {
      Jobs jobs(8, source);
      jobs[1].in = fail_after(jobs[1].in);
      jobs[2].kernel = fail_after(jobs[2].kernel);
      jobs[3].out = fail_after(jobs[3].out);
      jobs[5].finish = fail_after(jobs[5].finish);
      const auto result = run_watched(jobs, {.mode = mode});
      for (std::size_t i = 0; i < 8; ++i) {
        const bool broken = i == 1 || i == 2 || i == 3 || i == 5;
        EXPECT_EQ(result.jobs[i].error, broken ? "it went wrong" : "") << name(mode) << " " << i;
        EXPECT_EQ(jobs.seen(i), broken && i != 5 ? Jobs::Seen::nothing : Jobs::Seen::right);
      }
      device::synchronize();
      expect_nothing_held();
    }
  }
}

TEST_F(Pipeline, JobsWaitForRoomOrFailByChoice) {
  constexpr std::size_t kBytes = 64 << 10;
  for (const Mode mode : {Mode::overlap_alloc, Mode::overlap_all, Mode::recycled}) {
    Jobs jobs(10, Kind::device, kBytes);
    jobs[4].memory[0].bytes = 8 * kBytes;  // exceeds the limit for all jobs, so only this job fails
    Options options{.mode = mode, .depth = 6, .allocating_threads = 2, .device_limit = 2 * kBytes};
    auto result = run_watched(jobs, options);
    for (std::size_t i = 0; i < 10; ++i) {
      EXPECT_EQ(result.jobs[i].error.empty(), i != 4) << result.jobs[i].error;
      EXPECT_EQ(jobs.seen(i) == Jobs::Seen::right, i != 4);
    }
    EXPECT_NE(result.jobs[4].error.find("524288 bytes"), std::string::npos) << result.jobs[4].error;
    EXPECT_LE(result.peak_device_bytes, 2 * kBytes);

    options.wait_for_room = false;
    result = run_watched(jobs, options);
    EXPECT_EQ(result.jobs[0].error, "");
    EXPECT_LE(result.peak_device_bytes, 2 * kBytes);
  }
  expect_nothing_held();
}

// The second job fails when it requests memory, so the fourth begins while the first still has its memory.
TEST_F(Pipeline, JobsThatHoldMemoryAtOnceNeverShareASlot) {
  constexpr std::size_t kBytes = 64 << 10, kDepth = 3;
  for (const Mode mode : kModes) {
    Jobs jobs(9, Kind::device, kBytes);
    jobs[1].memory[0].bytes = jobs[5].memory[0].bytes = 8 * kBytes;
    std::array<std::atomic<int>, kDepth> holders{};
    std::atomic<int> shared = 0;
    for (std::size_t i = 0; i < 9; ++i) {
      const auto slot = std::make_shared<std::size_t>(0);
      jobs[i].in = [&, slot, before = jobs[i].in](const Work& work) {
        *slot = work.slot;
        shared += holders.at(work.slot)++;
        before(work);
      };
      jobs[i].finish = [&, slot, before = jobs[i].finish](std::span<void* const> memory) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        before(memory);
        --holders[*slot];
      };
    }
    const auto result =
        run_watched(jobs, {.mode = mode, .depth = kDepth, .device_limit = kDepth * kBytes, .wait_for_room = false});
    EXPECT_NE(result.jobs[1].error, "");
    EXPECT_EQ(jobs.seen(3), Jobs::Seen::right);
    EXPECT_EQ(shared, 0) << name(mode);
  }
  expect_nothing_held();
}

TEST_F(Pipeline, WhatTheDeviceRefusesIsWaitedFor) {
  use("memory=576KiB");
  for (const Mode mode : {Mode::overlap_alloc, Mode::overlap_all, Mode::recycled}) {
    for (const int threads : {1, 2, 4}) {
      Jobs jobs(0);
      for (std::size_t i = 0; i < 24; ++i) jobs.add_job(Kind::device, (1 + i * 7 % 8) << 16);
      jobs.add_job(Kind::device, 2 << 20);  // larger than the device's memory
      const auto result = run_watched(jobs, {.mode = mode, .depth = 8, .allocating_threads = threads});
      for (std::size_t i = 0; i < 24; ++i) {
        EXPECT_EQ(result.jobs[i].error, "") << name(mode) << " " << threads << " " << i;
        EXPECT_EQ(jobs.seen(i), Jobs::Seen::right);
      }
      EXPECT_NE(result.jobs[24].error, "");
      expect_nothing_held();
    }
  }
}

TEST_F(Pipeline, ALaterJobGivesWayToAnEarlierOne) {
  use("memory=640KiB");
  constexpr std::size_t kUnit = 64 << 10;
  Jobs jobs(0);
  for (int round = 0; round < 20; ++round) {
    // The first job has 4 of 10 units, so the second is refused its 8. The third gets 5, which the second then needs.
    for (const std::size_t units : {4, 8, 5}) jobs.add_job(Kind::device, units * kUnit);
    const auto i = 3 * static_cast<std::size_t>(round);
    jobs[i].finish = [before = jobs[i].finish](std::span<void* const> memory) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      before(memory);
    };
  }
  const auto result = run_watched(jobs, {.mode = Mode::overlap_all, .depth = 3, .allocating_threads = 2});
  for (std::size_t i = 0; i < 60; ++i) {
    EXPECT_EQ(result.jobs[i].error, "") << i;
    EXPECT_EQ(jobs.seen(i), Jobs::Seen::right) << i;
  }
  expect_nothing_held();
}

TEST_F(Pipeline, JobsThatNeverFitDoNotWaitForEachOther) {
  use("memory=256KiB");
  Jobs jobs(4, Kind::device, 1 << 20);
  jobs.add_job(Kind::device, 4096);
  for (const int threads : {1, 2, 4}) {
    const auto result = run_watched(jobs, {.mode = Mode::overlap_all, .depth = 5, .allocating_threads = threads});
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(result.jobs[i].error.empty(), i == 4) << threads;
  }
}

TEST_F(Pipeline, WhateverCallFailsNothingHangsOrLeaks) {
  for (const auto call : device::injectable_calls()) {
    for (const Mode mode : kModes) {
      bool made = true;  // becomes false if the batch does not make this call, as with most calls
      for (const std::string kind : {"", ":oom", ":lost"}) {
        for (const int nth : {1, 2, 5, 9}) {
          if (!made) continue;
          const std::string injection = std::string(call) + ":" + std::to_string(nth) + kind;
          Jobs jobs(0);  // without chunks, which another test covers
          for (std::size_t i = 0; i < 5; ++i) jobs.add_job(i % 2 == 0 ? Kind::device : Kind::pool, 4096);
          device::set_injection(injection);
          try {
            const auto result = run_watched(jobs, {.mode = mode, .allocating_threads = 2}, injection);
            device::set_injection("");
            ASSERT_EQ(result.jobs.size(), 5u);
            if (nth == 1)
              made = std::any_of(result.jobs.begin(), result.jobs.end(), [](const auto& job) { return job.failure; });
            for (std::size_t i = 0; i < 5; ++i) {
              if (result.jobs[i].error.empty()) {
                EXPECT_EQ(jobs.seen(i), Jobs::Seen::right) << injection << " " << name(mode) << " " << i;
              } else {
                EXPECT_TRUE(result.jobs[i].failure);
              }
            }
          } catch (const device::Error&) {  // thrown before any job, because a stream, event or device was missing
            device::set_injection("");
          }
          // If a deallocation is made to fail, its memory is lost; in all other cases all memory must be free again.
          if (call.find("free") == std::string_view::npos) {
            EXPECT_EQ(device::memory_info().free, free_) << injection << " " << name(mode);
          }
          emulator::reset();
          free_ = device::memory_info().free;
        }
      }
    }
  }
}

TEST_F(Pipeline, JobsAskForMemoryOfAnyKindButTheirOwn) {
  for (const auto& row : memory::all_kinds()) {
    const std::vector<Job> jobs{{.memory = {{row.kind, 4096}}}};
    if (row.kind == Kind::registered) {
      EXPECT_THROW(run(jobs, {.mode = Mode::serial}), std::invalid_argument);
      continue;
    }
    const auto result = run(jobs, {.mode = Mode::serial});
    EXPECT_EQ(result.jobs.front().error, "") << row.name;
    EXPECT_EQ(result.peak_device_bytes > 0, on_device(row.kind) || is_managed(row.kind)) << row.name;
    expect_nothing_held();
  }
}

TEST_F(Pipeline, ChunkedJobsShareAMemoryThatHoldsNoTwoOfThem) {
  // Inputs are freed after the kernel, and results are needed only from the kernel on. So a job needs 4 of its 6 units
  // at first, with a limit of 8 units for all jobs.
  constexpr std::size_t kUnit = 256 << 10;
  for (const Mode mode : kModes) {
    for (const int threads : {1, 3}) {
      Jobs jobs(0);
      for (std::size_t i = 0; i < 12; ++i) jobs.add_chunked_job(4 * kUnit, 2 * kUnit);
      const Options options{
          .mode = mode, .depth = 3, .allocating_threads = threads, .device_limit = 8 * kUnit, .chunk_bytes = kUnit / 2};
      const auto result = run_watched(jobs, options);
      for (std::size_t i = 0; i < 12; ++i) {
        EXPECT_EQ(result.jobs[i].error, "") << name(mode);
        EXPECT_EQ(jobs.seen(i), Jobs::Seen::right) << name(mode) << " " << i;
      }
      EXPECT_LE(result.peak_device_bytes, options.device_limit);
      EXPECT_GE(result.peak_device_bytes, 6 * kUnit);
      if (mode != Mode::serial) {  // at least one job begins to allocate before its predecessor is released
        int early = 0;
        for (std::size_t i = 1; i < 12; ++i)
          early += result.jobs[i].allocate.begin < result.jobs[i - 1].release.begin ? 1 : 0;
        EXPECT_GT(early, 0) << name(mode);
      }
      expect_nothing_held();
    }
  }
}

TEST_F(Pipeline, ACapThatPlainOverlapCannotKeepIsRefusedAndChunksFinish) {
  constexpr std::size_t kUnit = 256 << 10;
  for (const bool chunked : {false, true}) {
    Jobs jobs(0);
    for (std::size_t i = 0; i < 6; ++i) {
      jobs.add_chunked_job(4 * kUnit, 2 * kUnit);
      for (auto& request : jobs[i].memory)
        if (!chunked && request.source == kChunked) request.source = Kind::device;
      // Pauses, so that the next job starts while this one still has its memory.
      jobs[i].finish = [before = jobs[i].finish](std::span<void* const> memory) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        before(memory);
      };
    }
    const auto result = run_watched(jobs, {.mode = Mode::overlap_all,
                                           .depth = 2,
                                           .device_limit = 8 * kUnit,
                                           .wait_for_room = chunked,
                                           .chunk_bytes = kUnit / 2});
    int failed = 0;
    for (std::size_t i = 0; i < 6; ++i) {
      const auto& error = result.jobs[i].error;
      EXPECT_EQ(jobs.seen(i) == Jobs::Seen::right, error.empty());
      if (error.empty()) continue;
      ++failed;
      EXPECT_NE(error.find("but jobs may use at most 2097152"), std::string::npos) << error;
    }
    EXPECT_EQ(failed > 0, !chunked);
    expect_nothing_held();
  }
}

TEST_F(Pipeline, ChunkedJobsAndOthersWaitForEachOther) {
  use("memory=2MiB");
  for (const Mode mode : {Mode::overlap_alloc, Mode::overlap_all, Mode::recycled}) {
    for (const int threads : {1, 2, 4}) {
      for (const std::size_t limit : {std::size_t{0}, std::size_t{2} << 20}) {
        Jobs jobs(0);
        for (std::size_t i = 0; i < 24; ++i) {
          if (i % 3 == 0) {
            jobs.add_job(Kind::device, (1 + i * 7 % 16) << 16);
          } else {
            jobs.add_chunked_job((2 + i * 5 % 16) << 16, (1 + i * 3 % 8) << 16);
          }
        }
        jobs.add_chunked_job(4 << 20, 1 << 16);  // larger than the device's memory
        const auto result = run_watched(
            jobs, {.mode = mode, .depth = 6, .allocating_threads = threads, .device_limit = limit, .chunk_bytes = 1});
        for (std::size_t i = 0; i < 24; ++i) {
          EXPECT_EQ(result.jobs[i].error, "") << name(mode) << " " << threads << " " << i;
          EXPECT_EQ(jobs.seen(i), Jobs::Seen::right) << i;
        }
        EXPECT_NE(result.jobs[24].error, "");
        expect_nothing_held();
      }
    }
  }
}

TEST_F(Pipeline, WhateverCallFailsWithChunksNothingHangsOrLeaks) {
  for (const std::string call : {"memory_granularity", "reserve_addresses", "create_memory", "map_memory", "set_access",
                                 "unmap_memory", "release_memory", "release_addresses"}) {
    for (const Mode mode : kModes) {
      for (const std::string kind : {"", ":oom", ":lost"}) {
        for (const int nth : {1, 2, 5, 12}) {
          const std::string injection = call + ":" + std::to_string(nth) + kind;
          Jobs jobs(0);
          for (std::size_t i = 0; i < 5; ++i) {
            if (i == 2) {
              jobs.add_job(Kind::vmm, 1 << 16);
            } else {
              jobs.add_chunked_job(2 << 16, 1 << 16);
            }
          }
          device::set_injection(injection);
          try {
            const auto result = run_watched(
                jobs, {.mode = mode, .allocating_threads = 2, .device_limit = 5 << 16, .chunk_bytes = 1}, injection);
            device::set_injection("");
            for (std::size_t i = 0; i < 5; ++i) {
              if (result.jobs[i].error.empty()) {
                EXPECT_EQ(jobs.seen(i), Jobs::Seen::right) << injection << " " << name(mode) << " " << i;
              } else {
                EXPECT_TRUE(result.jobs[i].failure);
              }
            }
          } catch (const device::Error&) {
            device::set_injection("");
          }
          // Memory that could not be unmapped or released is lost; in all other cases all memory must be free again.
          const bool gives_back = call == "unmap_memory" || call.starts_with("release");
          if (!gives_back) {
            EXPECT_EQ(device::memory_info().free, free_) << injection << " " << name(mode);
          }
          emulator::reset();
          free_ = device::memory_info().free;
        }
      }
    }
  }
}

TEST_F(Pipeline, OverlapsOnlyWhatPays) {
  // These jobs are so quick that overlap cannot hide anything.
  Jobs quick(8);
  Costs costs;
  auto result = run(quick.all(), {.mode = Mode::overlap_all, .costs = &costs});
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(quick.seen(i), Jobs::Seen::right);
  EXPECT_TRUE(costs.known());
  EXPECT_FALSE(result.reason.empty());

  // In these jobs `in` and `finish` are both long and run on different threads, so each can hide behind the other.
  Jobs slow(8);
  for (std::size_t i = 0; i < 8; ++i) {
    const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(15)); };
    slow[i].in = [pause, before = slow[i].in](const Work& work) { pause(), before(work); };
    slow[i].finish = [pause, before = slow[i].finish](std::span<void* const> memory) { pause(), before(memory); };
  }
  Costs slow_costs;
  result = run(slow.all(), {.mode = Mode::overlap_all, .costs = &slow_costs});
  EXPECT_EQ(result.mode, Mode::overlap_all) << result.reason;
  EXPECT_TRUE(slow_costs.overlapped.contains(Mode::overlap_all));
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(slow.seen(i), Jobs::Seen::right);
  // Only the first two jobs of the first batch ran alone.
  EXPECT_LE(result.jobs[0].release.end, result.jobs[1].allocate.begin);
  EXPECT_LT(result.jobs[3].allocate.begin, result.jobs[2].release.end);
  result = run(slow.all(), {.mode = Mode::overlap_all, .costs = &slow_costs});
  EXPECT_LT(result.jobs[1].allocate.begin, result.jobs[0].release.end);

  // A batch is not overlapped if an earlier one was slower than serial jobs, unless it is forced.
  slow_costs.overlapped[Mode::overlap_all] = {.job = 1.0, .batches = 2};
  EXPECT_EQ(run(slow.all(), {.mode = Mode::overlap_all, .costs = &slow_costs}).mode, Mode::serial);
  EXPECT_EQ(run(slow.all(), {.mode = Mode::overlap_all, .force = true, .costs = &slow_costs}).mode, Mode::overlap_all);
  expect_nothing_held();
}

TEST_F(Pipeline, OptionsThatMakeNoSenseAreRefused) {
  EXPECT_THROW(run({}, {.depth = 0}), std::invalid_argument);
  EXPECT_THROW(run({}, {.allocating_threads = 0}), std::invalid_argument);
  EXPECT_THROW(run({}, {.device = 7}), device::Error);
  EXPECT_TRUE(run({}, {}).jobs.empty());
}

}  // namespace
}  // namespace isthmus::interjob
