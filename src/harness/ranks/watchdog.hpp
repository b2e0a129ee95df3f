#pragma once

// Process next to a run that may hang a GPU. It ends the run if the run makes no progress for too long. The run cannot
// end itself, because a driver that hangs blocks all threads of the run.

#include <sys/types.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <string_view>

namespace isthmus::harness {

class Watchdog {
 public:
  /// Starts the process, and returns once it is watching. `limit`: seconds without progress after which the run is
  /// ended. Throws std::runtime_error with one sentence if the process cannot be started.
  explicit Watchdog(double limit);
  /// Waits until the process has ended.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // The following functions may be called from any thread, and each call counts as progress. If the watchdog is gone,
  // they request that the run ends after its current sample.
  void progress() noexcept;
  void set_limit(double seconds) noexcept;
  /// Sets what the run is doing; kept() sets where its results are. Both texts are part of the sentence that reports
  /// the end of the run.
  void doing(std::string_view what) noexcept;
  void kept(std::string_view where) noexcept;

  /// Returns whether the watchdog ended before the run did.
  bool lost() const noexcept { return lost_; }

 private:
  void tell(char what, std::string_view text) noexcept;

  std::mutex mutex_;
  int channel_ = -1;
  pid_t process_ = -1;
  double last_progress_ = 0;
  std::atomic<bool> lost_ = false;
};

/// Watches until the run has ended and returns the exit code, in a process that a Watchdog started. Returns nullopt in
/// other processes.
std::optional<int> run_as_watchdog();

}  // namespace isthmus::harness
