#pragma once

// One launch while it runs: its blocks over OS threads, the grid-wide barrier, its fault.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/emulator.hpp"
#include "emulator/fault.hpp"
#include "emulator/kernel.hpp"

namespace emulator {

class Block;
class DeviceAccess;

/// When kernels end whether or not they are done, on the clock of seconds().
extern std::atomic<double> work_deadline;

/// OS threads that run blocks. There is always one for a job, however many wait: a block that waits for another must
/// not keep it from starting.
class Workers {
 public:
  static Workers& instance();
  void submit(std::function<void()> job);

 private:
  struct Shared;
  Workers();
  Shared* shared_;  // outlives the process's last thread
};

class Grid {
 public:
  const char* kernel = "";
  void (*invoke)(const void* closure) = nullptr;
  const void* closure = nullptr;
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  bool cooperative = false;
  std::uint64_t launch_number = 0;
  Configuration configuration;
  const DeviceAccess* access = nullptr;
  // Addresses that TSan takes for synchronisation objects: what blocks are ordered by, instead of by the mutex.
  std::uint64_t begin_token = 0, end_token = 0, barrier_token[2] = {};

  /// Runs all blocks; null when all went well.
  FaultPointer run();

  // For blocks.
  uint3 block_index(std::uint64_t number) const;
  void fail(ErrorKind kind, const std::string& reason, std::string hint);
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  /// All threads of a block stand at grid_sync(). False when the launch has failed.
  bool wait_at_barrier(const uint3& block, const char* file, int line);
  /// A block does nothing but spin: perhaps it waits for one that has not started.
  void start_another_block();

 private:
  void work();
  void finished_block(std::uint64_t number);
  /// Ends threads that have run for too long, and all when the deadline has passed; gives the seconds until it wants to
  /// look again.
  double watch();
  void fail_locked(ErrorKind kind, const std::string& reason, std::string hint);
  void check_barrier(const char* file, int line);
  std::uint64_t blocks() const { return std::uint64_t{grid.x} * grid.y * grid.z; }
  std::uint64_t nth_block(std::uint64_t turn) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t next_ = 0;
  std::uint64_t finished_ = 0;
  std::uint64_t last_finished_ = 0;
  unsigned active_ = 0;
  struct Watched {
    Block* block;
    std::uint64_t turn;
    double since;  // of its core's time
  };
  std::vector<Watched> watched_;
  std::uint64_t waiting_ = 0, generation_ = 0;
  const char* waiting_file_ = "";
  int waiting_line_ = 0;
  std::atomic<bool> failed_ = false;
  FaultPointer fault_;
};

/// "saxpy.cpp:12"
std::string place(const char* file, int line);
std::string triple(const uint3& index);

}  // namespace emulator
