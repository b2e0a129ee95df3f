#pragma once

// Notification of changes between threads. A waiting thread first spins for a short time, because a sleeping thread
// takes tens of microseconds to wake up, which is as long as a small job; then it sleeps.

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

  /// Announces a change. The caller holds the mutex that was held for the change.
  void announce() {
    count_.fetch_add(1, std::memory_order_release);
    changed_.notify_all();
  }
  /// Waits until `met()` returns true; calls it with the lock held, first immediately and then after each change.
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
    constexpr unsigned threads = 3;  // threads of a batch; if they share processors, a spinning thread keeps others
                                     // from working
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
