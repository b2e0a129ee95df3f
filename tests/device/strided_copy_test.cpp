// Tests of strided copies on the emulated device.

#include <numeric>

#include "emulator_fixture.hpp"

namespace isthmus::device {
namespace {

using StridedCopyTest = EmulatorTest;

std::vector<int> numbers(int n) {
  std::vector<int> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1);
  return values;
}

TEST_F(StridedCopyTest, RowsAreGatheredAndScattered) {
  DeviceArray<int> wide(numbers(12)), narrow(std::vector<int>(6, 0)), back(std::vector<int>(12, 0));
  Stream stream;
  // Copies the first two of four columns in each of three rows.
  copy_strided_async(narrow.get(), wide.get(), {.row_bytes = 8, .rows = 3, .source_pitch = 16}, stream);
  copy_strided_async(back.get(), narrow.get(), {.row_bytes = 8, .rows = 3, .destination_pitch = 16}, stream);
  stream.synchronize();
  EXPECT_EQ(narrow.host(), (std::vector<int>{1, 2, 5, 6, 9, 10}));
  EXPECT_EQ(back.host(), (std::vector<int>{1, 2, 0, 0, 5, 6, 0, 0, 9, 10, 0, 0}));
}

TEST_F(StridedCopyTest, PlanesAreGatheredAndScattered) {
  DeviceArray<int> box(numbers(24));  // 2 planes, each with 3 rows of 4 numbers
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

TEST_F(StridedCopyTest, StridedCopiesAreHeldToTheirAllocations) {
  DeviceArray<char> wide(100), narrow(100);
  Stream stream;
  const auto attempt = [&](const StridedCopy& shape) {
    return error_of([&] { copy_strided_async(narrow.get(), wide.get(), shape, stream); });
  };
  // The last row needs only its bytes, not a full pitch.
  EXPECT_EQ(attempt({.row_bytes = 10, .rows = 4, .source_pitch = 30}), "");
  expect_mentions(attempt({.row_bytes = 11, .rows = 4, .source_pitch = 30}), {"source: 101 bytes", "the 100 bytes"});
  expect_mentions(attempt({.row_bytes = 10, .rows = 2, .planes = 2, .destination_pitch = 10, .destination_rows = 9}),
                  {"destination: 110 bytes"});
  expect_mentions(attempt({.row_bytes = 10, .rows = 2, .source_pitch = 9}),
                  {"copy_strided_async: the source's pitch of 9 bytes is less than the 10 of a row"});
  expect_mentions(attempt({.row_bytes = 10, .rows = 2, .destination_pitch = 9}), {"the destination's pitch"});
  expect_mentions(attempt({.row_bytes = 1, .rows = 3, .planes = 2, .source_rows = 2}),
                  {"the source's 2 rows per plane are fewer than the 3"});
  expect_mentions(attempt({.row_bytes = 8, .rows = ~std::size_t{0} / 4}), {"in bytes overflows"});
  for (const StridedCopy nothing : {StridedCopy{}, StridedCopy{.row_bytes = 1, .rows = 0},
                                    StridedCopy{.row_bytes = 1, .planes = 0, .source_pitch = 9}}) {
    EXPECT_EQ(attempt(nothing), "");
  }
  stream.synchronize();
}

TEST_F(StridedCopyTest, StridedCopiesOfPageableMemoryMayBeSynchronous) {
  configure("grace=30");
  DeviceArray<int> wide(numbers(4));
  std::vector<int> host(2, 0);
  Stream stream;
  copy_strided_async(host.data(), wide.get(), {.row_bytes = 4, .rows = 2, .source_pitch = 8}, stream);
  EXPECT_EQ(host, (std::vector<int>{1, 3}));
}

}  // namespace
}  // namespace isthmus::device
