#include "emulator/grid.hpp"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <limits>
#include <numeric>
#include <system_error>
#include <thread>

#include "emulator/block.hpp"
#include "emulator/fault_handler.hpp"
#include "emulator/format.hpp"
#include "emulator/memory.hpp"
#include "emulator/sanitizers.hpp"

namespace emulator {

std::atomic<double> work_deadline = std::numeric_limits<double>::infinity();

// --- OS threads ------------------------------------------------------------------------------------

struct Workers::Shared {
  std::mutex mutex;
  std::condition_variable wanted;
  std::deque<std::function<void()>> jobs;
  std::size_t idle = 0;

  void work() {
    use_alternate_stack();
    std::unique_lock lock(mutex);
    for (;;) {
      ++idle;
      wanted.wait(lock, [&] { return !jobs.empty(); });
      --idle;
      std::function<void()> job = std::move(jobs.front());
      jobs.pop_front();
      lock.unlock();
      job();
      job = nullptr;
      lock.lock();
    }
  }
};

Workers::Workers() : shared_(new Shared) {}

Workers& Workers::instance() {
  static Workers* workers = new Workers;  // never destroyed, because its threads wait on it until the process ends
  return *workers;
}

void Workers::submit(std::function<void()> job) {
  const std::lock_guard lock(shared_->mutex);
  shared_->jobs.push_back(std::move(job));
  if (shared_->idle >= shared_->jobs.size()) {
    shared_->wanted.notify_one();
    return;
  }
  // All __shared__ arrays of the program are thread-local and occupy space in the thread's stack, so it must be large.
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, std::size_t{64} << 20);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  const int problem = pthread_create(
      &thread, &attributes,
      [](void* shared) -> void* {
        static_cast<Shared*>(shared)->work();
        return nullptr;
      },
      shared_);
  pthread_attr_destroy(&attributes);
  if (problem != 0) {
    shared_->jobs.pop_back();
    throw std::system_error(problem, std::generic_category(), "the emulator cannot start an OS thread");
  }
}

// --- a launch --------------------------------------------------------------------------------------

std::string place(const char* file, int line) {
  const char* slash = std::strrchr(file, '/');
  return sentence("{}:{}", slash ? slash + 1 : file, line);
}

std::string triple(const uint3& index) {
  return sentence("({},{},{})", index.x, index.y, index.z);
}

uint3 Grid::block_index(std::uint64_t number) const {
  return {static_cast<unsigned>(number % grid.x), static_cast<unsigned>(number / grid.x % grid.y),
          static_cast<unsigned>(number / grid.x / grid.y)};
}

std::uint64_t Grid::nth_block(std::uint64_t turn) const {
  const std::uint64_t n = blocks();
  if (configuration.order == Order::natural || n == 1) return turn;
  if (configuration.order == Order::reverse) return n - 1 - turn;
  // A step that is coprime to n visits every block exactly once.
  const std::uint64_t mixed = (configuration.seed + launch_number + 1) * 0x9e3779b97f4a7c15ULL;
  std::uint64_t step = (mixed >> 33) % n;
  while (std::gcd(step, n) != 1) ++step;
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(turn) * step + (mixed & 0xffff)) % n);
}

FaultPointer Grid::run() {
  // At least two threads are used, because blocks that run on the same thread are ordered, so TSan would not find races
  // between them.
  unsigned threads = configuration.workers ? configuration.workers : std::max(2u, std::thread::hardware_concurrency());
  if (cooperative || threads > blocks()) threads = static_cast<unsigned>(blocks());
  sanitizer_release(&begin_token);
  std::unique_lock lock(mutex_);
  for (unsigned i = 0; i < threads; ++i) {
    try {
      Workers::instance().submit([this] { work(); });
    } catch (const std::system_error& error) {
      if (active_ != 0 && !cooperative) break;  // fewer threads suffice
      fault_ = make_fault(ErrorKind::failure, sentence("kernel '{}' did not run ({})", kernel, error.what()),
                          "raise ulimit -u");
      failed_ = true;
      changed_.notify_all();
      break;
    }
    ++active_;
  }
  for (double pause = watch(); active_ != 0;) {
    if (!changed_.wait_for(lock, std::chrono::duration<double>(pause), [&] { return active_ == 0; })) pause = watch();
  }
  sanitizer_acquire(&end_token);
  return fault_;
}

// Measures CPU time on the block's core, so that a busy machine causes no false alarm.
double Grid::watch() {
  const double left = work_deadline - seconds();
  if (left <= 0) fail_locked(ErrorKind::timeout, "device work exceeded its deadline", "raise the deadline");
#if defined(__SANITIZE_THREAD__)
  const double patience = 10 * configuration.timeout;  // TSan makes everything slower
  if (failed()) return 0.25;                           // the threads that still run cannot be ended
#else
  const double patience = failed() ? std::min(configuration.timeout, 0.1) : configuration.timeout;
#endif
  for (Watched& watched : watched_) {
    clockid_t clock;
    timespec now;
    if (pthread_getcpuclockid(watched.block->os_thread(), &clock) != 0 || clock_gettime(clock, &now) != 0) continue;
    const double used = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
    const std::uint64_t turn = watched.block->turn();
    if (turn != watched.turn || watched.since < 0) {
      watched.turn = turn;
      watched.since = used;
    } else if (used - watched.since > patience) {
      interrupt(*watched.block, turn);
    }
  }
  return std::clamp(std::min(patience / 4, left), 0.01, 0.25);
}

void Grid::work() {
  Block& block_of_thread = Block::of_this_thread();
  const DeviceAccess::Loan loan(access);
  std::unique_lock lock(mutex_);
  watched_.push_back({&block_of_thread, block_of_thread.turn(), -1});
  while (next_ < blocks() && !fault_) {
    const std::uint64_t number = nth_block(next_++);
    lock.unlock();
    block_of_thread.run(*this, number);
    lock.lock();
    finished_block(number);
  }
  std::erase_if(watched_, [&](const Watched& watched) { return watched.block == &block_of_thread; });
  --active_;
  changed_.notify_all();  // under the lock: run() may return and destroy this object as soon as the lock is free
}

void Grid::finished_block(std::uint64_t number) {
  ++finished_;
  last_finished_ = number;
  if (waiting_ != 0) check_barrier(waiting_file_, waiting_line_);
}

void Grid::check_barrier(const char* file, int line) {
  if (fault_ || finished_ == 0 || waiting_ + finished_ < blocks()) return;
  fault_ = make_fault(ErrorKind::failure,
                      sentence("kernel '{}' was stopped (deadlock in grid_sync at {}: {} of {} blocks have arrived, "
                               "but block {} has returned)",
                               kernel, place(file, line), waiting_, blocks(), triple(block_index(last_finished_))),
                      "let every block of the grid reach every grid_sync");
  failed_ = true;
  changed_.notify_all();
}

void Grid::fail(ErrorKind kind, const std::string& reason, std::string hint) {
  const std::lock_guard lock(mutex_);
  fail_locked(kind, reason, std::move(hint));
}

void Grid::fail_locked(ErrorKind kind, const std::string& reason, std::string hint) {
  if (!fault_) {
    fault_ = make_fault(kind, sentence("kernel '{}' was stopped ({})", kernel, reason), std::move(hint));
  }
  failed_ = true;
  changed_.notify_all();
}

bool Grid::wait_at_barrier(const uint3& block_at, const char* file, int line) {
  std::unique_lock lock(mutex_);
  if (fault_) return false;
  if (waiting_ == 0) {
    waiting_file_ = file;
    waiting_line_ = line;
  } else if (waiting_line_ != line || std::strcmp(waiting_file_, file) != 0) {
    fault_ = make_fault(
        ErrorKind::failure,
        sentence("kernel '{}' was stopped (blocks wait at different grid barriers: block {} at {}, others at {})",
                 kernel, triple(block_at), place(file, line), place(waiting_file_, waiting_line_)),
        "let every block of the grid reach the same grid_sync");
    failed_ = true;
    changed_.notify_all();
    return false;
  }
  if (++waiting_ == blocks()) {
    waiting_ = 0;
    ++generation_;
    changed_.notify_all();
    return true;
  }
  check_barrier(file, line);
  changed_.wait(lock, [&, generation = generation_] { return fault_ || generation_ != generation; });
  return !fault_;
}

void Grid::start_another_block() {
  const std::lock_guard lock(mutex_);
  if (cooperative || fault_ || next_ >= blocks() || active_ >= configuration.resident_blocks) return;
  try {
    Workers::instance().submit([this] { work(); });
    ++active_;
  } catch (const std::system_error&) {
    // Another thread cannot be started; if it was needed, the time-out reports that.
  }
}

}  // namespace emulator
