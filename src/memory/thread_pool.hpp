#pragma once

// Pool of threads that are started before time is measured.

#include <atomic>
#include <barrier>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace isthmus::memory {

class ThreadPool {
 public:
  /// Makes `count` threads, including the caller, on the processors of `numa_node` if it has any; 0 means one thread
  /// for each processor that this process may use on that node.
  ThreadPool(unsigned count, int numa_node);
  /// Makes one thread for each of `processors` (at least one) and pins it there. The caller is the first of the threads
  /// and is pinned only while run() executes.
  explicit ThreadPool(std::vector<int> processors);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  unsigned size() const noexcept { return count_; }
  /// Returns whether every thread has stayed on its processor since the pool was made.
  bool kept_places() const noexcept { return !strayed_; }
  /// Calls `body(i)` on thread i, on all threads at once, and returns when all have finished.
  void run(const std::function<void(unsigned)>& body);
  /// Blocks until every thread inside run() has called it. Spins, so that all threads return within a microsecond of
  /// each other if each has its own processor.
  void meet() noexcept;

 private:
  void start(int numa_node);
  void stand_on(unsigned index);

  unsigned count_;
  std::vector<int> processors_;
  std::barrier<> start_, end_;
  const std::function<void(unsigned)>* body_ = nullptr;
  std::atomic<unsigned> here_ = 0, meetings_ = 0;
  std::atomic<bool> strayed_ = false;
  std::vector<std::jthread> threads_;
};

/// Range of part `index` when [0, count) is split into `parts` parts.
struct Part {
  std::size_t first, last;
};
inline Part part_of(std::size_t count, unsigned parts, unsigned index) {
  return {count / parts * index + count % parts * index / parts,
          count / parts * (index + 1) + count % parts * (index + 1) / parts};
}

}  // namespace isthmus::memory
