#pragma once

// Threads that are there before the clock starts.

#include <atomic>
#include <barrier>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace isthmus::memory {

class Crew {
 public:
  /// `count` threads, the caller among them, on the processors of `numa_node` where it has any; 0: one for each
  /// processor that this process may use there.
  Crew(unsigned count, int numa_node);
  /// One thread for each of `processors`, at least one, and it stays there; the caller is the first of them, for as
  /// long as run() lasts.
  explicit Crew(std::vector<int> processors);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  unsigned size() const noexcept { return count_; }
  /// Whether every thread has been where it was to stay since the crew was made.
  bool kept_places() const noexcept { return !strayed_; }
  /// Calls `body(i)` on thread i, on all at once, and returns when all have.
  void run(const std::function<void(unsigned)>& body);
  /// Within run(), by all threads: waits until all have come here. Spins, so that they leave within a microsecond of
  /// each other where each has a processor to itself.
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

/// Part `index` of [0, count) cut into `parts`.
struct Part {
  std::size_t first, last;
};
inline Part part_of(std::size_t count, unsigned parts, unsigned index) {
  return {count / parts * index + count % parts * index / parts,
          count / parts * (index + 1) + count % parts * (index + 1) / parts};
}

}  // namespace isthmus::memory
