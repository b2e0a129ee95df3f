#pragma once

// CUDA's memory model for ThreadSanitizer: atomics and volatile accesses alone do not order other accesses. A fence
// before a write orders earlier accesses if the written value is read and another fence follows the read. See
// README.md, "The memory model".

namespace emulator {

enum class Touch { load, store, update };

enum class Scope { block, device };

/// Implements __threadfence_block(), or __threadfence() and __threadfence_system().
void fence(Scope scope) noexcept;

#if defined(__SANITIZE_THREAD__) || defined(EMULATOR_TSAN_RUNTIME)

/// Scope of one atomic access to `address`, which makes the access and its effect on ordering a single unit. If the
/// access acquires, the end of the scope acquires what the value carries; if it releases, the beginning of the scope
/// releases.
class AtomicTurn {
 public:
  enum class Order { relaxed, acquire, release };
  AtomicTurn(const void* address, Touch touch, Order order = Order::relaxed);
  ~AtomicTurn();
  AtomicTurn(const AtomicTurn&) = delete;
  AtomicTurn& operator=(const AtomicTurn&) = delete;
  /// Records that a compare-and-swap found another value, so that it did not write.
  void only_loaded() { touch_ = Touch::load; }

 private:
  const void* const address_;
  Touch touch_;
  const Order order_;
  bool locked_ = false;
};

#else

class AtomicTurn {
 public:
  enum class Order { relaxed, acquire, release };
  AtomicTurn(const void*, Touch, Order = Order::relaxed) {}
  void only_loaded() {}
};

#endif

}  // namespace emulator
