#pragma once

// Scheduler of one block. The threads of the block are fibers of one OS thread, and a thread runs until it must wait. A
// waiting thread switches to the next ready thread. If no thread is ready, idle() determines which threads can
// continue, or why none ever can. Compiled without TSan's instrumentation, because TSan must observe the kernel's
// accesses and not the scheduler's.

#include <pthread.h>

#include <memory>
#include <string>
#include <vector>

#include "emulator/fiber.hpp"
#include "emulator/grid.hpp"
#include "emulator/kernel.hpp"

namespace emulator {

using detail::WarpOperation;

enum class State : std::uint8_t { ready, running, barrier, warp, grid, spinning, lockstep, bulk, finished };

/// Asynchronous copy that has not been performed yet.
struct PendingCopy {
  void* destination;
  const void* source;
  unsigned bytes;
  std::uint64_t group;
};

class Block;
struct Ordering;

struct Thread : ThreadView {
  Fiber fiber;
  bool parked = true;  ///< true between blocks; false if a run was abandoned, so that the fiber must be started again
  State state = State::ready;
  unsigned number = 0;
  // Call in which the thread waits.
  const char* operation = "";
  const char* file = "";
  int line = 0;
  int barrier_result = 0;
  bool passed = false;    // for lockstep: the predicate was true
  bool released = false;  // for lockstep: the predicate was true for all lanes that wait together
  // State of warp operations.
  LaneMask mask = 0;
  int argument = 0;
  unsigned value_bytes = 0;
  alignas(16) std::byte value[16];
  alignas(16) std::byte result[16];
  // State of copies.
  std::vector<PendingCopy> copies;
  std::uint64_t committed = 0;
  std::uint64_t bulk_barrier = 0;
  unsigned bulk_parity = 0;
  Ordering* ordering = nullptr;  // for TSan: the thread's fences
};
/// Forgets the fences that `thread` issued in the previous block.
void forget_fences(Thread& thread);

/// Meeting of lanes in one operation, with one mask, at one place in the source.
struct Rendezvous {
  WarpOperation operation;
  LaneMask mask, arrived;
  const char* file;
  int line;
  void* token;
};

struct Warp {
  static constexpr unsigned tokens = 64;
  LaneMask existing = 0, returned = 0;
  unsigned open = 0;
  unsigned next_token = 0;
  Rendezvous rendezvous[64];
  std::uint64_t token[tokens];  // addresses used as synchronisation objects for TSan
};

struct BulkRecord {
  unsigned arrivals = 0, pending_arrivals = 0;
  std::uint64_t phase = 0;
  std::uint64_t expected = 0, issued = 0;
  std::vector<PendingCopy> copies;
  std::uint64_t token[2] = {};
};

class Block : public BlockView {
 public:
  Block();
  ~Block();
  static Block& of_this_thread();
  void run(Grid& launch, std::uint64_t number);

  // Calls made by the running thread.
  inline int wait_at_barrier(Thread& self, const char* operation, bool predicate, const char* file, int line)
      __attribute__((always_inline));
  void wait_at_grid(Thread& self, const char* file, int line);
  void spin(Thread& self, const char* file, int line);
  bool lockstep_turn(Thread& self, bool passed, const char* file, int line);
  [[noreturn]] void misuse(Thread& self, const char* operation, const char* what, int value, const char* hint,
                           const char* file, int line);
  void meet(Thread& self, WarpOperation operation, const char* file, int line);
  void async_copy(Thread& self, void* shared, const void* global, unsigned bytes, const char* file, int line);
  void async_wait(Thread& self, unsigned pending);
  std::uint64_t bulk_init(unsigned arrivals);
  void bulk_expect(Thread& self, std::uint64_t barrier, unsigned bytes, const char* file, int line);
  void bulk_copy(Thread& self, void* shared, const void* global, unsigned bytes, std::uint64_t barrier,
                 const char* file, int line);
  void bulk_wait(Thread& self, std::uint64_t barrier, unsigned parity, const char* file, int line);
  /// Ends the launch with a fault. The running thread must then call abandon(). That is a separate call, because no
  /// destructors run on a thread that is abandoned, not even those of a message's temporaries.
  void stop(const std::string& reason, std::string hint, ErrorKind kind = ErrorKind::failure);
  [[noreturn]] void abandon(Thread& self);
  /// Describes an address that caused a fault in a thread and that is not in any allocation.
  std::string explain(const Thread& self, std::uintptr_t address) const;
  Grid& launch() { return *grid_; }
  /// Returns the number of the block in the sequence of blocks that this OS thread has run.
  std::uint64_t serial() const { return serial_; }
  /// Tells TSan that execution continues as the block's own fiber.
  void enter() const { worker_.enter_thread(); }
  /// Returns true for addresses in the block's dynamic or static shared memory, or in the OS thread's own stack.
  bool is_shared(std::uintptr_t address) const {
    return address - reinterpret_cast<std::uintptr_t>(shared_) < shared_mapped_ ||
           address - worker_.stack_bottom() < worker_.stack_top() - worker_.stack_bottom();
  }

  // Calls for observers of the block on other OS threads.
  pthread_t os_thread() const { return os_thread_; }
  /// Returns a counter that increases whenever a thread of the block waits or ends.
  std::uint64_t turn() const { return __atomic_load_n(&turn_, __ATOMIC_RELAXED); }
  void mark_overdue(std::uint64_t turn) { __atomic_store_n(&overdue_turn_, turn, __ATOMIC_RELAXED); }
  /// Returns true if the current turn was marked as overdue. Called by the signal handler, on the block's own OS
  /// thread.
  bool take_overdue() {
    if (__atomic_load_n(&overdue_turn_, __ATOMIC_RELAXED) != turn_) return false;
    next_turn();  // so that a second signal finds a different turn
    return true;
  }
  void stop_overdue(const Thread& self);

 private:
  static void thread_main(void* thread);
  void next_turn() { __atomic_store_n(&turn_, turn_ + 1, __ATOMIC_RELAXED); }
  /// Ends a block that never becomes idle, after the launch has failed.
  void end_if_failed(Thread& self) {
    if (!grid_->failed()) return;
    faulted_ = true;
    abandon(self);
  }
  void prepare(Grid& launch, std::uint64_t number);
  void prepare_threads(unsigned count);
  void poison_shared();
  void lay_out_shared();
  void check_shared();
  void finish(Thread& self);
  inline void suspend(Thread& self) __attribute__((always_inline));
  [[noreturn]] void different_barriers(Thread& self, const char* operation, const char* file, int line);
  inline void make_ready(Thread& thread);
  inline Thread* take_ready();
  /// Makes the threads in [begin, end) that `select` accepts ready, in the configured order.
  template <class Select>
  void make_ready_if(Select select, unsigned begin, unsigned end);
  void release_barrier();
  /// Handles a block without ready threads. Returns false if the launch has failed.
  bool idle();
  bool release_grid();
  bool release_lockstep();
  bool poll_spinners();
  void report_deadlock();
  void complete(Warp& warp, unsigned warp_number, Rendezvous& meeting);
  BulkRecord& bulk_record(Thread& self, std::uint64_t barrier, const char* file, int line);
  bool bulk_done(BulkRecord& record, unsigned parity);
  std::string describe(const Thread& thread) const;
  std::string here(const Thread& thread, const char* operation, const char* file, int line) const;
  std::uint64_t random();

  static constexpr unsigned most_threads = 1024;
  Grid* grid_ = nullptr;
  Fiber worker_;  // the OS thread itself
  const pthread_t os_thread_ = pthread_self();
  std::uint64_t turn_ = 0, overdue_turn_ = ~std::uint64_t{0};
  Stacks stacks_;
  std::vector<std::unique_ptr<Thread>> threads_;
  unsigned size_ = 0, live_ = 0;
  // Ready threads, in a ring buffer; each thread is in it at most once.
  std::unique_ptr<Thread*[]> ring_;
  unsigned head_ = 0, ready_ = 0;
  std::vector<Thread*> scratch_;
  // State of __syncthreads.
  unsigned arrived_ = 0;
  int predicate_count_ = 0;
  Thread* first_arrived_ = nullptr;
  unsigned barrier_parity_ = 0;
  // State of spinning.
  std::uint64_t progress_ = 0, spin_progress_ = 0;
  unsigned spin_rounds_ = 0;
  double spin_begin_ = 0;

  bool faulted_ = false;
  std::unique_ptr<Warp[]> warps_;
  unsigned warp_count_ = 0;
  std::vector<BulkRecord> bulk_;
  std::uint64_t serial_ = 0;  // number of the block on this OS thread; identifies BulkBarriers of earlier blocks
  std::uint64_t random_ = 0;
  std::byte* shared_ = nullptr;
  std::size_t shared_mapped_ = 0;
  std::byte* shared_open_ = nullptr;  // the pages before this address are inaccessible
  std::size_t shared_bytes_ = 0;      // size and poison with which the canary around the shared memory was written
  Poison shared_poison_ = Poison::nan;
  // Addresses used as synchronisation objects for TSan.
  std::uint64_t fork_token_ = 0, join_token_ = 0, barrier_token_[2] = {}, grid_token_[2] = {};
  unsigned grid_parity_ = 0;
};

inline void Block::make_ready(Thread& thread) {
  thread.state = State::ready;
  ring_[(head_ + ready_++) % most_threads] = &thread;
}

inline Thread* Block::take_ready() {
  if (ready_ == 0) return nullptr;
  Thread* thread = ring_[head_];
  head_ = (head_ + 1) % most_threads;
  --ready_;
  return thread;
}

inline void Block::suspend(Thread& self) {
  next_turn();
  sanitizer_release(&join_token_);  // the block may be abandoned before this thread runs again
  Thread* next = take_ready();
  if (next != &self) Fiber::change(self.fiber, next ? next->fiber : worker_);
  self.state = State::running;
  this_thread = &self;
}

template <class Select>
void Block::make_ready_if(Select select, unsigned begin, unsigned end) {
  switch (grid_->configuration.order) {
    case Order::natural:
      for (unsigned i = begin; i < end; ++i) {
        if (select(*threads_[i])) make_ready(*threads_[i]);
      }
      return;
    case Order::reverse:
      for (unsigned i = end; i-- > begin;) {
        if (select(*threads_[i])) make_ready(*threads_[i]);
      }
      return;
    case Order::seeded:
      scratch_.clear();
      for (unsigned i = begin; i < end; ++i) {
        if (select(*threads_[i])) scratch_.push_back(threads_[i].get());
      }
      for (std::size_t i = scratch_.size(); i > 1; --i) std::swap(scratch_[i - 1], scratch_[random() % i]);
      for (Thread* thread : scratch_) make_ready(*thread);
      return;
  }
}

inline Thread& current() {
  return *static_cast<Thread*>(this_thread);
}
inline Block& current_block() {
  return *static_cast<Block*>(this_thread->block);
}

}  // namespace emulator
