// libisthmus-uvm.so: the page faults of a program that is not ours, by preloading.
//
//   LD_PRELOAD=libisthmus-uvm.so ISTHMUS_UVM_TRACE=run ./program      writes run.<pid>.uvm
//
// A thread waits until the program has begun to use CUDA's unified memory, attaches to the driver's queue of events and
// writes what comes. A process that never begins writes nothing. Nothing here may end the program or its output: what
// goes wrong is one line on stderr. Children that were started with the same environment have files of their own; a
// child that was only forked has none. With ISTHMUS_UVM_PARENT=<pid> only processes that this one started are watched,
// whatever program they become by exec.

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
  explicit Watch(std::string path) : path_(std::move(path)), owner_(getpid()), thread_([this] { work(); }) {}

  /// In a forked child there is no thread to wait for.
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
              linux_system(), path_,
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

  const std::string path_;
  const pid_t owner_;
  std::atomic<bool> stopped_ = false;
  std::unique_ptr<Recorder> recorder_;
  std::thread thread_;
};

Watch* watch = nullptr;  // ended by hand: a library that is preloaded is the last to go

bool is_asked_for() {
  const char* parent = std::getenv("ISTHMUS_UVM_PARENT");
  return parent == nullptr || *parent == '\0' || std::to_string(getppid()) == parent;
}

__attribute__((constructor)) void begin() {
  const char* prefix = std::getenv("ISTHMUS_UVM_TRACE");
  if (prefix == nullptr || *prefix == '\0' || !is_asked_for()) return;
  watch = new Watch(std::string(prefix) + "." + std::to_string(getpid()) + ".uvm");
}

__attribute__((destructor)) void end() {
  if (watch != nullptr) watch->end();
}

}  // namespace
