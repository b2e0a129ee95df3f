#include "emulator/fiber.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#include "emulator/emulator.hpp"
#include "emulator/format.hpp"

namespace emulator {
namespace {

#if EMULATOR_ASAN || EMULATOR_TSAN
constexpr std::size_t stack_bytes = 256 << 10;
#else
constexpr std::size_t stack_bytes = 64 << 10;
#endif
constexpr std::size_t page = 4096;

}  // namespace

Fiber::~Fiber() {
#if EMULATOR_TSAN
  if (owns_tsan_fiber_) __tsan_destroy_fiber(tsan_fiber_);
#endif
}

void Fiber::adopt_thread() {
#if EMULATOR_TSAN
  tsan_thread_ = __tsan_get_current_fiber();
  tsan_fiber_ = __tsan_create_fiber(0);
  owns_tsan_fiber_ = true;
#endif
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstack(&attributes, &stack_, &stack_bytes_);
    pthread_attr_destroy(&attributes);
  }
}

void Fiber::enter_thread() const {
#if EMULATOR_TSAN
  __tsan_switch_to_fiber(tsan_fiber_, __tsan_switch_to_fiber_no_sync);
#endif
}

void Fiber::leave_thread() const {
#if EMULATOR_TSAN
  __tsan_switch_to_fiber(tsan_thread_, __tsan_switch_to_fiber_no_sync);
#endif
}

void Fiber::start(void* stack, std::size_t bytes, Entry entry, void* argument) {
#if EMULATOR_ASAN
  __asan_unpoison_memory_region(stack, bytes);  // an abandoned run does not remove its red zones
#endif
#if EMULATOR_TSAN
  if (owns_tsan_fiber_) __tsan_destroy_fiber(tsan_fiber_);
  tsan_fiber_ = __tsan_create_fiber(0);
  owns_tsan_fiber_ = true;
#endif
  asan_fake_stack_ = nullptr;
  entry_ = entry;
  argument_ = argument;
  stack_ = stack;
  stack_bytes_ = bytes;
  context_ = boost::context::detail::make_fcontext(static_cast<std::byte*>(stack) + bytes, bytes, &Fiber::enter);
}

void Fiber::enter(boost::context::detail::transfer_t transfer) {
  Fiber& self = *left(transfer).destination_;
  self.arrived();
  self.entry_(self.argument_);
  std::abort();  // never reached: the entry does not return
}

Stacks::~Stacks() {
  for (std::byte* chunk : chunks_) {
    if (chunk) munmap(chunk, per_chunk * (stack_bytes + page));
  }
}

Stacks::Stack Stacks::get(std::size_t index) {
  std::byte*& chunk = chunks_[index / per_chunk];
  if (!chunk) {
    void* mapped = mmap(nullptr, per_chunk * (stack_bytes + page), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
      std::perror(sentence("{}: the emulator cannot map the stacks of its fibers", introduction().name).c_str());
      std::abort();
    }
    chunk = static_cast<std::byte*>(mapped);
    // A guard page needs a separate mapping, and a process can have 65,530, so only the first stacks are guarded.
    // The threads of a kernel run the same code, so an overflow of one stack also occurs in guarded stacks.
    if (index < per_chunk) {
      for (std::size_t i = 0; i < per_chunk; ++i) mprotect(chunk + i * (stack_bytes + page), page, PROT_NONE);
    }
  }
  // The tops of the stacks are staggered by a cache line; otherwise the most used ends of all stacks would share one
  // set of the L1 cache.
  return {chunk + (index % per_chunk) * (stack_bytes + page) + page, stack_bytes - 64 * (index % 32)};
}

}  // namespace emulator
