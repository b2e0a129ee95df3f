// libisthmus-uvm.so: records the page faults of a program that is not ours, by preloading.
//
//   LD_PRELOAD=libisthmus-uvm.so ISTHMUS_UVM_TRACE=run ./program      writes run.<pid>.uvm
//
// A thread waits until the program has begun to use CUDA's unified memory, attaches to the driver's queue of events and
// writes the events to the file. If a process never uses unified memory, no file is written. This library must not end
// the program or change its output: an error is reported as one line on stderr. Every process that inherits the
// environment writes a separate file, including forked processes, and a process that runs another program by exec
// writes one file for each program. With ISTHMUS_UVM_PARENT=<pid>, only processes started by that process are observed,
// no matter which programs they run by exec.

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

constexpr auto kSearch = std::chrono::microseconds(500);  // shorter than the creation of a context takes
constexpr auto kSlowSearch = std::chrono::milliseconds(5);
constexpr auto kEager = std::chrono::seconds(20);
constexpr auto kPatience = std::chrono::seconds(5);  // attaching may fail for this long after the first descriptor
                                                     // appears, until the driver has the address space
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

  /// Ends the recording. Returns immediately in a child process that was created without running fork's handlers,
  /// because the recording thread does not exist there.
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

Watch* watch = nullptr;  // not a static object: a forked child must drop the parent's without joining its thread

bool is_asked_for() {
  const char* prefix = std::getenv("ISTHMUS_UVM_TRACE");
  if (prefix == nullptr || *prefix == '\0') return false;
  const char* parent = std::getenv("ISTHMUS_UVM_PARENT");
  return parent == nullptr || *parent == '\0' || std::to_string(getppid()) == parent;
}

/// Returns whether the program creates user namespaces, which Linux allows only in single-threaded processes. These
/// programs do not use a GPU, but the programs they start may.
bool needs_one_thread() {
  const std::string_view name = program_invocation_short_name;
  for (const auto* each :
       {"apptainer", "bwrap", "ch-run", "crun", "nsenter", "podman", "runc", "singularity", "unshare"})
    if (name == each) return true;
  return name.starts_with("enroot") || name.starts_with("starter");
}

void start(bool forked) noexcept {
  try {
    watch = nullptr;  // in a forked child, this is the parent's object, whose thread does not exist in the child
    if (!is_asked_for() || needs_one_thread()) return;
    // If the memory node was open at the fork, it is for the parent's memory, which the parent's file covers. CUDA does
    // not work in a child that is forked after CUDA was first used, so such a child has nothing to record.
    if (forked && !linux_system().descriptors_of(kMemoryNode).empty()) return;
    watch = new Watch(std::getenv("ISTHMUS_UVM_TRACE") + ("." + std::to_string(getpid())));
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "libisthmus-uvm: %s\n", failure.what());
  }
}

void start_in_child() {
  if (watch != nullptr) start(true);
}

/// Reports settings that have no effect; an error would end a program that is not ours.
void note_wrong_settings() {
  const auto setting = [](const char* name) -> std::string_view {
    const char* text = std::getenv(name);
    return text == nullptr ? "" : text;
  };
  if (setting("ISTHMUS_UVM_TRACE").empty()) return;
  if (const auto word = setting("ISTHMUS_UVM"); !word.empty() && word != "force")
    std::fprintf(stderr, "libisthmus-uvm: ISTHMUS_UVM is '%s', which has no effect; set it to force, or unset it\n",
                 word.data());
  if (const auto parent = setting("ISTHMUS_UVM_PARENT"); parent.find_first_not_of("0123456789") != parent.npos)
    std::fprintf(stderr,
                 "libisthmus-uvm: ISTHMUS_UVM_PARENT is '%s', which is not a process, so nothing is recorded; set it "
                 "to a process ID, or unset it\n",
                 parent.data());
}

__attribute__((constructor)) void begin() {
  note_wrong_settings();
  start(false);
  // Register after the first allocation: handlers run in the order of registration, and the allocator's handlers must
  // come first.
  if (watch != nullptr) pthread_atfork(nullptr, nullptr, start_in_child);
}

__attribute__((destructor)) void end() {
  if (watch != nullptr) watch->end();
}

}  // namespace
