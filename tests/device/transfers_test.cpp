// Strided copies, and batches of copies, prefetches and discards.

#include <cmath>
#include <numeric>

#include "device/relaxed.hpp"
#include "emulator_fixture.hpp"

namespace isthmus::device {
namespace {

using TransfersTest = EmulatorTest;

std::vector<int> numbers(int n) {
  std::vector<int> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1);
  return values;
}

// --- strided copies --------------------------------------------------------------------------------

TEST_F(TransfersTest, RowsAreGatheredAndScattered) {
  DeviceArray<int> wide(numbers(12)), narrow(std::vector<int>(6, 0)), back(std::vector<int>(12, 0));
  Stream stream;
  // The first two of the four columns of each of three rows.
  copy_strided_async(narrow.get(), wide.get(), {.row_bytes = 8, .rows = 3, .source_pitch = 16}, stream);
  copy_strided_async(back.get(), narrow.get(), {.row_bytes = 8, .rows = 3, .destination_pitch = 16}, stream);
  stream.synchronize();
  EXPECT_EQ(narrow.host(), (std::vector<int>{1, 2, 5, 6, 9, 10}));
  EXPECT_EQ(back.host(), (std::vector<int>{1, 2, 0, 0, 5, 6, 0, 0, 9, 10, 0, 0}));
}

TEST_F(TransfersTest, PlanesAreGatheredAndScattered) {
  DeviceArray<int> box(numbers(24));  // 2 planes of 3 rows of 4
  DeviceArray<int> corner(std::vector<int>(8, 0)), back(std::vector<int>(24, 0));
  Stream stream;
  const StridedCopy gather{.row_bytes = 8, .rows = 2, .planes = 2, .source_pitch = 16, .source_rows = 3};
  const StridedCopy scatter{.row_bytes = 8, .rows = 2, .planes = 2, .destination_pitch = 16, .destination_rows = 3};
  copy_strided_async(corner.get(), box.get(), gather, stream);
  copy_strided_async(back.get(), corner.get(), scatter, stream);
  stream.synchronize();
  EXPECT_EQ(corner.host(), (std::vector<int>{1, 2, 5, 6, 13, 14, 17, 18}));
  EXPECT_EQ(back.host(), (std::vector<int>{1,  2,  0, 0, 5,  6,  0, 0, 0, 0, 0, 0,  //
                                           13, 14, 0, 0, 17, 18, 0, 0, 0, 0, 0, 0}));
}

TEST_F(TransfersTest, StridedCopiesAreHeldToTheirAllocations) {
  DeviceArray<char> wide(100), narrow(100);
  Stream stream;
  const auto attempt = [&](const StridedCopy& shape) {
    return error_of([&] { copy_strided_async(narrow.get(), wide.get(), shape, stream); });
  };
  // The last row ends with its bytes, not with its pitch.
  EXPECT_EQ(attempt({.row_bytes = 10, .rows = 4, .source_pitch = 30}), "");
  expect_mentions(attempt({.row_bytes = 11, .rows = 4, .source_pitch = 30}), {"source: 101 bytes", "the 100 bytes"});
  expect_mentions(attempt({.row_bytes = 10, .rows = 2, .planes = 2, .destination_pitch = 10, .destination_rows = 9}),
                  {"destination: 110 bytes"});
  expect_mentions(attempt({.row_bytes = 10, .rows = 2, .source_pitch = 9}),
                  {"copy_strided_async: the source's pitch of 9 bytes is less than the 10 of a row"});
  expect_mentions(attempt({.row_bytes = 10, .rows = 2, .destination_pitch = 9}), {"the destination's pitch"});
  expect_mentions(attempt({.row_bytes = 1, .rows = 3, .planes = 2, .source_rows = 2}),
                  {"the source's 2 rows a plane are fewer than the 3"});
  expect_mentions(attempt({.row_bytes = 8, .rows = ~std::size_t{0} / 4}), {"more bytes than can be counted"});
  for (const StridedCopy nothing : {StridedCopy{}, StridedCopy{.row_bytes = 1, .rows = 0},
                                    StridedCopy{.row_bytes = 1, .planes = 0, .source_pitch = 9}}) {
    EXPECT_EQ(attempt(nothing), "");
  }
  stream.synchronize();
}

TEST_F(TransfersTest, StridedCopiesOfPageableMemoryMayBeSynchronous) {
  configure("grace=30");
  DeviceArray<int> wide(numbers(4));
  std::vector<int> host(2, 0);
  Stream stream;
  copy_strided_async(host.data(), wide.get(), {.row_bytes = 4, .rows = 2, .source_pitch = 8}, stream);
  EXPECT_EQ(host, (std::vector<int>{1, 3}));
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
  expect_mentions(error_of([&] { copy_batch_async(dead, stream); }), {"item 1: source", "no live device allocation"});
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

/// What was copied before the stream wrote `value`, seen by a kernel that runs meanwhile.
__global__ void read_behind(const std::uint32_t* word, std::uint32_t value, const int* copied, int* seen) {
  spin_until([&] { return load_relaxed(word) == value; });
  load_acquire(word);
  *seen = *copied;
}

TEST_F(TransfersTest, AKernelThatRunsSeesWhatCameBeforeAValue) {
  DeviceArray<int> in(numbers(1)), copied(std::vector<int>{0}), seen(std::vector<int>{0});
  DeviceArray<std::uint32_t> words(std::vector<std::uint32_t>(3, 0));
  Stream kernels, writes;
  launch(kernels, ISTHMUS_KERNEL(read_behind), {.grid = 1, .block = 1}, words.get() + 1, 7u, copied.get(), seen.get());
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
  expect_mentions(attempt(words.get() + 2), {"write_values_async: item 1", "in no live device allocation"});
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
  EXPECT_EQ(a.get()[0], 1.0f) << "nobody asked for it yet";
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
    expect_mentions(error_of([&] { call(foreign); }), {"_batch: item 1: the pointer is not to managed memory"});
  }
  stream.synchronize();
  EXPECT_EQ(managed.get()[0], 1.0f) << "a batch that is refused does nothing";
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
}  // namespace isthmus::device
