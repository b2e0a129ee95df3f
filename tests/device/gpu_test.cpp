// Tests of every call of the device API and every name of kernel.hpp on a real GPU, and on the emulated device where it
// supports them. Without a device, all tests are skipped, or fail if ISTHMUS_REQUIRE_GPU is set.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "device/api/engine_copies.hpp"
#include "device/api/libraries.hpp"
#include "device/kernel/kernel.hpp"

namespace isthmus::device {
namespace {

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    if (count() == 0) {
      if (std::getenv("ISTHMUS_REQUIRE_GPU") != nullptr) FAIL() << "no device is visible";
      GTEST_SKIP() << "no device is visible";
    }
    select(0);
    info_ = info(0);
  }
  bool emulated() const { return backend() == Backend::emulator; }
  DeviceInfo info_;
};
using GpuKernel = Gpu;

/// Device memory with a host copy, freed at the end of the scope.
template <class T>
class Array {
 public:
  explicit Array(std::size_t size, T value = {}) : host(size, value), device_(static_cast<T*>(malloc_device(bytes()))) {
    upload();
  }
  ~Array() { free_device(device_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  std::size_t bytes() const { return host.size() * sizeof(T); }
  T* device() const { return device_; }
  void upload() { copy(device_, host.data(), bytes()); }
  const std::vector<T>& download() {
    copy(host.data(), device_, bytes());
    return host;
  }
  std::vector<T> host;

 private:
  T* device_;
};

ErrorKind kind_of(const std::function<void()>& body, std::string* message = nullptr) {
  try {
    body();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::timeout;
}

// --- devices ---------------------------------------------------------------------------------------

TEST_F(Gpu, InfoIsComplete) {
  EXPECT_FALSE(info_.name.empty());
  EXPECT_FALSE(info_.uuid.empty());
  EXPECT_FALSE(info_.arch.empty());
  EXPECT_FALSE(info_.driver.empty());
  EXPECT_FALSE(info_.runtime.empty());
  EXPECT_TRUE(info_.warp_size == 32 || info_.warp_size == 64);
  EXPECT_GT(info_.multiprocessors, 0);
  EXPECT_GE(info_.max_threads_per_block, 64);
  EXPECT_GE(info_.max_threads_per_multiprocessor, info_.max_threads_per_block);
  EXPECT_GE(info_.shared_per_block, 16u << 10);
  EXPECT_GT(info_.memory_bytes, 0u);
  if (!emulated()) {
    EXPECT_TRUE(info_.uuid.starts_with("GPU-") || info_.uuid.starts_with("MIG-")) << info_.uuid;
    EXPECT_EQ(info_.pci_bus.size(), 12u) << info_.pci_bus;
    EXPECT_GT(info_.memory_bandwidth.value_or(0), 1e11);
    EXPECT_GT(info_.fp32_rate.value_or(0), 1e12);
  }
  std::printf(
      "%s %s %s %s driver %s runtime %s\n  %d multiprocessors, %.3f GHz, %.1f TFLOP/s, %.0f GB/s, L2 %zu MiB, shared "
      "%zu B a block, NUMA node %d\n  managed %d concurrent %d pageable %d host atomics %d pools %d cooperative %d "
      "async %d bulk %d\n",
      info_.name.c_str(), info_.arch.c_str(), info_.uuid.c_str(), info_.pci_bus.c_str(), info_.driver.c_str(),
      info_.runtime.c_str(), info_.multiprocessors, info_.clock_hz.value_or(0) * 1e-9,
      info_.fp32_rate.value_or(0) * 1e-12, info_.memory_bandwidth.value_or(0) * 1e-9, info_.l2_bytes >> 20,
      info_.shared_per_block, info_.numa_node, info_.managed, info_.concurrent_managed, info_.pageable_access,
      info_.host_native_atomics, info_.memory_pools, info_.cooperative, info_.async_shared_copy,
      info_.bulk_shared_copy);
}

TEST_F(Gpu, ADeviceThatIsNotThereIsAnError) {
  EXPECT_EQ(kind_of([] { info(count()); }), ErrorKind::failure);
  EXPECT_EQ(kind_of([] { info(-1); }), ErrorKind::failure);
  EXPECT_EQ(selected(), 0);
}

TEST_F(Gpu, MemoryInfoSeesAnAllocation) {
  const auto before = memory_info();
  EXPECT_LE(before.free, before.total);
  constexpr std::size_t bytes = 256u << 20;
  void* pointer = malloc_device(bytes);
  EXPECT_LE(memory_info().free + bytes / 2, before.free);
  free_device(pointer);
}

TEST_F(Gpu, TelemetryIsComplete) {
  const Telemetry t = telemetry(0);
  if (emulated()) GTEST_SKIP() << "an emulated device has none";
  EXPECT_FALSE(t.source.empty());
  const auto number = [](const auto& value) { return value ? static_cast<double>(*value) : -1.0; };
  std::printf(
      "%s: PCIe %g x%g (max %g x%g), SM %.0f of %.0f MHz, memory %.0f MHz, %.0f C, %.1f of %.0f W (default %.0f)\n",
      t.source.c_str(), number(t.pcie_generation), number(t.pcie_width), number(t.pcie_generation_max),
      number(t.pcie_width_max), number(t.sm_clock_hz) * 1e-6, number(t.sm_clock_max_hz) * 1e-6,
      number(t.memory_clock_hz) * 1e-6, number(t.temperature_c), number(t.power_w), number(t.power_limit_w),
      number(t.power_limit_default_w));
  std::printf("  ECC %g errors %g persistence %g MIG %g VBIOS %s GSP %s mode %s\n", number(t.ecc),
              number(t.ecc_uncorrected), number(t.persistence), number(t.mig), t.vbios.value_or("?").c_str(),
              t.gsp_firmware.value_or("?").c_str(), t.compute_mode.value_or("?").c_str());
  for (const auto& reason : t.throttle.value_or(std::vector<std::string>{}))
    std::printf("  throttled: %s\n", reason.c_str());
  std::printf("  %zu links%s%s\n", t.links.size(), t.links.empty() ? "" : ", first ",
              t.links.empty() ? "" : t.links.front().c_str());
  for (const unsigned pid : t.foreign_processes.value_or(std::vector<unsigned>{}))
    std::printf("  foreign process %u\n", pid);
  EXPECT_TRUE(t.pcie_generation && t.pcie_width);
  EXPECT_TRUE(t.sm_clock_hz && t.power_w && t.temperature_c);
  EXPECT_EQ(t.foreign_processes, std::vector<unsigned>{});
}

TEST_F(Gpu, LinksAreTold) {
  for (int peer = -1; peer < count(); ++peer) {
    std::string reason;
    const auto found = link(0, peer, &reason);
    EXPECT_NE(found.has_value(), !reason.empty());
    EXPECT_EQ(found.has_value(), !emulated() && peer != 0) << reason;
    if (found) {
      EXPECT_GT(found->rate, 1e9);
      EXPECT_GT(found->count, 0);
    }
    std::printf("0 and %d: %s\n", peer, found ? found->text.c_str() : reason.c_str());
  }
  EXPECT_EQ(link(0, count()), std::nullopt) << "no such device";
  EXPECT_GE(info_.copy_engines, emulated() ? 2 : 0);
}

// --- memory ----------------------------------------------------------------------------------------

constexpr std::size_t elements = 100'003;  // prime, and therefore not a multiple of any block size

std::vector<std::uint32_t> numbers() {
  std::vector<std::uint32_t> values(elements);
  std::iota(values.begin(), values.end(), 7u);
  return values;
}

TEST_F(Gpu, CopiesArriveWhole) {
  const auto in = numbers();
  const std::size_t bytes = elements * sizeof in[0];
  std::vector<std::uint32_t> out(elements, 0);
  void* first = malloc_device(bytes);
  void* second = malloc_device(bytes);
  copy(first, in.data(), bytes);
  copy(second, first, bytes);
  copy(out.data(), second, bytes);
  EXPECT_EQ(out, in);

  Stream stream;
  auto* pinned = static_cast<std::uint32_t*>(malloc_pinned(bytes));
  std::copy(in.begin(), in.end(), pinned);
  fill_async(first, 0xff, bytes, stream);
  copy_async(first, pinned, bytes, stream);
  fill_async(second, 0xff, bytes, stream);
  copy_async(second, first, bytes, stream);
  stream.synchronize();
  std::fill(pinned, pinned + elements, 0u);
  copy_async(pinned, second, bytes, stream);
  stream.synchronize();
  EXPECT_TRUE(std::equal(in.begin(), in.end(), pinned));
  fill_async(first, 0x5a, bytes, stream);
  copy_async(pinned, first, bytes, stream);
  stream.synchronize();
  EXPECT_TRUE(std::all_of(pinned, pinned + elements, [](std::uint32_t v) { return v == 0x5a5a5a5au; }));
  free_pinned(pinned);
  free_device(first);
  free_device(second);
}

TEST_F(Gpu, PointersAreWhatTheyWereAllocatedAs) {
  std::vector<char> pageable(1 << 16);
  EXPECT_EQ(pointer_info(pageable.data()).kind, PointerKind::unregistered);
  void* device = malloc_device(1 << 16);
  EXPECT_EQ(pointer_info(device).kind, PointerKind::device);
  EXPECT_EQ(pointer_info(device).device, 0);
  EXPECT_FALSE(pointer_info(device).mapped);
  free_device(device);
  for (const PinnedOptions options : {PinnedOptions{.mapped = true}, {.mapped = true, .write_combined = true}}) {
    void* pinned = malloc_pinned(1 << 16, options);
    EXPECT_EQ(pointer_info(pinned).kind, PointerKind::pinned);
    EXPECT_TRUE(pointer_info(pinned).mapped);
    free_pinned(pinned);
  }
  void* page = std::aligned_alloc(1 << 16, 1 << 16);
  register_host(page, 1 << 16, {.mapped = true});
  EXPECT_EQ(pointer_info(page).kind, PointerKind::pinned);
  unregister_host(page);
  EXPECT_EQ(pointer_info(page).kind, PointerKind::unregistered);
  std::free(page);
  if (info_.managed) {
    void* managed = malloc_managed(1 << 16);
    EXPECT_EQ(pointer_info(managed).kind, PointerKind::managed);
    free_managed(managed);
  }
}

__global__ void add_one(std::uint32_t* values, std::size_t n) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x) {
    values[i] += 1;
  }
}

TEST_F(Gpu, PooledMemoryIsOrderedByTheStream) {
  if (!info_.memory_pools) GTEST_SKIP() << "no memory pools";
  set_pool_release_threshold(1u << 30);
  const auto in = numbers();
  const std::size_t bytes = elements * sizeof in[0];
  std::vector<std::uint32_t> out(elements);
  Stream stream;
  for (int round = 0; round < 3; ++round) {
    auto* pointer = static_cast<std::uint32_t*>(malloc_pooled(bytes, stream));
    copy_async(pointer, in.data(), bytes, stream);
    launch(stream, ISTHMUS_KERNEL(add_one), {.grid = 4, .block = 128}, pointer, elements);
    copy_async(out.data(), pointer, bytes, stream);
    free_pooled(pointer, stream);
  }
  stream.synchronize();
  EXPECT_EQ(out.front(), in.front() + 1);
  EXPECT_EQ(out.back(), in.back() + 1);
}

TEST_F(Gpu, MemoryIsWhereItIsMapped) {
  if (!info_.virtual_memory) GTEST_SKIP() << "addresses and memory are not apart";
  const std::size_t unit = memory_granularity();
  ASSERT_GT(unit, 0u);
  auto* range = static_cast<std::byte*>(reserve_addresses(3 * unit));
  const auto first = create_memory(unit), second = create_memory(unit);
  map_memory(range, first);
  map_memory(range + unit, second);
  set_access(range, 2 * unit, info_.index, Access::read_write);
  EXPECT_EQ(pointer_info(range).kind, PointerKind::device);
  const std::size_t count = 2 * unit / sizeof(std::uint32_t);
  std::vector<std::uint32_t> in(count), out(count);
  for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<std::uint32_t>(i);
  isthmus::device::copy(range, in.data(), 2 * unit);
  Stream stream;
  launch(stream, ISTHMUS_KERNEL(add_one), {.grid = 4, .block = 128}, reinterpret_cast<std::uint32_t*>(range), count);
  stream.synchronize();
  // Maps the second half and its contents at a different address.
  unmap_memory(range + unit, unit);
  map_memory(range + 2 * unit, second);
  set_access(range + 2 * unit, unit, info_.index, Access::read_write);
  isthmus::device::copy(out.data(), range, unit);
  isthmus::device::copy(out.data() + count / 2, range + 2 * unit, unit);
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], i + 1);
  unmap_memory(range, unit);
  unmap_memory(range + 2 * unit, unit);
  release_memory(first);
  release_memory(second);
  release_addresses(range, 3 * unit);
}

TEST_F(Gpu, KernelsReachMappedMemory) {
  if (!info_.can_map_host) GTEST_SKIP() << "no mapped memory";
  const std::size_t bytes = elements * sizeof(std::uint32_t);
  auto* host = static_cast<std::uint32_t*>(malloc_pinned(bytes, {.mapped = true}));
  std::fill(host, host + elements, 41u);
  Stream stream;
  launch(stream, ISTHMUS_KERNEL(add_one), {.grid = 4, .block = 128}, static_cast<std::uint32_t*>(device_address(host)),
         elements);
  stream.synchronize();
  EXPECT_TRUE(std::all_of(host, host + elements, [](std::uint32_t v) { return v == 42; }));
  free_pinned(host);
}

TEST_F(Gpu, ManagedMemoryTravels) {
  if (!info_.managed) GTEST_SKIP() << "no managed memory";
  const std::size_t bytes = elements * sizeof(std::uint32_t);
  auto* values = static_cast<std::uint32_t*>(malloc_managed(bytes));
  std::fill(values, values + elements, 1u);
  Stream stream;
  if (info_.concurrent_managed) {
    advise(values, bytes, Advice::preferred_location, Location::gpu(0));
    advise(values, bytes, Advice::accessed_by, Location::host());
    EXPECT_EQ(last_prefetch(values, bytes), std::nullopt);
    prefetch(values, bytes, Location::gpu(0), stream);
    stream.synchronize();
    EXPECT_EQ(last_prefetch(values, bytes), 0);
  }
  launch(stream, ISTHMUS_KERNEL(add_one), {.grid = 4, .block = 128}, values, elements);
  if (info_.concurrent_managed) prefetch(values, bytes, Location::host(), stream);
  stream.synchronize();
  if (info_.concurrent_managed) {
    EXPECT_EQ(last_prefetch(values, bytes), -1);
    advise(values, bytes, Advice::read_mostly, Location::gpu(0));
  }
  EXPECT_TRUE(std::all_of(values, values + elements, [](std::uint32_t v) { return v == 2; }));
  free_managed(values);
}

TEST_F(Gpu, PrefetchToAHostNodeIsSeenAsTheHost) {
  if (!info_.concurrent_managed) GTEST_SKIP() << "managed memory does not migrate";
  void* managed = malloc_managed(1 << 20);
  Stream stream;
  try {
    prefetch(managed, 1 << 20, Location::host(0), stream);
    stream.synchronize();
    EXPECT_EQ(last_prefetch(managed, 1 << 20), -1);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
  }
  free_managed(managed);
}

// --- transfers ---------------------------------------------------------------------------------------

/// Copies from `source` to `destination` as a strided copy of `shape` would. All fields of `shape` must be set.
void copy_by_rows(std::vector<std::uint32_t>& destination, const std::vector<std::uint32_t>& source,
                  const StridedCopy& shape) {
  for (std::size_t plane = 0; plane < shape.planes; ++plane) {
    for (std::size_t row = 0; row < shape.rows; ++row) {
      std::memcpy(reinterpret_cast<char*>(destination.data()) +
                      (plane * shape.destination_rows + row) * shape.destination_pitch,
                  reinterpret_cast<const char*>(source.data()) + (plane * shape.source_rows + row) * shape.source_pitch,
                  shape.row_bytes);
    }
  }
}

TEST_F(Gpu, StridedCopiesArriveWhole) {
  const auto in = numbers();
  const std::size_t bytes = elements * sizeof in[0];
  Array<std::uint32_t> source(elements), destination(elements);
  source.host = in;
  source.upload();
  auto* pinned = static_cast<std::uint32_t*>(malloc_pinned(bytes));
  Stream stream;
  for (const StridedCopy& shape : {StridedCopy{.row_bytes = 120,
                                               .rows = 70,
                                               .destination_pitch = 120,
                                               .destination_rows = 70,
                                               .source_pitch = 512,
                                               .source_rows = 70},
                                   {.row_bytes = 120,
                                    .rows = 7,
                                    .planes = 9,
                                    .destination_pitch = 256,
                                    .destination_rows = 11,
                                    .source_pitch = 512,
                                    .source_rows = 8}}) {
    std::vector<std::uint32_t> expected(elements, 0);
    copy_by_rows(expected, in, shape);
    fill_async(destination.device(), 0, bytes, stream);
    copy_strided_async(destination.device(), source.device(), shape, stream);
    stream.synchronize();
    EXPECT_EQ(destination.download(), expected) << shape.planes << " planes on the device";
    std::fill_n(pinned, elements, 0u);
    copy_strided_async(pinned, source.device(), shape, stream);
    stream.synchronize();
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), pinned)) << shape.planes << " planes to the host";
  }
  // A pitch of 0 means that rows are packed.
  fill_async(destination.device(), 0, bytes, stream);
  copy_strided_async(destination.device(), source.device(),
                     {.row_bytes = 16, .rows = 3, .planes = 2, .source_pitch = 64}, stream);
  std::vector<std::uint32_t> expected(elements, 0);
  copy_by_rows(expected, in,
               {.row_bytes = 16,
                .rows = 3,
                .planes = 2,
                .destination_pitch = 16,
                .destination_rows = 3,
                .source_pitch = 64,
                .source_rows = 3});
  stream.synchronize();
  EXPECT_EQ(destination.download(), expected);
  EXPECT_EQ(kind_of([&] {
              copy_strided_async(destination.device(), source.device(), {.row_bytes = 16, .source_pitch = 8}, stream);
            }),
            ErrorKind::failure);
  free_pinned(pinned);
}

/// Runs `call`. Returns false and prints the reason if the runtime or the driver does not support the call.
bool supported(const std::function<void()>& call) {
  try {
    call();
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    std::printf("%s\n", error.what());
    return false;
  }
}

TEST_F(Gpu, ABatchOfCopiesArrivesWhole) {
  constexpr std::size_t piece = 1000;
  Array<std::uint32_t> source(8 * piece), destination(8 * piece, 0);
  std::iota(source.host.begin(), source.host.end(), 1u);
  source.upload();
  auto* pinned = static_cast<std::uint32_t*>(malloc_pinned(8 * piece * sizeof(std::uint32_t)));
  std::vector<CopyItem> items;
  for (std::size_t i = 0; i < 8; ++i) {
    const std::size_t turned = 7 - i;
    items.push_back({destination.device() + turned * piece, source.device() + i * piece, piece * 4});
    items.push_back({pinned + turned * piece, source.device() + i * piece, piece * 4});
  }
  items.push_back({nullptr, nullptr, 0});
  Stream stream;
  if (supported([&] { copy_batch_async(items, stream); })) {
    stream.synchronize();
    destination.download();
    for (std::size_t i = 0; i < 8 * piece; ++i) {
      const auto expected = static_cast<std::uint32_t>((7 - i / piece) * piece + i % piece + 1);
      ASSERT_EQ(destination.host[i], expected) << i;
      ASSERT_EQ(pinned[i], expected) << i;
    }
  }
  free_pinned(pinned);
}

/// Waits until another stream writes `value` to `word`, and sums the numbers which that stream copied before.
__global__ void read_behind(const std::uint32_t* word, std::uint32_t value, const std::uint32_t* copied, std::size_t n,
                            unsigned long long* sum) {
  spin_until([&] { return load_acquire(word) == value; });
  for (std::size_t i = 0; i < n; ++i) *sum += copied[i];
}

TEST_F(Gpu, AKernelThatRunsSeesWhatCameBeforeAValue) {
  constexpr std::uint32_t n = 1000, words = 600;  // a driver call accepts fewer than 600 words
  Array<std::uint32_t> copied(n, 0), word(words, 0);
  Array<unsigned long long> sum(1, 0);
  const auto bytes = n * sizeof(std::uint32_t);
  auto* pinned = static_cast<std::uint32_t*>(malloc_pinned(bytes));
  std::iota(pinned, pinned + n, 0u);
  std::vector<ValueWrite> writes;
  for (std::uint32_t i = 0; i < words; ++i) writes.push_back({word.device() + i, i + 1});
  Stream kernels, copies;
  if (supported([&] { write_values_async({writes.data(), 1}, copies); })) {
    copies.synchronize();
    launch(kernels, ISTHMUS_KERNEL(read_behind), {.grid = 1, .block = 1}, word.device() + words - 1, words,
           copied.device(), std::size_t{n}, sum.device());
    copy_async(copied.device(), pinned, bytes, copies);
    write_values_async(writes, copies);
    kernels.synchronize();
    copies.synchronize();
    EXPECT_EQ(sum.download()[0], n * (n - 1ull) / 2);
    word.download();
    for (std::uint32_t i = 0; i < words; ++i) ASSERT_EQ(word.host[i], i + 1);
  }
  free_pinned(pinned);
}

/// Waits in every block until `word` is 1, for at most ten seconds. Counts the blocks that gave up in `late`.
__global__ void wait_everywhere(const std::uint32_t* word, std::uint32_t* late) {
  if (threadIdx.x == 0) {
    const double since = device_seconds();
    bool there = false;
    spin_until([&] {
      there = load_acquire(word) == 1;
      return there || device_seconds() - since > 10;
    });
    if (!there) atomicAdd(late, 1u);
  }
  __syncthreads();
}

TEST_F(Gpu, CopiesByEnginesComeBesideAKernelThatFillsTheDevice) {
  constexpr std::size_t pieces = 64, piece = 4096;
  Array<unsigned char> copied(pieces * piece, 0);
  Array<std::uint32_t> word(1, 0), late(1, 0);
  auto* pinned = static_cast<unsigned char*>(malloc_pinned(pieces * piece));
  std::fill_n(pinned, pieces * piece, static_cast<unsigned char>(7));
  std::vector<CopyItem> items;
  for (std::size_t i = 0; i < pieces; ++i) items.push_back({copied.device() + i * piece, pinned + i * piece, piece});
  const auto shape = [](unsigned blocks) { return LaunchShape{.grid = blocks, .block = 128}; };
  const auto of_each = kernel_info(ISTHMUS_KERNEL(wait_everywhere), shape(1)).blocks_per_multiprocessor.value_or(1);
  Stream kernels, copies;
  // HIP writes values with a kernel, which cannot start because wait_everywhere fills the device.
  if (backend() != Backend::hip && supported([&] {
        copy_batch_by_engines_async({items.data(), 1}, copies);
        write_values_async(std::vector<ValueWrite>{{word.device(), 0}}, copies);
      })) {
    copies.synchronize();
    launch(kernels, ISTHMUS_KERNEL(wait_everywhere), shape(static_cast<unsigned>(info_.multiprocessors * of_each)),
           word.device(), late.device());
    copy_batch_by_engines_async(items, copies);
    write_values_async(std::vector<ValueWrite>{{word.device(), 1}}, copies);
    kernels.synchronize();
    copies.synchronize();
    EXPECT_EQ(late.download()[0], 0u);
    copied.download();
    EXPECT_EQ(std::count(copied.host.begin(), copied.host.end(), 7), static_cast<std::ptrdiff_t>(pieces * piece));
  }
  free_pinned(pinned);
}

TEST_F(Gpu, BatchesOfRangesMoveAndDiscard) {
  if (!info_.concurrent_managed) GTEST_SKIP() << "managed memory does not migrate";
  constexpr std::size_t bytes = 4u << 20;
  auto* first = static_cast<std::uint32_t*>(malloc_managed(bytes));
  auto* second = static_cast<std::uint32_t*>(malloc_managed(bytes));
  std::fill_n(first, bytes / 4, 5u);
  std::fill_n(second, bytes / 4, 6u);
  const std::vector<MemoryRange> ranges{{first, bytes}, {second, bytes}};
  Stream stream;
  if (supported([&] { prefetch_batch(ranges, Location::gpu(0), stream); })) {
    stream.synchronize();
    EXPECT_EQ(last_prefetch(first, bytes), 0);
    EXPECT_EQ(last_prefetch(second, bytes), 0);
    prefetch_batch(ranges, Location::host(), stream);
    stream.synchronize();
    EXPECT_EQ(last_prefetch(first, bytes), -1);
    EXPECT_EQ(first[7], 5u);
    EXPECT_EQ(second[7], 6u);
  }
  if (supported([&] { discard_batch(ranges, stream); })) {
    fill_async(first, 1, bytes, stream);
    stream.synchronize();
    EXPECT_EQ(first[9], 0x01010101u);
  }
  if (supported([&] { discard_and_prefetch_batch(ranges, Location::gpu(0), stream); })) {
    fill_async(second, 2, bytes, stream);
    stream.synchronize();
    EXPECT_EQ(last_prefetch(second, bytes), 0);
    EXPECT_EQ(second[9], 0x02020202u);
  }
  stream.synchronize();
  free_managed(first);
  free_managed(second);
}

TEST_F(Gpu, TooMuchMemoryIsOutOfMemoryAndTheDeviceGoesOn) {
  std::string message;
  EXPECT_EQ(kind_of([] { malloc_device(std::size_t{1} << 50); }, &message), ErrorKind::out_of_memory);
  EXPECT_NE(message.find("malloc_device"), std::string::npos) << message;
  void* pointer = malloc_device(64);
  synchronize();
  free_device(pointer);
}

// --- streams, events, latch ------------------------------------------------------------------------

__global__ void wait_seconds(double seconds) {
  const double begin = device_seconds();
  while (device_seconds() - begin < seconds) spin_wait();
}

TEST_F(Gpu, EventsTimeAStream) {
  Stream stream;
  Event begin, end;
  launch(stream, ISTHMUS_KERNEL(wait_seconds), {.grid = 1, .block = 1}, 1e-3);  // loads the kernel, outside the timing
  begin.record(stream);
  launch(stream, ISTHMUS_KERNEL(wait_seconds), {.grid = 1, .block = 1}, 20e-3);
  end.record(stream);
  EXPECT_FALSE(end.done());
  EXPECT_FALSE(stream.idle());
  end.synchronize();
  EXPECT_TRUE(end.done());
  const double seconds = elapsed(begin, end);
  EXPECT_GE(seconds, 19e-3);
  EXPECT_LT(seconds, 2.0);
  EXPECT_GT(timer_tick(), 0);
  stream.synchronize();
  EXPECT_TRUE(stream.idle());
}

TEST_F(Gpu, AStreamWaitsForAnEventOfAnother) {
  Stream first, second;
  Event done;
  Array<std::uint32_t> values(1, 0);
  launch(first, ISTHMUS_KERNEL(wait_seconds), {.grid = 1, .block = 1}, 20e-3);
  launch(first, ISTHMUS_KERNEL(add_one), {.grid = 1, .block = 1}, values.device(), 1);
  done.record(first);
  second.wait(done);
  std::uint32_t* pinned = static_cast<std::uint32_t*>(malloc_pinned(sizeof *pinned));
  copy_async(pinned, values.device(), sizeof *pinned, second);
  second.synchronize();
  EXPECT_EQ(*pinned, 1u);
  free_pinned(pinned);
}

TEST_F(Gpu, MovedStreamsAndEventsWork) {
  Stream a;
  Stream b = std::move(a);
  Event x;
  Event y = std::move(x);
  y.record(b);
  b.synchronize();
  EXPECT_TRUE(y.done());
}

TEST_F(Gpu, TheLatchHoldsUntilReleased) {
  load_kernels();
  SpinLatch latch;
  Stream stream;
  Array<std::uint32_t> values(1, 0);
  for (int round = 0; round < 3; ++round) {
    latch.hold(stream);
    launch(stream, ISTHMUS_KERNEL(add_one), {.grid = 1, .block = 1}, values.device(), 1);
    Event end;
    end.record(stream);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_FALSE(end.done());
    latch.release();
    stream.synchronize();
    EXPECT_FALSE(latch.timed_out());
  }
  EXPECT_EQ(values.download()[0], 3u);
}

TEST_F(Gpu, ALatchThatNobodyReleasesGivesUp) {
  SpinLatch latch;
  Stream stream;
  latch.hold(stream, 20e-3);
  stream.synchronize();
  EXPECT_TRUE(latch.timed_out());
  latch.hold(stream);
  latch.release();
  stream.synchronize();
  EXPECT_FALSE(latch.timed_out());
}

// --- graphs ----------------------------------------------------------------------------------------

TEST_F(Gpu, AGraphRunsWhatItCaptured) {
  Array<std::uint32_t> values(elements, 10), copied(elements, 0);
  Stream stream;
  const Graph graph(stream, [&] {
    launch(stream, ISTHMUS_KERNEL(add_one), {.grid = 4, .block = 128}, values.device(), elements);
    copy_async(copied.device(), values.device(), values.bytes(), stream);
    fill_async(values.device(), 0, 4, stream);
  });
  EXPECT_EQ(graph.nodes(), 3u);
  stream.synchronize();
  EXPECT_EQ(values.download()[1], 10u) << "capturing runs nothing";
  ExecutableGraph executable(graph);
  executable.launch(stream);
  executable.launch(stream);
  stream.synchronize();
  EXPECT_EQ(copied.download()[0], 1u);
  EXPECT_EQ(copied.host[1], 12u);
  EXPECT_EQ(copied.host[elements - 1], 12u);
}

TEST_F(Gpu, AStreamIsUsableAfterACaptureThatFailed) {
  Array<std::uint32_t> values(1, 10);
  Stream stream;
  const auto add = [&] { launch(stream, ISTHMUS_KERNEL(add_one), {.grid = 1, .block = 1}, values.device(), 1); };
  const auto capture = [&](const std::function<void()>& then) {
    const Graph graph(stream, [&] {
      add();
      then();
    });
  };
  EXPECT_THROW(capture([] { throw std::runtime_error("no more"); }), std::runtime_error);
  EXPECT_EQ(kind_of([&] { capture([&] { stream.synchronize(); }); }), ErrorKind::failure);
  add();
  stream.synchronize();
  EXPECT_EQ(values.download()[0], 11u);
}

// --- several devices -------------------------------------------------------------------------------

class TwoGpus : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    if (!IsSkipped() && count() < 2) GTEST_SKIP() << "one device is visible";
  }
  void TearDown() override {
    if (count() != 0) select(0);
  }
};

TEST_F(TwoGpus, AreSelectedByEachThread) {
  const Selected one(1);
  EXPECT_EQ(selected(), 1);
  std::thread([] { EXPECT_EQ(selected(), 0); }).join();
  EXPECT_NE(info(0).uuid, info(1).uuid);
  EXPECT_EQ(selected(), 1) << "asking changes nothing";
  EXPECT_EQ(info(1).index, 1);
}

TEST_F(TwoGpus, StreamsAndEventsKeepToTheirDevice) {
  Array<std::uint32_t> here(1, 1);
  Stream stream;
  Event ready;
  const Selected one(1);
  Array<std::uint32_t> there(1, 1);
  Stream other;
  Event foreign;
  EXPECT_EQ(pointer_info(here.device()).device, 0);
  EXPECT_EQ(pointer_info(there.device()).device, 1);
  std::string message;
  // A launch into a stream of another device is not tested: only the emulator refuses it, while CUDA driver 580 runs
  // the kernel on the stream's device.
  EXPECT_EQ(kind_of([&] { foreign.record(stream); }, &message), ErrorKind::failure);
  std::printf("%s\n", message.c_str());
  {
    const Selected zero(0);
    launch(stream, ISTHMUS_KERNEL(wait_seconds), {.grid = 1, .block = 1}, 20e-3);
    launch(stream, ISTHMUS_KERNEL(add_one), {.grid = 1, .block = 1}, here.device(), 1);
    ready.record(stream);
  }
  other.wait(ready);
  copy_async(there.device(), here.device(), 4, other);
  foreign.record(other);
  foreign.synchronize();
  ready.synchronize();
  EXPECT_EQ(there.download()[0], 2u);
  EXPECT_EQ(kind_of([&] { elapsed(ready, foreign); }, &message), ErrorKind::failure);
  std::printf("%s\n", message.c_str());
}

TEST_F(TwoGpus, APeersMemoryIsReachedOnceThatIsEnabled) {
  Array<std::uint32_t> here(elements, 3);
  const Selected one(1);
  Stream stream;
  const PeerInfo peer = peer_info(1, 0);
  std::printf("peer access %d, native atomics %d\n", peer.access, peer.native_atomics);
  if (!peer.access) {
    EXPECT_EQ(kind_of([] { enable_peer_access(0); }), ErrorKind::unsupported);
    GTEST_SKIP() << "no peer access";
  }
  enable_peer_access(0);
  enable_peer_access(0);
  launch(stream, ISTHMUS_KERNEL(add_one), {.grid = 4, .block = 128}, here.device(), elements);
  stream.synchronize();
  disable_peer_access(0);
  disable_peer_access(0);
  EXPECT_EQ(here.download().front(), 4u);
  EXPECT_EQ(here.host.back(), 4u);
}

TEST_F(TwoGpus, CopiesGoBetweenThemWithoutPeerAccess) {
  Array<std::uint32_t> here(elements, 3);
  const Selected one(1);
  Array<std::uint32_t> there(elements, 0);
  Stream stream;
  copy_async(there.device(), here.device(), here.bytes(), stream);
  stream.synchronize();
  EXPECT_EQ(there.download(), here.host);
  fill_async(there.device(), 0, there.bytes(), stream);
  copy_strided_async(there.device(), here.device(), {.row_bytes = 64, .rows = 100, .source_pitch = 256}, stream);
  stream.synchronize();
  EXPECT_EQ(there.download()[1599], 3u);
  EXPECT_EQ(there.host[1600], 0u);
}

TEST_F(TwoGpus, HeldByTheirLatchesBothRun) {
  struct Held {
    explicit Held(int device) : own(device), values(1, 1) {}
    void hold() {
      latch.hold(stream);
      launch(stream, ISTHMUS_KERNEL(add_one), {.grid = 1, .block = 1}, values.device(), 1);
      end.record(stream);
    }
    Selected own;
    Array<std::uint32_t> values;
    Stream stream{};
    Event end{};
    SpinLatch latch{};
  };
  for (int device = 0; device < 2; ++device) {
    const Selected own(device);
    load_kernels();
  }
  Held zero(0), one(1);  // constructed before work is held back: an allocation may wait for queued work
  {
    const Selected own(0);
    zero.hold();
  }
  one.hold();
  one.latch.release();
  one.stream.synchronize();
  EXPECT_FALSE(zero.end.done());
  zero.latch.release();
  zero.stream.synchronize();
  EXPECT_FALSE(zero.latch.timed_out() || one.latch.timed_out());
  EXPECT_EQ(zero.values.download()[0], 2u);
  EXPECT_EQ(one.values.download()[0], 2u);
}

// --- launches --------------------------------------------------------------------------------------

__global__ void fill_dynamic_shared(std::uint32_t* out, unsigned words) {
  auto* shared = dynamic_shared<std::uint32_t>();
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) shared[i] = i;
  __syncthreads();
  std::uint32_t sum = 0;
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) sum += shared[words - 1 - i];
  atomicAdd(out, sum);
  if (threadIdx.x == 0) out[1] = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(shared) % 128);
}

TEST_F(GpuKernel, LargeSharedMemoryAndCarveOut) {
  const auto bytes = static_cast<unsigned>(info_.shared_per_block);
  Array<std::uint32_t> out(2, 0);
  Stream stream;
  const unsigned words = bytes / 4;
  launch(stream, ISTHMUS_KERNEL(fill_dynamic_shared), {.grid = 1, .block = 128, .shared_bytes = bytes}, out.device(),
         words);
  launch(stream, ISTHMUS_KERNEL(fill_dynamic_shared), {.grid = 1, .block = 128, .shared_bytes = 1024, .carveout = 50},
         out.device(), 256u);
  launch(stream, ISTHMUS_KERNEL(fill_dynamic_shared), {.grid = 1, .block = 128, .shared_bytes = 1024}, out.device(),
         256u);
  stream.synchronize();
  const auto sum = [](std::uint32_t n) { return static_cast<std::uint32_t>(std::uint64_t{n} * (n - 1) / 2); };
  EXPECT_EQ(out.download()[0], sum(words) + 2 * sum(256));
  EXPECT_EQ(out.host[1], 0u) << "dynamic shared memory is aligned to 128 bytes";
}

TEST_F(GpuKernel, ImpossibleShapesAreRefusedInASentence) {
  Stream stream;
  Array<std::uint32_t> out(2, 0);
  const auto attempt = [&](LaunchShape shape) {
    std::string message;
    kind_of([&] { launch(stream, ISTHMUS_KERNEL(fill_dynamic_shared), shape, out.device(), 0u); }, &message);
    EXPECT_NE(message.find("fill_dynamic_shared"), std::string::npos) << message;
    std::printf("%s\n", message.c_str());
  };
  attempt({.grid = 1, .block = static_cast<unsigned>(info_.max_threads_per_block) + 1});
  attempt({.grid = 1, .block = 32, .shared_bytes = info_.shared_per_block + 16});
  attempt({.grid = 0, .block = 32});
  launch(stream, ISTHMUS_KERNEL(fill_dynamic_shared), {.grid = 1, .block = 32}, out.device(), 0u);
  stream.synchronize();
}

TEST_F(GpuKernel, KernelInfoIsFilled) {
  const KernelInfo k =
      kernel_info(ISTHMUS_KERNEL(fill_dynamic_shared), {.grid = 1, .block = 256, .shared_bytes = 1024});
  EXPECT_EQ(k.name, "fill_dynamic_shared");
  if (emulated()) return;
  EXPECT_GT(k.registers.value(), 0);
  EXPECT_EQ(k.local_bytes, 0u);
  EXPECT_GT(k.blocks_per_multiprocessor.value(), 0);
  EXPECT_GT(k.occupancy.value(), 0);
  EXPECT_LE(k.occupancy.value(), 1);
}

__global__ void sum_over_grid(unsigned* partial, unsigned* total) {
  if (threadIdx.x == 0) partial[blockIdx.x] = blockIdx.x + 1;
  grid_sync();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    unsigned sum = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) sum += partial[i];
    *total = sum;
  }
  grid_sync();
  if (threadIdx.x == 0) partial[blockIdx.x] = *total;
}

TEST_F(GpuKernel, TheGridMeetsAtItsBarrier) {
  if (!info_.cooperative) GTEST_SKIP() << "no cooperative launch";
  const unsigned blocks = emulated() ? 4u : static_cast<unsigned>(info_.multiprocessors);
  Array<unsigned> partial(blocks, 0), total(1, 0);
  Stream stream;
  for (int round = 0; round < 5; ++round) {
    launch(stream, ISTHMUS_KERNEL(sum_over_grid), {.grid = blocks, .block = 64, .cooperative = true}, partial.device(),
           total.device());
  }
  stream.synchronize();
  for (const unsigned value : partial.download()) EXPECT_EQ(value, blocks * (blocks + 1) / 2);
  kind_of([&] {
    launch(stream, ISTHMUS_KERNEL(sum_over_grid), {.grid = 1'000'000, .block = 64, .cooperative = true},
           partial.device(), total.device());
  });
}

// --- warps -----------------------------------------------------------------------------------------

struct WarpResults {
  int warp_size, lane, warp;
  int from_lane_3, down_1, up_1, xor_1;
  double shuffled_double;
  LaneMask full, odd, same_third, partial;
  int any_yes, any_no, all_yes, all_no, match_yes, match_no;
};

__global__ void warp_operations(WarpResults* results) {
  const int thread = static_cast<int>(threadIdx.x);
  const int my_lane = lane();
  const LaneMask full = full_warp();
  WarpResults r{};
  r.warp_size = warp_size();
  r.lane = my_lane;
  r.warp = warp_in_block();
  r.from_lane_3 = shuffle(full, thread, 3);
  r.down_1 = shuffle_down(full, thread, 1);
  r.up_1 = shuffle_up(full, thread, 1);
  r.xor_1 = shuffle_xor(full, thread, 1);
  r.shuffled_double = shuffle(full, thread * 0.5, 5);
  r.full = full;
  r.odd = ballot(full, my_lane % 2 == 1);
  r.same_third = match_any(full, my_lane % 3);
  r.any_yes = any(full, my_lane == 7);
  r.any_no = any(full, my_lane == 1000);
  r.all_yes = all(full, my_lane >= 0);
  r.all_no = all(full, my_lane != 7);
  r.match_yes = match_all(full, 42);
  r.match_no = match_all(full, my_lane == 9 ? 1.0 : 2.0);
  sync_warp(full);
  const LaneMask low = 0xff;
  if (my_lane < 8) r.partial = ballot(low, my_lane < 4);
  results[blockIdx.x * blockDim.x + threadIdx.x] = r;
}

TEST_F(GpuKernel, WarpOperations) {
  const int width = info_.warp_size;
  const unsigned threads = 2 * static_cast<unsigned>(width);
  Array<WarpResults> results(threads);
  Stream stream;
  launch(stream, ISTHMUS_KERNEL(warp_operations), {.grid = 1, .block = threads}, results.device());
  stream.synchronize();
  const LaneMask full = width == 64 ? ~LaneMask{0} : 0xffffffffu;
  results.download();
  for (int thread = 0; thread < static_cast<int>(threads); ++thread) {
    const WarpResults& r = results.host[static_cast<std::size_t>(thread)];
    const int my_lane = thread % width, base = thread - my_lane;
    LaneMask same_third = 0;
    for (int other = 0; other < width; ++other) same_third |= LaneMask{other % 3 == my_lane % 3} << other;
    ASSERT_EQ(r.warp_size, width);
    EXPECT_EQ(r.lane, my_lane);
    EXPECT_EQ(r.warp, thread / width);
    EXPECT_EQ(r.from_lane_3, base + 3);
    EXPECT_EQ(r.down_1, my_lane == width - 1 ? thread : thread + 1);
    EXPECT_EQ(r.up_1, my_lane == 0 ? thread : thread - 1);
    EXPECT_EQ(r.xor_1, thread ^ 1);
    EXPECT_EQ(r.shuffled_double, (base + 5) * 0.5);
    EXPECT_EQ(r.full, full);
    EXPECT_EQ(r.odd, full & 0xaaaaaaaaaaaaaaaaull);
    EXPECT_EQ(r.same_third, same_third);
    EXPECT_TRUE(r.any_yes && r.all_yes && r.match_yes);
    EXPECT_FALSE(r.any_no || r.all_no || r.match_no);
    if (my_lane < 8) {
      EXPECT_EQ(r.partial, 0x0full);
    }
  }
}

// --- waits, ordered and streaming accesses ---------------------------------------------------------

/// Writes data and then sets `flag` in block 1; waits for `flag` and reads the data in block 0. Word has 32 or 64 bits.
template <class Word>
__global__ void hand_over(Word* flag, unsigned* data, unsigned* seen) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 1) {
    for (unsigned i = 0; i < 64; ++i) data[i] = 1000 + i;
    store_release(flag, Word{1});
  } else {
    spin_until([&] { return load_acquire(flag) == Word{1}; });
    for (unsigned i = 0; i < 64; ++i) seen[i] = data[i];
  }
}

template <class Word>
void test_hand_over() {
  Array<Word> flag(1, 0);
  Array<unsigned> data(64, 0), seen(64, 0);
  Stream stream;
  launch(stream, ISTHMUS_KERNEL(hand_over<Word>), {.grid = 2, .block = 32, .cooperative = true}, flag.device(),
         data.device(), seen.device());
  stream.synchronize();
  seen.download();
  for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(seen.host[i], 1000 + i);
}
TEST_F(GpuKernel, HandOverBetweenBlocks) {
  if (!info_.cooperative) GTEST_SKIP() << "no cooperative launch";
  test_hand_over<std::uint32_t>();
  test_hand_over<std::uint64_t>();
}

__global__ void wait_for_host(const std::uint32_t* flag, std::uint32_t* answer) {
  const double begin = device_seconds();
  while (load_acquire(flag) != 1 && device_seconds() - begin < 5) spin_wait();
  store_release(answer, load_acquire(flag) + 1);
}

TEST_F(GpuKernel, HandOverFromTheHost) {
  auto* words = static_cast<std::uint32_t*>(malloc_pinned(256, {.mapped = true}));
  words[0] = words[32] = 0;
  auto* mapped = static_cast<std::uint32_t*>(device_address(words));
  Stream stream;
  launch(stream, ISTHMUS_KERNEL(wait_for_host), {.grid = 1, .block = 1}, mapped, mapped + 32);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(stream.idle());
  std::atomic_ref(words[0]).store(1, std::memory_order_release);
  stream.synchronize();
  EXPECT_EQ(words[32], 2u);
  free_pinned(words);
}

__global__ void copy_streaming(const float4* in, float4* out, const float* scalar_in, float* scalar_out, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  store_streaming(out + i, load_streaming(in + i));
  store_streaming(scalar_out + i, load_streaming(scalar_in + i));
}

TEST_F(GpuKernel, StreamingLoadsAndStores) {
  constexpr unsigned n = 1000;
  Array<float> in(4 * n), out(4 * n), scalar_in(n), scalar_out(n);
  std::iota(in.host.begin(), in.host.end(), 0.5f);
  std::iota(scalar_in.host.begin(), scalar_in.host.end(), 0.25f);
  in.upload();
  scalar_in.upload();
  Stream stream;
  launch(stream, ISTHMUS_KERNEL(copy_streaming), {.grid = 8, .block = 128},
         reinterpret_cast<const float4*>(in.device()), reinterpret_cast<float4*>(out.device()), scalar_in.device(),
         scalar_out.device(), n);
  stream.synchronize();
  EXPECT_EQ(out.download(), in.host);
  EXPECT_EQ(scalar_out.download(), scalar_in.host);
}

// --- staged copies ---------------------------------------------------------------------------------

/// Sums each block's share of `in` through a ring of `Depth` tiles filled by async_copy.
template <unsigned Bytes, unsigned Depth>
__global__ void sum_async(const std::uint32_t* in, unsigned tiles, std::uint32_t* sums) {
  constexpr unsigned words = Bytes / 4;
  auto* ring = dynamic_shared<std::uint32_t>();
  const unsigned tile_words = blockDim.x * words;
  const auto fetch = [&](unsigned tile) {
    if (tile < tiles) {
      async_copy<Bytes>(ring + (tile % Depth) * tile_words + threadIdx.x * words,
                        in + (std::size_t{blockIdx.x} * tiles + tile) * tile_words + threadIdx.x * words);
    }
    async_commit();
  };
  for (unsigned tile = 0; tile + 1 < Depth; ++tile) fetch(tile);
  std::uint32_t sum = 0;
  for (unsigned tile = 0; tile < tiles; ++tile) {
    fetch(tile + Depth - 1);
    async_wait<Depth - 1>();
    __syncthreads();
    // Reads words that another thread copied, so that a missing barrier would show.
    const unsigned from = (threadIdx.x + 1) % blockDim.x * words;
    for (unsigned i = 0; i < words; ++i) sum += ring[(tile % Depth) * tile_words + from + i] * (tile + 1);
    __syncthreads();
  }
  atomicAdd(&sums[blockIdx.x], sum);
}

/// Computes the same sums through bulk copies by one thread, with alternating barrier parity.
template <unsigned Depth>
__global__ void sum_bulk(const std::uint32_t* in, unsigned tiles, std::uint32_t* sums) {
  __shared__ BulkBarrier barriers[Depth];
  auto* ring = dynamic_shared<std::uint32_t>();
  const unsigned tile_words = blockDim.x * 4;
  if (threadIdx.x == 0) {
    for (unsigned i = 0; i < Depth; ++i) barriers[i].init(1);
  }
  __syncthreads();
  const auto fetch = [&](unsigned tile) {
    if (threadIdx.x != 0 || tile >= tiles) return;
    BulkBarrier& barrier = barriers[tile % Depth];
    std::uint32_t* to = ring + (tile % Depth) * tile_words;
    const std::uint32_t* from = in + (std::size_t{blockIdx.x} * tiles + tile) * tile_words;
    barrier.expect(tile_words * 4);
    bulk_copy(to, from, tile_words * 2, barrier);  // two halves, because the barrier must add up their bytes
    bulk_copy(to + tile_words / 2, from + tile_words / 2, tile_words * 2, barrier);
  };
  for (unsigned tile = 0; tile + 1 < Depth; ++tile) fetch(tile);
  std::uint32_t sum = 0;
  for (unsigned tile = 0; tile < tiles; ++tile) {
    fetch(tile + Depth - 1);
    barriers[tile % Depth].wait(tile / Depth & 1);
    for (unsigned i = 0; i < 4; ++i)
      sum += ring[(tile % Depth) * tile_words + threadIdx.x + i * blockDim.x] * (tile + 1);
    __syncthreads();
  }
  atomicAdd(&sums[blockIdx.x], sum);
}

void expect_tile_sums(Array<std::uint32_t>& in, Array<std::uint32_t>& sums, unsigned tiles, unsigned tile_words) {
  sums.download();
  for (std::size_t block = 0; block < sums.host.size(); ++block) {
    std::uint32_t sum = 0;
    for (unsigned tile = 0; tile < tiles; ++tile) {
      for (unsigned i = 0; i < tile_words; ++i) sum += in.host[(block * tiles + tile) * tile_words + i] * (tile + 1);
    }
    EXPECT_EQ(sums.host[block], sum) << "block " << block;
  }
}

constexpr unsigned blocks = 6, threads = 128, tiles = 11;

template <unsigned Bytes, unsigned Depth>
void test_async() {
  constexpr unsigned tile_words = threads * Bytes / 4;
  Array<std::uint32_t> in(blocks * tiles * tile_words), sums(blocks, 0);
  std::iota(in.host.begin(), in.host.end(), 17u);
  in.upload();
  Stream stream;
  launch(stream, ISTHMUS_KERNEL(sum_async<Bytes, Depth>),
         {.grid = blocks, .block = threads, .shared_bytes = Depth * tile_words * 4}, in.device(), tiles, sums.device());
  stream.synchronize();
  expect_tile_sums(in, sums, tiles, tile_words);
}
TEST_F(GpuKernel, AsyncCopies) {
  test_async<4, 1>();
  test_async<4, 2>();
  test_async<8, 2>();
  test_async<16, 2>();
  test_async<16, 4>();
}

template <unsigned Depth>
void test_bulk() {
  constexpr unsigned tile_words = threads * 4;
  Array<std::uint32_t> in(blocks * tiles * tile_words), sums(blocks, 0);
  std::iota(in.host.begin(), in.host.end(), 17u);
  in.upload();
  Stream stream;
  launch(stream, ISTHMUS_KERNEL(sum_bulk<Depth>),
         {.grid = blocks, .block = threads, .shared_bytes = Depth * tile_words * 4}, in.device(), tiles, sums.device());
  stream.synchronize();
  expect_tile_sums(in, sums, tiles, tile_words);
}
TEST_F(GpuKernel, BulkCopies) {
  test_bulk<1>();
  test_bulk<2>();
  test_bulk<4>();
}

__global__ void staging_capabilities(int* out) {
  out[0] = has_async_copy();
  out[1] = has_bulk_copy();
}
TEST_F(GpuKernel, DeviceInfoTellsHowKernelsWereCompiled) {
  Array<int> out(2, -1);
  Stream stream;
  launch(stream, ISTHMUS_KERNEL(staging_capabilities), {.grid = 1, .block = 1}, out.device());
  stream.synchronize();
  out.download();
  EXPECT_EQ(out.host[0] != 0, info_.async_shared_copy);
  EXPECT_EQ(out.host[1] != 0, info_.bulk_shared_copy);
}

// --- vendor BLAS -----------------------------------------------------------------------------------

TEST_F(Gpu, BlasMultipliesRowMajor) {
  std::unique_ptr<Blas> blas;
  try {
    blas = std::make_unique<Blas>();
  } catch (const Error& error) {
    ASSERT_EQ(error.kind(), ErrorKind::unsupported);
    GTEST_SKIP() << error.what();
  }
  std::printf("%s\n", blas->version().c_str());
  constexpr std::size_t m = 70, n = 50, k = 90, lda = 96, ldb = 52, ldc = 64;
  Array<float> a(m * lda), b(k * ldb), c(m * ldc, -1), x(k), y(m);
  for (std::size_t i = 0; i < a.host.size(); ++i) a.host[i] = static_cast<float>(i % 13) - 6;
  for (std::size_t i = 0; i < b.host.size(); ++i) b.host[i] = static_cast<float>(i % 7) - 3;
  for (std::size_t i = 0; i < k; ++i) x.host[i] = static_cast<float>(i % 5) - 2;
  // The value 1 + 2^-12 can be represented in fp32 but not in TF32, so its square shows which of them was used.
  a.host[0] = b.host[0] = 1 + 0x1p-12f;
  for (std::size_t i = 1; i < k; ++i) a.host[i] = 0;
  a.upload();
  b.upload();
  x.upload();
  Stream stream;
  blas->sgemm(stream, m, n, k, a.device(), lda, b.device(), ldb, c.device(), ldc);
  blas->sgemv(stream, m, k, a.device(), lda, x.device(), y.device());
  stream.synchronize();
  c.download();
  y.download();
  for (std::size_t i = 0; i < m; ++i) {
    double product = 0;
    for (std::size_t l = 0; l < k; ++l) product += static_cast<double>(a.host[i * lda + l]) * x.host[l];
    EXPECT_FLOAT_EQ(y.host[i], static_cast<float>(product));
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < k; ++l) sum += static_cast<double>(a.host[i * lda + l]) * b.host[l * ldb + j];
      ASSERT_FLOAT_EQ(c.host[i * ldc + j], static_cast<float>(sum)) << i << ", " << j;
    }
    EXPECT_EQ(c.host[i * ldc + n], -1) << "padding was written";
  }
}

// --- last tests: they leave the device unusable in their process ------------------------------------

__global__ void write_nowhere(int* pointer) {
  *pointer = 1;
}

/// Causes an illegal access, after which every call in this process fails. Returns 3 if the error is a lost device.
int lose_the_device() {
  if (count() == 0) return 0;
  Stream stream;
  launch(stream, ISTHMUS_KERNEL(write_nowhere), {.grid = 1, .block = 1}, reinterpret_cast<int*>(0x10));
  try {
    stream.synchronize();
  } catch (const Error& error) {
    std::fprintf(stderr, "lost: %s\n", error.what());
    return error.kind() == ErrorKind::device_lost ? 3 : 4;
  }
  return 5;
}

TEST(GpuDeathTest, AnIllegalAddressIsALostDevice) {
  if (backend() == Backend::emulator) GTEST_SKIP() << "the emulator's own tests cover it";
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // starts a new process, because CUDA does not work after fork()
  if (count() == 0) GTEST_SKIP() << "no device is visible";
  EXPECT_EXIT(std::exit(lose_the_device()), testing::ExitedWithCode(3), "lost: stream_synchronize: .*IllegalAddress");
}

}  // namespace
}  // namespace isthmus::device
