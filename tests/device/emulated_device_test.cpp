// Tests of the properties that the device layer reports for emulated devices.

#include "emulator_fixture.hpp"

namespace isthmus::device {
namespace {

using EmulatedDeviceTest = EmulatorTest;

__global__ void nothing() {}

__global__ void prefix_of_blocks(int* partial, int* out) {
  for (int round = 0; round < 3; ++round) {
    const int sum = __syncthreads_count(1) * (static_cast<int>(blockIdx.x) + 1) + round;
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
    grid_sync();
    int total = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) total += partial[i];
    grid_sync();
    out[blockIdx.x * blockDim.x + threadIdx.x] = total;
  }
}

TEST_F(EmulatedDeviceTest, EveryOneIsTold) {
  configure("devices=3,memory=16MiB");
  EXPECT_EQ(count(), 3);
  for (int device = 0; device < 3; ++device) {
    const DeviceInfo d = info(device);
    EXPECT_EQ(d.index, device);
    EXPECT_EQ(d.uuid, "EMU-00000000-0000-0000-0000-00000000000" + std::to_string(device));
    EXPECT_EQ(d.memory_bytes, std::size_t{16} << 20);
  }
  for (const auto& call : std::vector<std::function<void()>>{
           [] { info(3); }, [] { select(3); }, [] { select(-1); }, [] { peer_info(0, 3); }, [] { peer_info(-1, 0); },
           [] { enable_peer_access(3); }, [] { disable_peer_access(3); }}) {
    expect_mentions(error_of(call), {"there is no device", "devices 0 to 2"});
  }
}

TEST_F(EmulatedDeviceTest, DeviceInfo) {
  configure("warp=64,async_copy=0");
  const DeviceInfo device = info(0);
  EXPECT_EQ(device.name, "Isthmus emulator");
  EXPECT_EQ(device.arch, "emulated");
  EXPECT_EQ(device.warp_size, 64);
  EXPECT_FALSE(device.async_shared_copy);
  EXPECT_FALSE(device.clock_hz);
  EXPECT_THROW(info(1), Error);
  EXPECT_EQ(count(), 1);
  EXPECT_EQ(telemetry(0).source, "");
}

TEST_F(EmulatedDeviceTest, KernelInfo) {
  const KernelInfo known = kernel_info(ISTHMUS_KERNEL(nothing), {.grid = 1, .block = 256});
  EXPECT_EQ(known.name, "nothing");
  EXPECT_FALSE(known.registers);
  EXPECT_EQ(known.blocks_per_multiprocessor, 1);
  EXPECT_EQ(known.occupancy, 0.25);
}

// Launches the largest grid that fits on the device at once, as persistent kernels do, and a grid with one more block.
TEST_F(EmulatedDeviceTest, OccupancySaysWhatACooperativeLaunchTakes) {
#if defined(__SANITIZE_THREAD__)
  const std::vector<unsigned> sizes{8, 64};  // TSan supports at most 8,128 fibers
#else
  const std::vector<unsigned> sizes{32, 256, 1024};
#endif
  for (const char* blocks : {"blocks=16", "blocks=3"}) {
    configure(blocks);
    for (const unsigned threads : sizes) {
      LaunchShape shape{.grid = 1, .block = threads, .cooperative = true};
      const KernelInfo known = kernel_info(ISTHMUS_KERNEL(prefix_of_blocks), shape);
      const unsigned resident = static_cast<unsigned>(info(0).multiprocessors * *known.blocks_per_multiprocessor);
      DeviceArray<int> partial(resident), out(std::size_t{resident} * threads);
      Stream stream;
      shape.grid = resident;
      launch(stream, ISTHMUS_KERNEL(prefix_of_blocks), shape, partial.get(), out.get());
      EXPECT_NO_THROW(stream.synchronize());
      shape.grid = resident + 1;
      EXPECT_THROW(launch(stream, ISTHMUS_KERNEL(prefix_of_blocks), shape, partial.get(), out.get()), Error);
    }
  }
}

}  // namespace
}  // namespace isthmus::device
