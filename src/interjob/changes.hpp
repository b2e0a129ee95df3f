#pragma once

// Waiting for another thread to change something: a little while awake, since a thread that sleeps takes tens of
// microseconds to come back, which is as long as a small job; then asleep.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace isthmus::interjob {

class Changes {
 public:
  using Lock = std::unique_lock<std::mutex>;

  /// Something has changed. With the mutex held that it was changed under.
  void announce() {
    count_.fetch_add(1, std::memory_order_release);
    changed_.notify_all();
  }
  /// Until `met()`, which is asked with the lock held, at first and after each change.
  template <class Met>
  void wait(Lock& lock, const Met& met) {
    while (!met()) {
      const std::uint64_t seen = count_.load(std::memory_order_acquire);
      lock.unlock();
      const bool soon = changes_soon(seen);
      lock.lock();
      if (!soon) changed_.wait(lock, [&] { return count_.load(std::memory_order_acquire) != seen; });
    }
  }

 private:
  bool changes_soon(std::uint64_t seen) const {
    constexpr unsigned threads = 3;  // of a batch; where they share processors, waiting awake keeps others from working
    static const bool spare = std::thread::hardware_concurrency() > threads;
    if (!spare) return false;
    constexpr auto awake = std::chrono::microseconds(50);
    const auto begin = std::chrono::steady_clock::now();
    while (count_.load(std::memory_order_acquire) == seen) {
      if (std::chrono::steady_clock::now() - begin > awake) return false;
    }
    return true;
  }

  std::condition_variable changed_;
  std::atomic<std::uint64_t> count_ = 0;
};

}  // namespace isthmus::interjob
