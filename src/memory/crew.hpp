#pragma once

// Threads that are there before the clock starts.

#include <barrier>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace isthmus::memory {

class Crew {
 public:
  /// `count` threads, the caller among them, on the processors of `numa_node` where it has any; 0: one for each
  /// processor that this process may use there.
  Crew(unsigned count, int numa_node);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  unsigned size() const noexcept { return count_; }
  /// Calls `body(i)` on thread i, on all at once, and returns when all have.
  void run(const std::function<void(unsigned)>& body);

 private:
  unsigned count_;
  std::barrier<> start_, end_;
  const std::function<void(unsigned)>* body_ = nullptr;
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
