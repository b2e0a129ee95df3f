#include "emulator/fault.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "emulator/emulator.hpp"
#include "emulator/format.hpp"
#include "emulator/memory.hpp"

namespace emulator {
namespace {

struct Met {
  std::mutex mutex;
  std::vector<FaultPointer> faults;
  void drop_reported() {
    std::erase_if(faults, [](const FaultPointer& each) { return each->reported.load(); });
  }
  static Met& instance() {
    static Met* met = new Met;  // never destroyed, because streams may still run when the process ends
    return *met;
  }
};

std::atomic<pid_t> armed_by = 0;

std::string left_behind(const std::vector<Memory::Unfreed>& unfreed) {
  constexpr std::size_t most = 8;
  std::size_t bytes = 0;
  std::string each;
  for (std::size_t i = 0; i < unfreed.size(); ++i) {
    bytes += unfreed[i].bytes;
    if (i < most)
      each += sentence("{}{} #{} ({} bytes)", i ? ", " : "", unfreed[i].call, unfreed[i].serial, unfreed[i].bytes);
  }
  if (unfreed.size() > most) each += sentence(" and {} more", unfreed.size() - most);
  return sentence("{} allocation{} never freed, {} bytes in all: {}; free {} before the program ends", unfreed.size(),
                  unfreed.size() == 1 ? " was" : "s were", bytes, each, unfreed.size() == 1 ? "it" : "them");
}

/// Prints the report at exit. It is registered before any object of the program is created, so it runs after all
/// objects are destroyed.
void at_exit(int status, void*) {
  if (armed_by != getpid() || !configuration().exit_report) return;
  const auto faults = unreported_faults();
  for (const auto& fault : faults) {
    std::fputs(sentence("emulator: an error was not reported ({}); synchronize before the stream is destroyed or the "
                        "program ends, and {}\n",
                        fault->reason, fault->hint)
                   .c_str(),
               stderr);
  }
  const auto unfreed = status == 0 ? Memory::unfreed() : std::vector<Memory::Unfreed>{};
  if (!unfreed.empty()) std::fputs(sentence("emulator: {}\n", left_behind(unfreed)).c_str(), stderr);
  if (status != 0 || (faults.empty() && unfreed.empty())) return;
  std::fflush(nullptr);
  _exit(EXIT_FAILURE);
}

[[gnu::constructor(101)]] void register_report() {
  on_exit(at_exit, nullptr);
}

}  // namespace

FaultPointer make_fault(ErrorKind kind, std::string reason, std::string hint) {
  auto fault = std::make_shared<Fault>(kind, std::move(reason), std::move(hint));
  Met& met = Met::instance();
  const std::lock_guard lock(met.mutex);
  met.drop_reported();
  met.faults.push_back(fault);
  report_at_exit();
  return fault;
}

std::vector<FaultPointer> unreported_faults() {
  Met& met = Met::instance();
  const std::lock_guard lock(met.mutex);
  met.drop_reported();
  return met.faults;
}

void forget_faults() {
  Met& met = Met::instance();
  const std::lock_guard lock(met.mutex);
  met.faults.clear();
}

void report_at_exit() {
  armed_by = getpid();
}

}  // namespace emulator
