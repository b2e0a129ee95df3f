#pragma once

// A process beside a run that may hang a GPU: where the run shows no progress for too long, it ends it. A driver that
// hangs keeps every thread of the run from doing so itself.

#include <sys/types.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <string_view>

namespace isthmus::harness {

class Watchdog {
 public:
  /// Starts the process, and returns once it watches. `limit`: seconds without progress after which the run is ended.
  /// Throws std::runtime_error in a sentence where it cannot be started.
  explicit Watchdog(double limit);
  /// The process has ended too.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // From any thread; each is progress, too. Where the watchdog is gone, the run is asked to end after its sample.
  void progress() noexcept;
  void set_limit(double seconds) noexcept;
  /// What the run does now, and where what it has measured is: for the sentence that tells of its end.
  void doing(std::string_view what) noexcept;
  void kept(std::string_view where) noexcept;

  /// It ended before the run did.
  bool lost() const noexcept { return lost_; }

 private:
  void tell(char what, std::string_view text) noexcept;

  std::mutex mutex_;
  int channel_ = -1;
  pid_t process_ = -1;
  double last_progress_ = 0;
  std::atomic<bool> lost_ = false;
};

/// In a process that a Watchdog started: watches until the run has ended, and gives the exit code. nullopt in others.
std::optional<int> run_as_watchdog();

}  // namespace isthmus::harness
