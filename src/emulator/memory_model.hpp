#pragma once

// CUDA's order of memory, told to ThreadSanitizer: atomics and volatile accesses order nothing, and a fence before a
// write, with a fence behind a read of what it wrote, orders. See README.md, "The memory
// model".

namespace emulator {

enum class Touch { load, store, update };

enum class Scope { block, device };

/// __threadfence_block(), or __threadfence() and __threadfence_system().
void fence(Scope scope) noexcept;

#if defined(__SANITIZE_THREAD__) || defined(EMULATOR_TSAN_RUNTIME)

/// Lives while one atomic access to `address` is made, whose value and whose order are then one. Acquires at its end
/// what the value carries, or releases at its beginning, where the access itself does.
class AtomicTurn {
 public:
  enum class Order { relaxed, acquire, release };
  AtomicTurn(const void* address, Touch touch, Order order = Order::relaxed);
  ~AtomicTurn();
  AtomicTurn(const AtomicTurn&) = delete;
  AtomicTurn& operator=(const AtomicTurn&) = delete;
  /// A compare-and-swap that found another value.
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
