// CUDA's memory model as ThreadSanitizer sees it in the emulator: ordered accesses cause no report, unordered accesses
// do. See README.md, "The memory model". Each body runs in a separate process, which exits with 66 after a report.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "fixture.hpp"

#if defined(__SANITIZE_THREAD__)

namespace emulator {
namespace {

constexpr int reported = 66, clean = 0, most_repeats = 10;

/// Runs a body in a separate process and returns its exit code; the output is shown if the test fails.
template <class Body>
int exit_code_of(Body body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(1);
    try {
      body();
    } catch (const Error&) {
      _exit(2);
    }
    std::exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Expects a report in at least one of ten runs, because finding a race may depend on the schedule.
template <class Body>
void expect_reported(Body body, const char* what = "") {
  for (int i = 0; i < most_repeats; ++i) {
    const int code = exit_code_of(body);
    if (code == reported) return;
    ASSERT_EQ(code, clean) << "the kernel itself failed";
  }
  ADD_FAILURE() << "no report in " << most_repeats << " runs " << what;
}

/// Expects no report in any run.
template <class Body>
void expect_clean(Body body) {
  for (int i = 0; i < 3; ++i) ASSERT_EQ(exit_code_of(body), clean);
}

template <class... P, class... A>
void run(Kernel<P...> kernel, const LaunchShape& shape, A... arguments) {
  Stream stream;
  launch(stream, kernel, shape, arguments...);
  stream.synchronize();
}

// --- a message: data, then a flag ------------------------------------------------------------------

enum class Flag { exchange, add, cas, relaxed, is_volatile, release_acquire };

template <Flag flag>
__device__ void raise(unsigned* word) {
  if constexpr (flag == Flag::exchange) atomicExch(word, 1u);
  if constexpr (flag == Flag::add) atomicAdd(word, 1u);
  if constexpr (flag == Flag::cas) atomicCAS(word, 0u, 1u);
  if constexpr (flag == Flag::relaxed) store_relaxed(word, 1u);
  if constexpr (flag == Flag::is_volatile) *static_cast<volatile unsigned*>(word) = 1;
  if constexpr (flag == Flag::release_acquire) store_release(word, 1u);
}

template <Flag flag>
__device__ bool is_raised(unsigned* word) {
  if constexpr (flag == Flag::exchange || flag == Flag::relaxed) return load_relaxed(word) == 1;
  if constexpr (flag == Flag::add) return atomicAdd(word, 0u) == 1;
  if constexpr (flag == Flag::cas) return atomicCAS(word, 1u, 1u) == 1;
  if constexpr (flag == Flag::is_volatile) return *static_cast<volatile unsigned*>(word) == 1;
  return load_acquire(word) == 1;
}

enum class Fences { none, writer, reader, both, both_of_block };

template <Fences fences, bool Writer>
__device__ void fence_of() {
  if constexpr (fences == Fences::both_of_block) __threadfence_block();
  if constexpr (fences == Fences::both || fences == (Writer ? Fences::writer : Fences::reader)) __threadfence();
}

/// Sends a message from the first thread to the last thread, of the same block or of another block.
template <Flag flag, Fences fences>
__global__ void message(int* data, unsigned* word, int* out) {
  if (gridDim.x > 1) grid_sync();
  const bool first = blockIdx.x == 0 && threadIdx.x == 0;
  const bool last = blockIdx.x == gridDim.x - 1 && threadIdx.x == blockDim.x - 1;
  if (first) {
    *data = 7;
    fence_of<fences, true>();
    raise<flag>(word);
  } else if (last) {
    spin_until([&] { return is_raised<flag>(word); });
    fence_of<fences, false>();
    *out = *data;
  }
}

struct Message {
  DeviceArray<int> data{std::vector<int>(1, 0)}, out{std::vector<int>(1, 0)};
  DeviceArray<unsigned> word{std::vector<unsigned>(4, 0)};
};

// Blocks that run on the same OS thread are ordered, so blocks that are meant to race must first meet at a barrier.
constexpr LaunchShape within_block{.grid = 1, .block = 2}, across_blocks{.grid = 2, .block = 1, .cooperative = true};

template <Flag flag, Fences fences>
void send(const LaunchShape& shape) {
  Message m;
  run(EMULATOR_KERNEL((message<flag, fences>)), shape, m.data.get(), m.word.get(), m.out.get());
}

class MemoryModelTest : public EmulatorTest {};

template <Flag flag>
void expect_fences_needed() {
  for (const LaunchShape& shape : {within_block, across_blocks}) {
    SCOPED_TRACE(shape.grid.x == 1 ? "within a block" : "across blocks");
    expect_clean([&] { send<flag, Fences::both>(shape); });
    expect_reported([&] { send<flag, Fences::reader>(shape); }, "a fence of the reader alone");
    expect_reported([&] { send<flag, Fences::writer>(shape); }, "a fence of the writer alone");
    expect_reported([&] { send<flag, Fences::none>(shape); }, "no fence");
  }
}

TEST_F(MemoryModelTest, ExchangeNeedsBothFences) {
  expect_fences_needed<Flag::exchange>();
}
TEST_F(MemoryModelTest, AddNeedsBothFences) {
  expect_fences_needed<Flag::add>();
}
TEST_F(MemoryModelTest, CompareAndSwapNeedsBothFences) {
  expect_fences_needed<Flag::cas>();
}
TEST_F(MemoryModelTest, RelaxedAccessesNeedBothFences) {
  expect_fences_needed<Flag::relaxed>();
}
TEST_F(MemoryModelTest, VolatileNeedsBothFences) {
  expect_fences_needed<Flag::is_volatile>();
}
TEST_F(MemoryModelTest, ReleaseAndAcquireNeedNone) {
  expect_clean([] { send<Flag::release_acquire, Fences::none>(within_block); });
  expect_clean([] { send<Flag::release_acquire, Fences::none>(across_blocks); });
}
TEST_F(MemoryModelTest, AFenceOfTheBlockOrdersWithinIt) {
  expect_clean([] { send<Flag::exchange, Fences::both_of_block>(within_block); });
  expect_reported([] { send<Flag::exchange, Fences::both_of_block>(across_blocks); });
}

// --- coverage of fences ----------------------------------------------------------------------------

/// Writes the number after the fence; with `Late`, also after the state.
template <bool Late>
__global__ void number_behind_the_fence(int* number, unsigned* state, int* out) {
  grid_sync();
  if (blockIdx.x == 0) {
    __threadfence();
    if constexpr (!Late) *number = 7;
    atomicExch(state, 1u);
    if constexpr (Late) *number = 7;
  } else {
    spin_until([&] { return load_relaxed(state) == 1; });
    __threadfence();
    *out = *number;
  }
}

TEST_F(MemoryModelTest, ANumberWrittenAfterTheStateIsReported) {
  expect_reported([] {
    Message m;
    run(EMULATOR_KERNEL(number_behind_the_fence<true>), across_blocks, m.data.get(), m.word.get(), m.out.get());
  });
}
TEST_F(MemoryModelTest, ANumberWrittenBetweenFenceAndStateIsReported) {
  expect_reported([] {
    Message m;
    run(EMULATOR_KERNEL(number_behind_the_fence<false>), across_blocks, m.data.get(), m.word.get(), m.out.get());
  });
}

/// Passes the state from the first block through the second to the third with updates; only the first block uses a
/// fence.
template <bool Store>
__global__ void chain(int* data, unsigned* state, int* out) {
  grid_sync();
  if (blockIdx.x == 0) {
    *data = 7;
    __threadfence();
    atomicAdd(state, 1u);
  } else if (blockIdx.x == 1) {
    spin_until([&] { return load_relaxed(state) == 1; });
    if constexpr (Store) {
      store_relaxed(state, 2u);
    } else {
      atomicAdd(state, 1u);
    }
  } else {
    spin_until([&] { return load_relaxed(state) == 2; });
    __threadfence();
    *out = *data;
  }
}

TEST_F(MemoryModelTest, AnUpdateCarriesOnWhatItReadAndAStoreDoesNot) {
  expect_clean([] {
    Message m;
    run(EMULATOR_KERNEL(chain<false>), {.grid = 3, .block = 1, .cooperative = true}, m.data.get(), m.word.get(),
        m.out.get());
  });
  expect_reported([] {
    Message m;
    run(EMULATOR_KERNEL(chain<true>), {.grid = 3, .block = 1, .cooperative = true}, m.data.get(), m.word.get(),
        m.out.get());
  });
}

/// Reads a word that was written before the fence, so reading it does not order the data.
__global__ void another_word(int* data, unsigned* words, int* out) {
  grid_sync();
  if (blockIdx.x == 0) {
    *data = 7;
    atomicExch(words + 1, 1u);
    __threadfence();
    atomicExch(words, 1u);
  } else {
    spin_until([&] { return load_relaxed(words + 1) == 1; });
    __threadfence();
    *out = *data;
  }
}

TEST_F(MemoryModelTest, AFenceBehindTheStateIsReported) {
  expect_reported([] {
    Message m;
    run(EMULATOR_KERNEL(another_word), across_blocks, m.data.get(), m.word.get(), m.out.get());
  });
}

/// Uses a fence before a compare-and-swap that fails, which writes nothing and therefore carries no fence.
__global__ void failed_swap(int* data, unsigned* words, int* out) {
  grid_sync();
  if (blockIdx.x == 0) {
    *data = 7;
    __threadfence();
    atomicCAS(words, 5u, 6u);
    atomicExch(words + 1, 1u);
  } else {
    for (int i = 0; i < 50 && load_relaxed(words) == 0; ++i) spin_wait();
    __threadfence();
    *out = *data;
  }
}

TEST_F(MemoryModelTest, AFailedSwapOrdersNothing) {
  expect_reported([] {
    Message m;
    run(EMULATOR_KERNEL(failed_swap), across_blocks, m.data.get(), m.word.get(), m.out.get());
  });
}

// --- locks, counts and atomics alone ---------------------------------------------------------------

template <bool Fence>
__global__ void locked_counter(unsigned* lock, int* count) {
  grid_sync();
  for (int i = 0; i < 20; ++i) {
    spin_until([&] { return atomicCAS(lock, 0u, 1u) == 0; });
    __threadfence();
    ++*count;
    if constexpr (Fence) __threadfence();
    atomicExch(lock, 0u);
  }
}

TEST_F(MemoryModelTest, ALockNeedsAFenceBeforeItIsFree) {
  const LaunchShape shape{.grid = 4, .block = 2, .cooperative = true};
  expect_clean([&] {
    Message m;
    run(EMULATOR_KERNEL(locked_counter<true>), shape, m.word.get(), m.data.get());
    if (m.data.host()[0] != 160) std::exit(3);
  });
  expect_reported([&] {
    Message m;
    run(EMULATOR_KERNEL(locked_counter<false>), shape, m.word.get(), m.data.get());
  });
}

/// Lets the last block that arrives sum the values that all blocks wrote.
template <bool Acquire>
__global__ void last_block(int* parts, unsigned* count, int* out) {
  grid_sync();
  parts[blockIdx.x] = 1;
  __threadfence();
  if (atomicAdd(count, 1u) != gridDim.x - 1) return;
  if constexpr (Acquire) __threadfence();
  int sum = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) sum += parts[i];
  *out = sum;
}

TEST_F(MemoryModelTest, TheLastBlockNeedsAFenceBehindItsCount) {
  expect_clean([] {
    Message m;
    DeviceArray<int> parts(8);
    run(EMULATOR_KERNEL(last_block<true>), {.grid = 8, .block = 1, .cooperative = true}, parts.get(), m.word.get(),
        m.out.get());
    if (m.out.host()[0] != 8) std::exit(3);
  });
  expect_reported([] {
    Message m;
    DeviceArray<int> parts(8);
    run(EMULATOR_KERNEL(last_block<false>), {.grid = 8, .block = 1, .cooperative = true}, parts.get(), m.word.get(),
        m.out.get());
  });
}

__global__ void count_up(unsigned* words) {
  atomicAdd(words, 1u);
  atomicMax(words + 1, blockIdx.x);
  store_relaxed(words + 2, 1u);
  *static_cast<volatile unsigned*>(words + 3) = *static_cast<volatile unsigned*>(words + 2);
}

TEST_F(MemoryModelTest, AtomicsAloneAreClean) {
  expect_clean([] {
    Message m;
    run(EMULATOR_KERNEL(count_up), {.grid = 64, .block = 2}, m.word.get());
    if (m.word.host()[0] != 128) std::exit(3);
  });
}

__global__ void plain_and_atomic(unsigned* words) {
  grid_sync();
  if (blockIdx.x % 2 == 0) {
    atomicAdd(words, 1u);
  } else {
    *words = 1;
  }
}

TEST_F(MemoryModelTest, APlainWriteBesideAtomicsIsReported) {
  expect_reported([] {
    Message m;
    run(EMULATOR_KERNEL(plain_and_atomic), across_blocks, m.word.get());
  });
}

// --- blocks ----------------------------------------------------------------------------------------

/// Every block writes the same word or, with `Apart`, its own. Running blocks one after the other does not order them.
template <bool Apart>
__global__ void same_word(int* words) {
  spin_wait();  // so that the other OS thread can start a block
  words[Apart ? blockIdx.x : 0] = static_cast<int>(blockIdx.x);
}

TEST_F(MemoryModelTest, BlocksAreNotOrderedByTheirTurns) {
  expect_reported([] {
    DeviceArray<int> words(256);
    run(EMULATOR_KERNEL(same_word<false>), {.grid = 256, .block = 1}, words.get());
  });
  expect_clean([] {
    DeviceArray<int> words(256);
    run(EMULATOR_KERNEL(same_word<true>), {.grid = 256, .block = 1}, words.get());
  });
}

/// Increments a word in one block after the other, without fences: waiting for their turn does not order blocks.
__global__ void handed_over(int* word, unsigned* turn) {
  grid_sync();
  spin_until([&] { return load_relaxed(turn) == blockIdx.x; });
  ++*word;
  atomicAdd(turn, 1u);
}

TEST_F(MemoryModelTest, BlocksThatWaitForTheirTurnAreReported) {
  expect_reported([] {
    Message m;
    run(EMULATOR_KERNEL(handed_over), {.grid = 8, .block = 1, .cooperative = true}, m.data.get(), m.word.get());
  });
}

/// Covers two consecutive kernels of a stream and the host's copy.
TEST_F(MemoryModelTest, AStreamsOrderIsClean) {
  expect_clean([] {
    DeviceArray<int> words(256);
    Stream stream;
    for (int i = 0; i < 4; ++i) {
      launch(stream, EMULATOR_KERNEL(same_word<true>), {.grid = 256, .block = 1}, words.get());
      launch(stream, EMULATOR_KERNEL(same_word<false>), {.grid = 1, .block = 1}, words.get());
    }
    stream.synchronize();
    if (words.host()[255] != 255) std::exit(3);
  });
}

// --- barriers --------------------------------------------------------------------------------------

/// Passes data through barriers in both blocks: one thread's fence publishes what other threads of its block have
/// written, and one thread's fence acquires it for the other threads of its block.
template <bool Fence>
__global__ void through_barriers(int* data, unsigned* word, int* out) {
  grid_sync();
  if (blockIdx.x == 0) {
    data[threadIdx.x] = 7;
    __syncthreads();
    if (threadIdx.x == 0) {
      if constexpr (Fence) __threadfence();
      atomicExch(word, 1u);
    }
  } else {
    if (threadIdx.x == 0) {
      spin_until([&] { return load_relaxed(word) == 1; });
      __threadfence();
    }
    __syncthreads();
    out[threadIdx.x] = data[blockDim.x - 1 - threadIdx.x];
  }
}

TEST_F(MemoryModelTest, BarriersHandOnAFence) {
  const LaunchShape shape{.grid = 2, .block = 32, .cooperative = true};
  expect_clean([&] {
    Message m;
    DeviceArray<int> data(32), out(32);
    run(EMULATOR_KERNEL(through_barriers<true>), shape, data.get(), m.word.get(), out.get());
  });
  expect_reported([&] {
    Message m;
    DeviceArray<int> data(32), out(32);
    run(EMULATOR_KERNEL(through_barriers<false>), shape, data.get(), m.word.get(), out.get());
  });
}

template <bool Sync>
__global__ void lanes(int* data, int* out) {
  data[threadIdx.x] = 7;
  if constexpr (Sync) sync_warp(full_warp());
  out[threadIdx.x] = data[threadIdx.x ^ 1];
}

TEST_F(MemoryModelTest, SyncWarpOrdersItsLanes) {
  expect_clean([] {
    DeviceArray<int> data(32), out(32);
    run(EMULATOR_KERNEL(lanes<true>), {.grid = 1, .block = 32}, data.get(), out.get());
  });
  expect_reported([] {
    DeviceArray<int> data(32), out(32);
    run(EMULATOR_KERNEL(lanes<false>), {.grid = 1, .block = 32}, data.get(), out.get());
  });
}

/// Runs two rounds; without the second grid barrier (`Second`), a block overwrites what another block may still read.
template <bool Second>
__global__ void rounds(int* data, int* out) {
  data[blockIdx.x] = 1;
  grid_sync();
  out[blockIdx.x] = data[(blockIdx.x + 1) % gridDim.x];
  if constexpr (Second) grid_sync();
  data[blockIdx.x] = 2;
}

TEST_F(MemoryModelTest, GridSyncOrdersBlocks) {
  const LaunchShape shape{.grid = 4, .block = 1, .cooperative = true};
  expect_clean([&] {
    DeviceArray<int> data(4), out(4);
    run(EMULATOR_KERNEL(rounds<true>), shape, data.get(), out.get());
  });
  expect_reported([&] {
    DeviceArray<int> data(4), out(4);
    run(EMULATOR_KERNEL(rounds<false>), shape, data.get(), out.get());
  });
}

// --- the host --------------------------------------------------------------------------------------

/// Answers a question in mapped memory: the host uses acquire and release, the kernel uses fences.
template <bool Fence>
__global__ void answer(volatile unsigned* flags, int* words) {
  while (flags[0] == 0) spin_wait();
  __threadfence_system();
  words[1] = words[0] + 1;
  if constexpr (Fence) __threadfence_system();
  flags[1] = 1;
}

template <bool Fence>
void ask() {
  auto* flags = static_cast<unsigned*>(malloc_pinned(2 * sizeof(unsigned), {.mapped = true}));
  auto* words = static_cast<int*>(malloc_pinned(2 * sizeof(int), {.mapped = true}));
  flags[0] = flags[1] = 0;
  {
    Stream stream;
    launch(stream, EMULATOR_KERNEL(answer<Fence>), {.grid = 1, .block = 1},
           static_cast<unsigned*>(device_address(flags)), static_cast<int*>(device_address(words)));
    stream.idle();  // starts the kernel
    words[0] = 41;
    std::atomic_ref<unsigned>(flags[0]).store(1, std::memory_order_release);
    while (std::atomic_ref<unsigned>(flags[1]).load(std::memory_order_acquire) == 0) usleep(100);
    if (words[1] != 42) std::exit(3);
    stream.synchronize();
  }
  free_pinned(words);
  free_pinned(flags);
}

TEST_F(MemoryModelTest, TheHostIsToldThroughAFence) {
  expect_clean([] { ask<true>(); });
  expect_reported([] { ask<false>(); });
}

}  // namespace
}  // namespace emulator

#endif
