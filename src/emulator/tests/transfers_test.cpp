// Batches of copies, prefetches and discards, and words that a stream writes.

#include <cmath>
#include <numeric>

#include "fixture.hpp"

namespace emulator {
namespace {

using TransfersTest = EmulatorTest;

std::vector<int> numbers(int n) {
  std::vector<int> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1);
  return values;
}

// --- batches ---------------------------------------------------------------------------------------

TEST_F(TransfersTest, ABatchCopiesEveryItem) {
  DeviceArray<int> in(numbers(8)), out(std::vector<int>(8, 0));
  Stream stream;
  std::vector<CopyItem> items;
  for (int i = 0; i < 4; ++i) items.push_back({out.get() + 2 * i, in.get() + 6 - 2 * i, 2 * sizeof(int)});
  items.push_back({nullptr, nullptr, 0});
  copy_batch_async(items, stream);
  copy_batch_async({}, stream);
  stream.synchronize();
  EXPECT_EQ(out.host(), (std::vector<int>{7, 8, 5, 6, 3, 4, 1, 2}));
}

TEST_F(TransfersTest, ABatchNamesTheItemThatIsWrong) {
  DeviceArray<char> in(100), out(100);
  Stream stream;
  const std::vector<CopyItem> items{{out.get(), in.get(), 50}, {out.get() + 50, in.get() + 50, 51}};
  expect_mentions(error_of([&] { copy_batch_async(items, stream); }),
                  {"copy_batch_async: item 1: destination: 51 bytes from byte 50 run beyond the 100 bytes"});
  auto* freed = static_cast<char*>(malloc_device(64));
  free_device(freed);
  const std::vector<CopyItem> dead{{out.get(), in.get(), 50}, {out.get() + 50, freed, 8}};
  expect_mentions(error_of([&] { copy_batch_async(dead, stream); }),
                  {"item 1: source", "not in a live device allocation"});
}

TEST_F(TransfersTest, ABatchWhoseItemsDependOnEachOtherShows) {
  const auto chained = [&] {
    DeviceArray<int> a(std::vector<int>{1}), b(std::vector<int>{2}), c(std::vector<int>{3});
    Stream stream;
    const std::vector<CopyItem> items{{b.get(), a.get(), sizeof(int)}, {c.get(), b.get(), sizeof(int)}};
    copy_batch_async(items, stream);
    stream.synchronize();
    return c.host()[0];
  };
  EXPECT_EQ(chained(), 1);
  configure("order=reverse");
  EXPECT_EQ(chained(), 2);
}

// --- words that a stream writes --------------------------------------------------------------------

/// Reads, while it runs, data that was copied before the stream wrote `value`.
__global__ void read_behind(const std::uint32_t* word, std::uint32_t value, const int* copied, int* seen) {
  spin_until([&] { return load_relaxed(word) == value; });
  load_acquire(word);
  *seen = *copied;
}

TEST_F(TransfersTest, AKernelThatRunsSeesWhatCameBeforeAValue) {
  DeviceArray<int> in(numbers(1)), copied(std::vector<int>{0}), seen(std::vector<int>{0});
  DeviceArray<std::uint32_t> words(std::vector<std::uint32_t>(3, 0));
  Stream kernels, writes;
  launch(kernels, EMULATOR_KERNEL(read_behind), {.grid = 1, .block = 1}, words.get() + 1, 7u, copied.get(), seen.get());
  copy_async(copied.get(), in.get(), sizeof(int), writes);
  write_values_async({}, writes);
  write_values_async(std::vector<ValueWrite>{{words.get() + 1, 7}, {words.get() + 2, 8}}, writes);
  kernels.synchronize();
  writes.synchronize();
  EXPECT_EQ(seen.host()[0], 1);
  EXPECT_EQ(words.host(), (std::vector<std::uint32_t>{0, 7, 8}));
}

TEST_F(TransfersTest, AWriteOfAValueNamesTheWordThatIsWrong) {
  DeviceArray<std::uint32_t> words(2);
  std::uint32_t plain = 0;
  Stream stream;
  const auto attempt = [&](std::uint32_t* word) {
    const std::vector<ValueWrite> writes{{words.get(), 1}, {word, 1}};
    return error_of([&] { write_values_async(writes, stream); });
  };
  expect_mentions(attempt(words.get() + 2), {"write_values_async: item 1", "not in a live device allocation"});
  expect_mentions(attempt(&plain), {"item 1", "pageable host memory"});
  expect_mentions(attempt(reinterpret_cast<std::uint32_t*>(reinterpret_cast<char*>(words.get()) + 2)),
                  {"item 1", "not aligned"});
  auto* managed = static_cast<std::uint32_t*>(malloc_managed(4));
  expect_mentions(attempt(managed), {"item 1", "managed memory"});
  free_managed(managed);
  Graph graph(stream, [&] { expect_mentions(attempt(words.get() + 1), {"write_values_async", "captured"}); });
  Stream other;
  auto* freed = static_cast<std::uint32_t*>(malloc_pooled(4, other));
  other.synchronize();
  configure("grace=60");
  write_values_async(std::vector<ValueWrite>{{freed, 1}}, stream);
  free_pooled(freed, other);
  other.synchronize();
  expect_mentions(error_of([&] { stream.synchronize(); }), {"a queued write of a value failed"});
}

// --- managed memory --------------------------------------------------------------------------------

class ManagedFloats {
 public:
  explicit ManagedFloats(std::size_t n) : data_(static_cast<float*>(malloc_managed(n * sizeof(float)))) {
    std::fill_n(data_, n, 1.0f);
  }
  ~ManagedFloats() { free_managed(data_); }
  ManagedFloats(const ManagedFloats&) = delete;
  ManagedFloats& operator=(const ManagedFloats&) = delete;
  float* get() const { return data_; }

 private:
  float* data_;
};

TEST_F(TransfersTest, ABatchOfPrefetchesMovesEveryRange) {
  configure("devices=2");
  ManagedFloats a(1024), b(1024);
  Stream stream;
  const std::vector<MemoryRange> both{{a.get(), 4096}, {b.get(), 4096}};
  prefetch_batch(both, Location::gpu(1), stream);
  EXPECT_EQ(last_prefetch(a.get(), 4096), 1);
  EXPECT_EQ(last_prefetch(b.get(), 4096), 1);
  stream.synchronize();
  EXPECT_EQ(a.get()[7], 1.0f);
  expect_mentions(error_of([&] { prefetch_batch(both, Location::gpu(2), stream); }), {"prefetch_batch", "no device 2"});
}

TEST_F(TransfersTest, DiscardedMemoryIsPoisonedInStreamOrder) {
  configure("grace=30");
  ManagedFloats a(16), b(16), c(16);
  Stream stream;
  const std::vector<MemoryRange> ranges{{a.get(), 64}, {b.get() + 4, 16}};
  discard_batch(ranges, stream);
  EXPECT_EQ(a.get()[0], 1.0f) << "nothing has demanded it yet";
  stream.synchronize();
  EXPECT_TRUE(std::isnan(a.get()[0]) && std::isnan(a.get()[15]));
  EXPECT_TRUE(std::isnan(b.get()[4]) && std::isnan(b.get()[7]));
  EXPECT_EQ(b.get()[3], 1.0f);
  EXPECT_EQ(b.get()[8], 1.0f);
  const MemoryRange third{c.get(), 64};
  discard_and_prefetch_batch({&third, 1}, Location::gpu(0), stream);
  stream.synchronize();
  EXPECT_TRUE(std::isnan(c.get()[0]));
  EXPECT_EQ(last_prefetch(c.get(), 64), 0);
}

TEST_F(TransfersTest, BatchesOfRangesAreHeldToManagedMemory) {
  ManagedFloats managed(16);
  DeviceArray<char> device(64);
  Stream stream;
  const std::vector<MemoryRange> beyond{{managed.get(), 64}, {managed.get(), 65}};
  const std::vector<MemoryRange> foreign{{managed.get(), 64}, {device.get(), 64}};
  const std::vector<std::function<void(std::span<const MemoryRange>)>> calls{
      [&](auto ranges) { prefetch_batch(ranges, Location::gpu(0), stream); },
      [&](auto ranges) { discard_batch(ranges, stream); },
      [&](auto ranges) { discard_and_prefetch_batch(ranges, Location::host(), stream); }};
  for (const auto& call : calls) {
    expect_mentions(error_of([&] { call(beyond); }), {"_batch: item 1: 65 bytes", "run beyond the 64 bytes"});
    expect_mentions(error_of([&] { call(foreign); }), {"_batch: item 1: the pointer does not point to managed memory"});
  }
  stream.synchronize();
  EXPECT_EQ(managed.get()[0], 1.0f) << "a refused batch does nothing";
  configure("concurrent_managed=0");
  for (const auto& call : calls) {
    try {
      call(beyond);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    }
  }
}

}  // namespace
}  // namespace emulator
