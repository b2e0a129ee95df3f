// Tests of copies that run concurrently with the work of a stream: a copy does not start before its turn, and work that
// awaits a copy sees its data.

#include "harness/measure/passes/async_copies.hpp"

#include <array>
#include <chrono>
#include <thread>

#include "../emulated_machine.hpp"

namespace isthmus::harness {
namespace {

class Arriving : public device::EmulatorTest {
 protected:
  /// Returns the four values that the work sees at one address: before the copies and after each of three copies. A
  /// latch holds the work back until everything is queued, unless the copies block.
  static std::array<int, 4> seen(bool blocks) {
    // The first three values are copied, the fourth is the initial one, and the last four are what the work sees.
    auto* values = static_cast<int*>(device::malloc_pinned(8 * sizeof(int)));
    auto* place = static_cast<int*>(device::malloc_device(sizeof(int)));
    for (int i = 0; i < 8; ++i) values[i] = i + 1;
    device::copy(place, values + 3, sizeof(int));
    {
      device::Stream work;
      device::SpinLatch latch;
      AsyncCopies arrivals(3);
      const auto look = [&](int i) { device::copy_async(values + 4 + i, place, sizeof(int), work); };
      if (!blocks) latch.hold(work);
      look(0);
      arrivals.begin(work);
      for (std::size_t k = 0; k < 3; ++k) {
        arrivals.copy_in(k, k > 0 ? std::optional(k - 1) : std::nullopt, blocks, [&](device::Stream& stream) {
          blocks ? device::copy(place, values + k, sizeof(int))
                 : device::copy_async(place, values + k, sizeof(int), stream);
        });
        arrivals.await(work, k);
        look(static_cast<int>(k) + 1);
        arrivals.mark(work, k);
      }
      arrivals.end(work);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (!blocks) latch.release();
      work.synchronize();
    }
    const std::array<int, 4> result{values[4], values[5], values[6], values[7]};
    device::free_device(place);
    device::free_pinned(values);
    return result;
  }
};

TEST_F(Arriving, InTurn) {
  for (const char* machine : {"grace=0", "grace=30", "order=reverse"}) {
    configure(machine);
    for (const bool blocks : {false, true}) EXPECT_EQ(seen(blocks), (std::array{4, 1, 2, 3})) << machine << blocks;
  }
}

// The work does not await the copy; it waits only for the end of all copies.
TEST_F(Arriving, BeforeWhatIsQueuedAfterTheEnd) {
  configure("grace=30");
  auto* values = static_cast<int*>(device::malloc_pinned(2 * sizeof(int)));
  auto* place = static_cast<int*>(device::malloc_device(sizeof(int)));
  values[0] = 5, values[1] = 6;
  {
    device::Stream work;
    AsyncCopies arrivals(1);
    arrivals.begin(work);
    arrivals.copy_in(0, std::nullopt, false,
                     [&](device::Stream& stream) { device::copy_async(place, values, sizeof(int), stream); });
    arrivals.end(work);
    device::copy_async(values + 1, place, sizeof(int), work);
    work.synchronize();
  }
  EXPECT_EQ(values[1], 5);
  device::free_device(place);
  device::free_pinned(values);
}

}  // namespace
}  // namespace isthmus::harness
