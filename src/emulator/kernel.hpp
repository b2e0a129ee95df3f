#pragma once

// Kernels as host C++: the names of CUDA C++, and our own names for operations that the emulator cannot observe in
// CUDA's spelling. Each thread of a block is a fiber. Functions that need to know where they are called have the
// caller's file and line as default arguments.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "emulator/atomics.hpp"
#include "emulator/cuda_math.hpp"
#include "emulator/memory_model.hpp"
#include "emulator/vector_types.hpp"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
// Every resident block has a separate OS thread, so a thread-local variable is local to the block. Values remain from
// block to block, as on a GPU.
#define __shared__ static thread_local

namespace emulator {

/// Lanes of a warp, lowest lane first.
using LaneMask = std::uint64_t;

/// State shared by the threads of a block.
struct BlockView {
  uint3 index{};
  dim3 block_extent, grid_extent;
  unsigned warp_size = 32;
  std::byte* dynamic_shared = nullptr;
};

/// Indices of a thread.
struct ThreadView {
  uint3 index{};
  unsigned lane = 0, warp = 0;
  BlockView* block = nullptr;
};

/// Thread that is running; null outside kernels.
extern constinit thread_local ThreadView* this_thread;

double seconds() noexcept;
long long ticks() noexcept;

namespace detail {

enum class WarpOperation {
  sync,
  shuffle,
  shuffle_up,
  shuffle_down,
  shuffle_xor,
  ballot,
  any,
  all,
  match_any,
  match_all,
  // CUDA's spellings of the operations above, in the same order.
  syncwarp,
  shfl_sync,
  shfl_up_sync,
  shfl_down_sync,
  shfl_xor_sync,
  ballot_sync,
  any_sync,
  all_sync,
  match_any_sync,
  match_all_sync
};
/// Waits for the other lanes of `mask` and performs the operation. `value` is the operand and receives the result.
void warp_operation(WarpOperation operation, LaneMask mask, void* value, unsigned bytes, int argument, const char* file,
                    int line);

/// Ends the launch, because an operation got an argument that no GPU accepts.
[[noreturn]] void misuse(WarpOperation operation, const char* what, int value, const char* hint, const char* file,
                         int line);

/// Waits for the live threads of the block; returns the number of true predicates.
int barrier(const char* operation, bool predicate, const char* file, int line);
void grid_barrier(const char* file, int line);
void spin_yield(const char* file, int line);
/// Reports one evaluation of the predicate in lockstep emulation; returns true if this lane may continue.
bool lockstep_turn(bool passed, const char* file, int line);
bool lockstep() noexcept;
[[noreturn]] void trap(const char* file, int line);

void async_copy(void* shared, const void* global, unsigned bytes, const char* file, int line);
void async_wait(unsigned pending);

/// Returns the value of an initialised BulkBarrier, which identifies the barrier's record in the block.
std::uint64_t bulk_init(unsigned arrivals);
void bulk_expect(std::uint64_t barrier, unsigned bytes, const char* file, int line);
void bulk_wait(std::uint64_t barrier, unsigned parity, const char* file, int line);
void bulk_copy(void* shared, const void* global, unsigned bytes, std::uint64_t barrier, const char* file, int line);

}  // namespace detail

}  // namespace emulator

#define threadIdx (::emulator::this_thread->index)
#define blockIdx (::emulator::this_thread->block->index)
#define blockDim (::emulator::this_thread->block->block_extent)
#define gridDim (::emulator::this_thread->block->grid_extent)

// --- CUDA's own names ------------------------------------------------------------------------------

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  ::emulator::detail::barrier("__syncthreads", false, file, line);
}
inline int __syncthreads_count(int predicate, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return ::emulator::detail::barrier("__syncthreads_count", predicate != 0, file, line);
}
inline int __syncthreads_or(int predicate, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return ::emulator::detail::barrier("__syncthreads_or", predicate != 0, file, line) != 0;
}
inline int __syncthreads_and(int predicate, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return ::emulator::detail::barrier("__syncthreads_and", predicate == 0, file, line) == 0;
}
inline void __threadfence() {
  ::emulator::fence(::emulator::Scope::device);
}
inline void __threadfence_block() {
  ::emulator::fence(::emulator::Scope::block);
}
inline void __threadfence_system() {
  ::emulator::fence(::emulator::Scope::device);
}
inline long long clock64() {
  return ::emulator::ticks();
}
[[noreturn]] inline void __trap(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  ::emulator::detail::trap(file, line);
}
/// Yields and counts as spinning, because sleeping is useful only in a loop that waits.
inline void __nanosleep(unsigned, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  ::emulator::detail::spin_yield(file, line);
}

// --- our own names ---------------------------------------------------------------------------------

namespace emulator {

template <class T>
T* dynamic_shared() {
  return reinterpret_cast<T*>(this_thread->block->dynamic_shared);
}

inline int warp_size() {
  return static_cast<int>(this_thread->block->warp_size);
}
inline int lane() {
  return static_cast<int>(this_thread->lane);
}
inline int warp_in_block() {
  return static_cast<int>(this_thread->warp);
}
inline LaneMask full_warp() {
  return warp_size() == 64 ? ~LaneMask{0} : (LaneMask{1} << warp_size()) - 1;
}

namespace detail {
template <class T>
T exchange(WarpOperation operation, LaneMask mask, T value, int argument, const char* file, int line) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16,
                "lanes exchange trivially copyable values of up to 16 bytes");
  warp_operation(operation, mask, &value, sizeof(T), argument, file, line);
  return value;
}
template <class T>
LaneMask bits_of_value(const T& value) {
  static_assert(sizeof(T) <= 8, "lanes are matched by values of up to 64 bits");
  LaneMask bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
}  // namespace detail

/// Returns the value of `source_lane`; undefined (poison here) if that lane is not in `mask`.
template <class T>
T shuffle(LaneMask mask, T value, int source_lane, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return detail::exchange(detail::WarpOperation::shuffle, mask, value, source_lane, file, line);
}
template <class T>
T shuffle_up(LaneMask mask, T value, int delta, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return detail::exchange(detail::WarpOperation::shuffle_up, mask, value, delta, file, line);
}
template <class T>
T shuffle_down(LaneMask mask, T value, int delta, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return detail::exchange(detail::WarpOperation::shuffle_down, mask, value, delta, file, line);
}
template <class T>
T shuffle_xor(LaneMask mask, T value, int bits, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return detail::exchange(detail::WarpOperation::shuffle_xor, mask, value, bits, file, line);
}
inline LaneMask ballot(LaneMask mask, bool predicate, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  return detail::exchange<LaneMask>(detail::WarpOperation::ballot, mask, predicate, 0, file, line);
}
inline bool any(LaneMask mask, bool predicate, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return detail::exchange<LaneMask>(detail::WarpOperation::any, mask, predicate, 0, file, line) != 0;
}
inline bool all(LaneMask mask, bool predicate, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return detail::exchange<LaneMask>(detail::WarpOperation::all, mask, predicate, 0, file, line) != 0;
}
/// Returns the lanes of `mask` whose value has the same bits.
template <class T>
LaneMask match_any(LaneMask mask, T value, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return detail::exchange(detail::WarpOperation::match_any, mask, detail::bits_of_value(value), 0, file, line);
}
template <class T>
bool match_all(LaneMask mask, T value, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return detail::exchange(detail::WarpOperation::match_all, mask, detail::bits_of_value(value), 0, file, line) != 0;
}
inline void sync_warp(LaneMask mask, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  detail::warp_operation(detail::WarpOperation::sync, mask, nullptr, 0, 0, file, line);
}

inline void grid_sync(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  detail::grid_barrier(file, line);
}

inline void spin_wait(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  detail::spin_yield(file, line);
}

/// Waits until `predicate` is true. A thread for which it was true does not call it again.
template <class Predicate>
void spin_until(Predicate predicate, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!detail::lockstep()) {
    while (!predicate()) detail::spin_yield(file, line);
    return;
  }
  bool passed = false;
  do {
    passed = passed || predicate();
  } while (!detail::lockstep_turn(passed, file, line));
}

template <class T>
T load_acquire(const T* address) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  T value;
  const AtomicTurn turn(address, Touch::load, AtomicTurn::Order::acquire);
  __atomic_load(address, &value, __ATOMIC_ACQUIRE);
  return value;
}
template <class T>
void store_release(T* address, std::type_identity_t<T> value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  const AtomicTurn turn(address, Touch::store, AtomicTurn::Order::release);
  __atomic_store(address, &value, __ATOMIC_RELEASE);
}
/// Returns a value that other threads may be changing with atomics: any value that the memory has had, without ordering
/// of other memory.
template <class T>
T load_relaxed(const T* address) {
  const AtomicTurn turn(address, Touch::load);
  return __atomic_load_n(address, __ATOMIC_RELAXED);
}
/// Writes a value that other threads read with load_relaxed, without ordering of other memory.
template <class T>
void store_relaxed(T* address, std::type_identity_t<T> value) {
  const AtomicTurn turn(address, Touch::store);
  __atomic_store_n(address, value, __ATOMIC_RELAXED);
}
template <class T>
T load_global(const T* address) {
  static_assert(sizeof(T) == 8, "load_global needs a type of 64 bits");
  return *address;
}
template <class T>
T load_streaming(const T* address) {
  return *address;
}
template <class T>
void store_streaming(T* address, std::type_identity_t<T> value) {
  *address = value;
}

/// Returns the time in seconds on a clock shared by all threads of the device; its zero is arbitrary.
inline double device_seconds() {
  return seconds();
}

/// Return true if the hardware supports such copies.
bool has_async_copy() noexcept;
bool has_bulk_copy() noexcept;

template <unsigned Bytes>
void async_copy(void* shared, const void* global, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "asynchronous copies move 4, 8 or 16 bytes");
  detail::async_copy(shared, global, Bytes, file, line);
}
void async_commit();
template <unsigned Pending>
void async_wait() {
  detail::async_wait(Pending);
}

/// Barrier in shared memory that counts arrivals and bytes. One thread calls init, followed by a barrier of all
/// threads. One thread calls expect and issues the copies, and all threads wait for the phase's parity: 0, 1, 0, 1, …
class BulkBarrier {
 public:
  void init(unsigned arrivals) { state_ = detail::bulk_init(arrivals); }
  /// Arrives and announces how many bytes the copies of this phase will transfer.
  void expect(unsigned bytes, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    detail::bulk_expect(state_, bytes, file, line);
  }
  void wait(unsigned parity, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    detail::bulk_wait(state_, parity, file, line);
  }

 private:
  friend void bulk_copy(void* shared, const void* global, unsigned bytes, BulkBarrier& barrier, const char* file,
                        int line);
  std::uint64_t state_;
};
static_assert(sizeof(BulkBarrier) == 8);

inline void bulk_fence() {}

inline void bulk_copy(void* shared, const void* global, unsigned bytes, BulkBarrier& barrier,
                      const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  detail::bulk_copy(shared, global, bytes, barrier.state_, file, line);
}

}  // namespace emulator

#include "emulator/cuda_warp.hpp"
// Included after BulkBarrier and masks, because a tile is implemented as a mask.
#include "emulator/cuda_groups.hpp"
