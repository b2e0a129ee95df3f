// libisthmus-uvm.so: the page faults of a program that is not ours, by preloading.
//
//   LD_PRELOAD=libisthmus-uvm.so ISTHMUS_UVM_TRACE=run ./program      writes run.<pid>.uvm
//
// A thread waits until the program has begun to use CUDA's unified memory, attaches to the driver's queue of events and
// writes what comes. A process that never begins writes nothing. Nothing here may end the program or its output: what
// goes wrong is one line on stderr. Every process that inherits the environment has a file of its own, a forked one
// too, and a process that becomes another program by exec has one for each program. With ISTHMUS_UVM_PARENT=<pid> only
// processes that this one started are watched, whatever program they become by exec.

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "trace/uvm/recorder.hpp"

namespace {

using namespace isthmus::trace::uvm;
using Clock = std::chrono::steady_clock;

constexpr auto kSearch = std::chrono::microseconds(500);  // a context takes longer to make than this to see
constexpr auto kSlowSearch = std::chrono::milliseconds(5);
constexpr auto kEager = std::chrono::seconds(20);
constexpr auto kPatience = std::chrono::seconds(5);  // from the descriptor to an address space that the driver knows
constexpr auto kStep = std::chrono::milliseconds(20);

std::string command_line() {
  std::ifstream file("/proc/self/cmdline");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  for (char& c : text) {
    if (c == '\0') c = ' ';
  }
  return text;
}

class Watch {
 public:
  explicit Watch(std::string prefix) : prefix_(std::move(prefix)), owner_(getpid()), thread_([this] { work(); }) {}

  /// A child that was made without fork's handlers has no thread to wait for.
  void end() {
    if (getpid() != owner_) return;
    stopped_ = true;
    thread_.join();
    if (!recorder_) return;
    try {
      recorder_->finish();
    } catch (const std::exception& failure) {
      say(failure.what());
    }
    recorder_.reset();
  }

 private:
  void say(const char* sentence) const { std::fprintf(stderr, "libisthmus-uvm: %s\n", sentence); }

  void work() {
    try {
      attach();
      while (!stopped_ && recorder_) {
        recorder_->step();
        std::this_thread::sleep_for(kStep);
      }
    } catch (const std::exception& failure) {
      say(failure.what());
      recorder_.reset();
    }
  }

  void attach() {
    const auto begin = Clock::now();
    Clock::time_point seen{};
    while (!stopped_) {
      if (!linux_system().descriptors_of(kMemoryNode).empty()) {
        if (seen == Clock::time_point{}) seen = Clock::now();
        try {
          recorder_ = std::make_unique<Recorder>(
              linux_system(), prefix_,
              TraceFacts{{"process", std::to_string(owner_)}, {"command", command_line()}, {"source", "preloaded"}},
              QueueOptions{.forced = is_forced()});
          return;
        } catch (const Unavailable&) {
          if (Clock::now() - seen > kPatience) throw;
        }
      }
      std::this_thread::sleep_for(Clock::now() - begin < kEager ? kSearch : std::chrono::microseconds(kSlowSearch));
    }
  }

  static bool is_forced() {
    const char* text = std::getenv("ISTHMUS_UVM");
    return text != nullptr && std::strcmp(text, "force") == 0;
  }

  const std::string prefix_;
  const pid_t owner_;
  std::atomic<bool> stopped_ = false;
  std::unique_ptr<Recorder> recorder_;
  std::thread thread_;
};

Watch* watch = nullptr;  // ended by hand: a library that is preloaded is the last to go

bool is_asked_for() {
  const char* prefix = std::getenv("ISTHMUS_UVM_TRACE");
  if (prefix == nullptr || *prefix == '\0') return false;
  const char* parent = std::getenv("ISTHMUS_UVM_PARENT");
  return parent == nullptr || *parent == '\0' || std::to_string(getppid()) == parent;
}

/// Whether the program makes user namespaces, which Linux allows only to processes of a single thread. None of these
/// uses a GPU; what they start does.
bool needs_one_thread() {
  const std::string_view name = program_invocation_short_name;
  for (const auto* each :
       {"apptainer", "bwrap", "ch-run", "crun", "nsenter", "podman", "runc", "singularity", "unshare"})
    if (name == each) return true;
  return name.starts_with("enroot") || name.starts_with("starter");
}

void start(bool forked) noexcept {
  try {
    watch = nullptr;  // of a forked child, the parent's: its thread is not here
    if (!is_asked_for() || needs_one_thread()) return;
    // What was open at the fork is the parent's memory, of which the parent's file tells. CUDA does not work in a child
    // that was forked after its first use.
    if (forked && !linux_system().descriptors_of(kMemoryNode).empty()) return;
    watch = new Watch(std::getenv("ISTHMUS_UVM_TRACE") + ("." + std::to_string(getpid())));
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "libisthmus-uvm: %s\n", failure.what());
  }
}

void start_in_child() {
  if (watch != nullptr) start(true);
}

/// Names settings that have no effect: to refuse them would end a program that is not ours.
void note_wrong_settings() {
  const auto setting = [](const char* name) -> std::string_view {
    const char* text = std::getenv(name);
    return text == nullptr ? "" : text;
  };
  if (setting("ISTHMUS_UVM_TRACE").empty()) return;
  if (const auto word = setting("ISTHMUS_UVM"); !word.empty() && word != "force")
    std::fprintf(stderr, "libisthmus-uvm: ISTHMUS_UVM is '%s' and has no effect; the only word it takes is force\n",
                 word.data());
  if (const auto parent = setting("ISTHMUS_UVM_PARENT"); parent.find_first_not_of("0123456789") != parent.npos)
    std::fprintf(stderr,
                 "libisthmus-uvm: ISTHMUS_UVM_PARENT is '%s', which is no process, so nothing is recorded; set "
                 "it to a process's number, or leave it out\n",
                 parent.data());
}

__attribute__((constructor)) void begin() {
  note_wrong_settings();
  start(false);
  // After the first allocation: handlers run in the order of their registration, and an allocator's come first.
  if (watch != nullptr) pthread_atfork(nullptr, nullptr, start_in_child);
}

__attribute__((destructor)) void end() {
  if (watch != nullptr) watch->end();
}

}  // namespace
