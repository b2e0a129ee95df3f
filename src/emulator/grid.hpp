#pragma once

// Running launch: its blocks on OS threads, the grid-wide barrier, and its fault.

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

/// Time at which unfinished kernels end, on the clock of seconds().
extern std::atomic<double> work_deadline;

/// OS threads that run blocks. Every job gets a thread, no matter how many jobs are waiting, because a block that waits
/// for another block must not prevent that block from starting.
class Workers {
 public:
  static Workers& instance();
  void submit(std::function<void()> job);

 private:
  struct Shared;
  Workers();
  Shared* shared_;  // exists longer than all threads of the process
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
  // Addresses used as synchronisation objects for TSan; these order the blocks, the mutex does not.
  std::uint64_t begin_token = 0, end_token = 0, barrier_token[2] = {};

  /// Runs all blocks; returns null on success.
  FaultPointer run();

  // Calls made by blocks.
  uint3 block_index(std::uint64_t number) const;
  void fail(ErrorKind kind, const std::string& reason, std::string hint);
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  /// Waits at grid_sync() on behalf of a block whose threads have all arrived. Returns false if the launch has failed.
  bool wait_at_barrier(const uint3& block, const char* file, int line);
  /// Starts another block if any is left. Called by a block that only spins, because it may be waiting for a block that
  /// has not started.
  void start_another_block();

 private:
  void work();
  void finished_block(std::uint64_t number);
  /// Ends threads that have run for too long, and all threads after the deadline. Returns the seconds until the next
  /// check.
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
    double since;  // seconds of CPU time of the block's core
  };
  std::vector<Watched> watched_;
  std::uint64_t waiting_ = 0, generation_ = 0;
  const char* waiting_file_ = "";
  int waiting_line_ = 0;
  std::atomic<bool> failed_ = false;
  FaultPointer fault_;
};

/// Returns the place in the source as text, such as "saxpy.cpp:12".
std::string place(const char* file, int line);
std::string triple(const uint3& index);

}  // namespace emulator
