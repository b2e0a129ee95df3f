// Explains memory faults in one sentence. A fault in a kernel ends the launch like any other fault of a kernel. Host
// code that dereferences device memory cannot continue, so the process ends. A kernel thread that never returns to its
// scheduler is ended in the same way, by a signal.

#include "emulator/fault_handler.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>

#include "emulator/block.hpp"
#include "emulator/format.hpp"
#include "emulator/memory.hpp"
#include "emulator/paging.hpp"
#include "emulator/sanitizers.hpp"

namespace emulator {
namespace {

// Signal that is ignored by default, so that it has no effect if it arrives late.
constexpr int interruption = SIGURG;

struct sigaction previous_segv, previous_bus;
constinit thread_local std::uintptr_t fault_address = 0;

/// Returns the explanation of a fault in a fiber. TSan treats the fiber and the OS thread as different threads, so what
/// happens here is hidden from it.
std::string explained(std::uintptr_t address) {
  const Unordered unordered;
  const Unseen unseen;
  return Memory::instance().explain(address);
}

// Ends the kernel. Runs on the faulting thread's own stack, outside the signal handler.
[[noreturn]] void end_kernel() {
  Thread& self = current();
  Block& block = current_block();
  {
    std::string what = explained(fault_address);
    if (what.empty()) what = block.explain(self, fault_address);
    block.stop(sentence("block {}, thread {} accessed {:#x}: {}", triple(block.index), triple(self.index),
                        fault_address, what),
               "correct the kernel's index or the lifetime of its memory");
  }
  block.abandon(self);
}

[[noreturn]] void end_overdue() {
  Thread& self = current();
  Block& block = current_block();
  block.stop_overdue(self);
  block.abandon(self);
}

/// Makes the running thread of the kernel continue in `function`, at the top of its stack. This overwrites the stack
/// frames there, but they are never returned to, and the other end of the stack may have overflowed. Returns false on
/// unsupported architectures.
bool go_on_in(void (*function)(), [[maybe_unused]] void* context) {
  const auto stack = current().fiber.stack_top();
#if EMULATOR_ASAN
  __asan_unpoison_memory_region(reinterpret_cast<void*>(current().fiber.stack_bottom()),
                                stack - current().fiber.stack_bottom());
#endif
  [[maybe_unused]] auto* machine = &static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  machine->gregs[REG_RSP] = static_cast<greg_t>((stack & ~std::uintptr_t{15}) - 8);
  machine->gregs[REG_RIP] = reinterpret_cast<greg_t>(function);
  return true;
#elif defined(__aarch64__)
  machine->sp = stack & ~std::uintptr_t{15};
  machine->pc = reinterpret_cast<std::uintptr_t>(function);
  return true;
#else
  return false;
#endif
}

void on_interruption(int, siginfo_t*, void* context) {
  if (this_thread != nullptr && current_block().take_overdue()) go_on_in(&end_overdue, context);
}

void chain(int signal, siginfo_t* information, void* context) {
  const struct sigaction& previous = signal == SIGBUS ? previous_bus : previous_segv;
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction) {
    previous.sa_sigaction(signal, information, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    ::signal(signal, SIG_DFL);  // the instruction is executed again and ends the process
  }
}

/// Returns true if the touched page was elsewhere and has now been migrated.
__attribute__((no_sanitize("thread"))) bool page_came(std::uintptr_t address, [[maybe_unused]] void* context) {
  bool write = false;
#if defined(__x86_64__)
  constexpr greg_t written = 2;
  write = (static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & written) != 0;
#endif
  const DeviceAccess* access = DeviceAccess::here();
  unsigned client = 0;
  if (this_thread != nullptr) {
    const auto& index = current_block().index;
    client = index.x + index.y + index.z;
  }
  return Paging::instance().touch(
      {address, write, access != nullptr, access != nullptr ? access->device() : -1, client});
}

/// Returns true if the access can be repeated. TSan must not treat the locks used here as ordering a kernel's accesses.
__attribute__((no_sanitize("thread"))) bool came(std::uintptr_t address, void* context) {
  const Unordered unordered;
  const Unseen unseen;
  return Memory::instance().open_for_thread(address) || page_came(address, context);
}

// TSan must not observe that errno is saved and restored: errno belongs to the OS thread, whose fibers TSan treats as
// threads.
__attribute__((no_sanitize("thread"))) void on_fault(int signal, siginfo_t* information, void* context) {
  const auto address = reinterpret_cast<std::uintptr_t>(information->si_addr);
  const int error = errno;
  if (signal == SIGSEGV && came(address, context)) {
    errno = error;
    return;  // the instruction is executed again
  }
  if (this_thread != nullptr) {
    fault_address = address;
    if (go_on_in(&end_kernel, context)) return;
  }
  const std::string what = Memory::instance().explain(address);
  if (what.empty()) {
    chain(signal, information, context);
    return;
  }
  const bool device = Memory::instance().in_arena(address);
  const std::string text =
      sentence("{}: the host {} at {:#x} ({}); {}\n", introduction().name,
               device ? "dereferenced device memory" : "accessed memory outside a live allocation", address, what,
               device ? "copy it to host memory first" : "correct the index or the lifetime of the memory");
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
  std::abort();
}

void install_handlers() {
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &previous_segv);
  sigaction(SIGBUS, &action, &previous_bus);
  action.sa_sigaction = on_interruption;
  action.sa_flags |= SA_RESTART;
  sigaction(interruption, &action, nullptr);
}

/// Separate stack for signal handlers, which cannot run on a fiber's stack that has just overflowed.
struct AlternateStack {
  static constexpr std::size_t bytes = 64 << 10;
  void* memory = nullptr;
  AlternateStack() {
    stack_t present = {};
    if (sigaltstack(nullptr, &present) == 0 && (present.ss_flags & SS_DISABLE) == 0) return;  // a sanitizer's stack
    void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return;
    memory = mapped;
    stack_t wanted = {};
    wanted.ss_sp = memory;
    wanted.ss_size = bytes;
    sigaltstack(&wanted, nullptr);
  }
  ~AlternateStack() {
    if (!memory) return;
    stack_t none = {};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
    munmap(memory, bytes);
  }
};

}  // namespace

void interrupt(Block& block, [[maybe_unused]] std::uint64_t turn) {
#if defined(__SANITIZE_THREAD__)
  // TSan delays signals until the next system call, and such a thread makes none.
  const std::string text = sentence(
      "{}: kernel '{}', block {}: a thread has run too long without waiting or ending, and cannot be ended under "
      "ThreadSanitizer; call spin_wait() in the body of a loop that waits\n",
      introduction().name, block.launch().kernel, triple(block.index));
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
  std::abort();
#else
  block.mark_overdue(turn);
  pthread_kill(block.os_thread(), interruption);
#endif
}

void use_alternate_stack() {
  static std::once_flag installed;
  std::call_once(installed, install_handlers);
  static thread_local AlternateStack stack;
}

}  // namespace emulator
