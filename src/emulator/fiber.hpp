#pragma once

// Stack and saved execution state. Fibers are created once per OS thread and reused for every block.

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>

#include "emulator/sanitizers.hpp"

namespace emulator {

class Fiber {
 public:
  using Entry = void (*)(void* argument);

  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  /// Makes this fiber represent the calling OS thread; it then owns no stack. TSan treats it as a separate thread, so
  /// that the OS thread's locks do not order accesses of fibers.
  void adopt_thread();
  /// Tell TSan that the OS thread continues as this fiber (enter_thread()) or as itself again (leave_thread()).
  void enter_thread() const;
  void leave_thread() const;
  /// Prepares the fiber: at the first switch to it, `entry(argument)` runs on the stack [stack, stack + bytes); it must
  /// never return.
  void start(void* stack, std::size_t bytes, Entry entry, void* argument);
  /// Switches from the running fiber `from` to `to`; returns when another fiber switches back.
  static inline void change(Fiber& from, Fiber& to) __attribute__((always_inline));
  std::uintptr_t stack_bottom() const { return reinterpret_cast<std::uintptr_t>(stack_); }
  std::uintptr_t stack_top() const { return stack_bottom() + stack_bytes_; }

 private:
  static void enter(boost::context::detail::transfer_t transfer);
  /// Saves the state of the fiber from which execution has just switched, and returns that fiber.
  static Fiber& left(boost::context::detail::transfer_t transfer);
  void arrived();

  boost::context::detail::fcontext_t context_ = nullptr;
  Fiber* destination_ = nullptr;  // destination of the last switch from this fiber
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
  void* stack_ = nullptr;
  std::size_t stack_bytes_ = 0;
  bool owns_tsan_fiber_ = false;
  void* tsan_fiber_ = nullptr;
  void* tsan_thread_ = nullptr;
  void* asan_fake_stack_ = nullptr;
};

/// Stacks for the fibers of one OS thread, by index.
class Stacks {
 public:
  Stacks() = default;
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks();
  struct Stack {
    void* begin;
    std::size_t bytes;
  };
  Stack get(std::size_t index);
  static constexpr std::size_t per_chunk = 64;

 private:
  static constexpr std::size_t most_chunks = 16;
  std::byte* chunks_[most_chunks] = {};
};

// Inline, because the processor mispredicts every return instruction after a switch, which would cost more than the
// switch.
inline void Fiber::change(Fiber& from, Fiber& to) {
  from.destination_ = &to;
#if EMULATOR_ASAN
  __sanitizer_start_switch_fiber(&from.asan_fake_stack_, to.stack_, to.stack_bytes_);
#endif
#if EMULATOR_TSAN
  // The switch is marked as no-sync, because otherwise TSan would treat it as ordering and never find races between the
  // threads of a block.
  __tsan_switch_to_fiber(to.tsan_fiber_, __tsan_switch_to_fiber_no_sync);
#endif
  left(boost::context::detail::jump_fcontext(to.context_, &from));
  from.arrived();
}

inline Fiber& Fiber::left(boost::context::detail::transfer_t transfer) {
  Fiber& fiber = *static_cast<Fiber*>(transfer.data);
  fiber.context_ = transfer.fctx;
  return fiber;
}

inline void Fiber::arrived() {
#if EMULATOR_ASAN
  __sanitizer_finish_switch_fiber(asan_fake_stack_, nullptr, nullptr);
#endif
}

}  // namespace emulator
