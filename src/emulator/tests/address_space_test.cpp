// Virtual memory management: reserve, create, map, give access, and release.

#include "fixture.hpp"

namespace emulator {
namespace {

// Computes: for (i = 0; i < n; ++i) to[i] = value + i;
__global__ void count_up(unsigned* to, std::size_t n, unsigned value) {
  const std::size_t stride = std::size_t{blockDim.x} * gridDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride)
    to[i] = value + static_cast<unsigned>(i);
}

void run_count(void* to, std::size_t bytes, unsigned value) {
  Stream stream;
  launch(stream, EMULATOR_KERNEL(count_up), {.grid = 4, .block = 64}, static_cast<unsigned*>(to),
         bytes / sizeof(unsigned), value);
  stream.synchronize();
}

std::vector<unsigned> contents(const void* from, std::size_t bytes) {
  std::vector<unsigned> values(bytes / sizeof(unsigned));
  emulator::copy(values.data(), from, bytes);
  return values;
}

class AddressSpace : public EmulatorTest {
 protected:
  const std::size_t unit_ = memory_granularity();
  std::byte* reserve(std::size_t units) { return static_cast<std::byte*>(reserve_addresses(units * unit_)); }
  PhysicalMemory place(std::byte* address, std::size_t units) {
    const auto memory = create_memory(units * unit_);
    map_memory(address, memory);
    set_access(address, units * unit_, selected(), Access::read_write);
    return memory;
  }
};

TEST_F(AddressSpace, GivesMemoryWhereItIsMapped) {
  const auto before = memory_info().free;
  std::byte* range = reserve(4);
  EXPECT_EQ(memory_info().free, before);  // reserved addresses use no memory
  const auto memory = place(range + unit_, 2);
  EXPECT_EQ(memory_info().free, before - 2 * unit_);
  run_count(range + unit_, 2 * unit_, 7);
  const auto found = contents(range + unit_, 2 * unit_);
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], 7 + i);
  const auto info = pointer_info(range + unit_);
  EXPECT_EQ(info.kind, PointerKind::device);
  EXPECT_EQ(info.device, 0);
  unmap_memory(range + unit_, 2 * unit_);
  EXPECT_EQ(memory_info().free, before - 2 * unit_);  // the handle keeps the memory allocated
  release_memory(memory);
  EXPECT_EQ(memory_info().free, before);
  release_addresses(range, 4 * unit_);
}

TEST_F(AddressSpace, MappingsThatFollowEachOtherAreOneRange) {
  std::byte* range = reserve(3);
  for (int i = 0; i < 3; ++i) {
    const auto memory = create_memory(unit_);
    map_memory(range + i * unit_, memory);
    release_memory(memory);  // the mapping keeps the memory allocated
  }
  set_access(range, 3 * unit_, 0, Access::read_write);
  run_count(range, 3 * unit_, 1);
  const auto found = contents(range, 3 * unit_);
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], 1 + i);
  expect_mentions(error_of([&] { unmap_memory(range, unit_ + unit_ / 2); }), {"unmap_memory", "whole mappings"});
  unmap_memory(range, 3 * unit_);
  release_addresses(range, 3 * unit_);
}

TEST_F(AddressSpace, MemoryKeepsItsContentsWhereverItIsMapped) {
  std::byte* range = reserve(4);
  const auto memory = place(range, 1);
  run_count(range, unit_, 5);
  map_memory(range + 2 * unit_, memory);
  set_access(range + 2 * unit_, unit_, 0, Access::read_write);
  EXPECT_EQ(contents(range + 2 * unit_, unit_), contents(range, unit_));
  run_count(range + 2 * unit_, unit_, 100);  // both addresses map the same memory
  EXPECT_EQ(contents(range, unit_).front(), 100u);
  unmap_memory(range, unit_);
  EXPECT_EQ(contents(range + 2 * unit_, unit_).front(), 100u);
  unmap_memory(range + 2 * unit_, unit_);
  release_memory(memory);
  release_addresses(range, 4 * unit_);
}

TEST_F(AddressSpace, NewMemoryHoldsPoison) {
  std::byte* range = reserve(1);
  const auto memory = place(range, 1);
  EXPECT_EQ(contents(range, unit_).front(), 0xffffffffu);
  unmap_memory(range, unit_);
  release_memory(memory);
  release_addresses(range, unit_);
}

TEST_F(AddressSpace, AlignsRanges) {
  void* wide = reserve_addresses(unit_, 16 * unit_);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(wide) % (16 * unit_), 0u);
  release_addresses(wide, unit_);
  expect_mentions(error_of([&] { reserve_addresses(unit_, 3 * unit_); }), {"alignment", "power of two"});
}

TEST_F(AddressSpace, RefusesWhatIsNotWhole) {
  expect_mentions(error_of([&] { reserve_addresses(unit_ + 1); }), {"reserve_addresses", "granularity"});
  expect_mentions(error_of([&] { create_memory(1000); }), {"create_memory", "granularity"});
  expect_mentions(error_of([&] { create_memory(0); }), {"create_memory"});
}

TEST_F(AddressSpace, RefusesTheWrongOrder) {
  std::byte* range = reserve(2);
  std::byte* other = reserve(1);
  const auto memory = create_memory(unit_);
  expect_mentions(error_of([&] { set_access(range, unit_, 0, Access::read_write); }), {"set_access", "whole mappings"});
  expect_mentions(error_of([&] { unmap_memory(range, unit_); }), {"unmap_memory", "whole mappings"});
  expect_mentions(error_of([&] { map_memory(range + 100, memory); }), {"map_memory", "granularity"});
  expect_mentions(error_of([&] { map_memory(range + 2 * unit_, memory); }), {"not within reserved addresses"});
  map_memory(range, memory);
  const auto second = create_memory(2 * unit_);
  expect_mentions(error_of([&] { map_memory(range, second); }), {"already mapped"});
  expect_mentions(error_of([&] { release_addresses(range, 2 * unit_); }), {"still in the range", "unmap_memory"});
  expect_mentions(error_of([&] { release_addresses(range, unit_); }), {"as a whole"});
  expect_mentions(error_of([&] { release_addresses(range + unit_, unit_); }),
                  {"not the beginning of a reserved range"});
  unmap_memory(range, unit_);
  expect_mentions(error_of([&] { unmap_memory(range, unit_); }), {"whole mappings"});
  release_memory(memory);
  expect_mentions(error_of([&] { release_memory(memory); }), {"already released"});
  expect_mentions(error_of([&] { map_memory(range, memory); }), {"released"});
  release_memory(second);
  release_addresses(range, 2 * unit_);
  expect_mentions(error_of([&] { release_addresses(range, 2 * unit_); }), {"release_addresses", "once"});
  release_addresses(other, unit_);
}

TEST_F(AddressSpace, IsNotFreedByTheCallsOfOtherMemory) {
  std::byte* range = reserve(1);
  const auto memory = place(range, 1);
  expect_mentions(error_of([&] { free_device(range); }), {"map_memory", "matching function"});
  expect_mentions(error_of([&] { free_managed(range); }), {"map_memory"});
  expect_mentions(error_of([&] { free_pinned(range); }), {"map_memory"});
  void* device = malloc_device(unit_);
  expect_mentions(error_of([&] { unmap_memory(device, unit_); }), {"whole mappings"});
  free_device(device);
  unmap_memory(range, unit_);
  release_memory(memory);
  release_addresses(range, unit_);
}

TEST_F(AddressSpace, NeedsAccessForEachDevice) {
  configure("devices=2");
  std::byte* range = reserve(1);
  const auto memory = create_memory(unit_);
  map_memory(range, memory);
  std::vector<std::byte> bytes(unit_);
  expect_mentions(error_of([&] { emulator::copy(bytes.data(), range, unit_); }), {"no device was given access"});
  expect_mentions(error_of([&] { run_count(range, unit_, 0); }), {"no access", "set_access"});
  set_access(range, unit_, 0, Access::read_write);
  run_count(range, unit_, 0);
  {
    const Selected second(1);
    expect_mentions(error_of([&] { run_count(range, unit_, 0); }), {"device 1 has no access"});
    set_access(range, unit_, 1, Access::read_write);
    run_count(range, unit_, 9);
  }
  EXPECT_EQ(contents(range, unit_).front(), 9u);
  set_access(range, unit_, 0, Access::none);
  expect_mentions(error_of([&] { run_count(range, unit_, 0); }), {"device 0 has no access"});
  unmap_memory(range, unit_);
  release_memory(memory);
  release_addresses(range, unit_);
}

TEST_F(AddressSpace, GivesNoAccessToAPeerThatCannotReachIt) {
  configure("devices=2,peer=0");
  std::byte* range = reserve(1);
  const auto memory = place(range, 1);
  expect_mentions(error_of([&] { set_access(range, unit_, 1, Access::read_write); }), {"set_access", "peer"});
  expect_mentions(error_of([&] { set_access(range, unit_, 7, Access::read_write); }), {"set_access", "7"});
  unmap_memory(range, unit_);
  release_memory(memory);
  release_addresses(range, unit_);
}

TEST_F(AddressSpace, EndsWhereItsMemoryEnds) {
  std::byte* range = reserve(2);
  const auto memory = place(range, 1);
  std::vector<std::byte> bytes(2 * unit_);
  expect_mentions(error_of([&] { emulator::copy(bytes.data(), range, 2 * unit_); }), {"run beyond"});
  expect_mentions(error_of([&] { emulator::copy(bytes.data(), range + unit_, 8); }),
                  {"not in a live device allocation"});
  unmap_memory(range, unit_);
  expect_mentions(error_of([&] { emulator::copy(bytes.data(), range, 8); }), {"not in a live device allocation"});
  release_memory(memory);
  release_addresses(range, 2 * unit_);
}

TEST_F(AddressSpace, NamesAKernelThatLeavesIt) {
  std::byte* range = reserve(4);
  const auto memory = place(range, 1);
  expect_mentions(error_of([&] { run_count(range, 2 * unit_, 0); }), {"count_up", "map_memory", "out of bounds"});
  expect_mentions(error_of([&] { run_count(range + 2 * unit_, unit_, 0); }), {"count_up", "reserved addresses"});
  unmap_memory(range, unit_);
  release_memory(memory);
  release_addresses(range, 4 * unit_);
}

class AddressSpaceDeathTest : public AddressSpace {
 protected:
  AddressSpaceDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(AddressSpaceDeathTest, CatchesAHostThatDereferencesIt) {
  std::byte* range = reserve(1);
  const auto memory = place(range, 1);
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(range) = 1,
               "the host dereferenced device memory.*byte 0 of the .* bytes of map_memory");
  unmap_memory(range, unit_);
  release_memory(memory);
  release_addresses(range, unit_);
}

TEST_F(AddressSpace, HasTheSizeOfItsDevice) {
  configure("memory=1MiB");
  expect_mentions(error_of([&] { create_memory(std::size_t{2} << 20); }), {"create_memory", "do not fit"});
  const auto all = create_memory(std::size_t{1} << 20);
  expect_mentions(error_of([&] { malloc_device(1); }), {"malloc_device", "do not fit"});
  release_memory(all);
  free_device(malloc_device(1));
}

TEST_F(AddressSpace, CanBeMissing) {
  configure("virtual_memory=0");
  try {
    create_memory(unit_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  }
}

TEST_F(AddressSpace, IsReusedByNobodyWhileItIsReserved) {
  std::byte* range = reserve(1);
  std::vector<void*> others;
  for (int i = 0; i < 64; ++i) {
    others.push_back(malloc_device(unit_));
    const auto* at = static_cast<std::byte*>(others.back());
    EXPECT_TRUE(at + unit_ <= range || at >= range + unit_);
  }
  for (void* other : others) free_device(other);
  release_addresses(range, unit_);
}

}  // namespace
}  // namespace emulator
