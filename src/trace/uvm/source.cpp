#include "trace/uvm/source.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "device/api/device.hpp"
#include "trace/uvm/emulated_driver.hpp"
#include "trace/uvm/read_page.hpp"

namespace isthmus::trace::uvm {

namespace {

/// Tests the queue: the host writes the first byte of a block, the device reads it, and the page must move because of
/// this single page fault.
void test(Queue& queue) {
  struct Memory {
    unsigned char* page = static_cast<unsigned char*>(device::malloc_managed(kBlockBytes));
    unsigned char* seen = nullptr;
    ~Memory() {
      if (seen != nullptr) device::free_device(seen);
      device::free_managed(page);
    }
  } memory;
  memory.seen = static_cast<unsigned char*>(device::malloc_device(1));
  constexpr unsigned char kMark = 0x5a;
  device::copy(memory.seen, &kMark, 1);
  device::Stream stream;
  queue_read(stream, memory.seen, memory.seen);  // loads the kernel and wakes the device
  stream.synchronize();
  *memory.page = kMark;
  queue.take();
  queue_read(stream, memory.page, memory.seen);
  stream.synchronize();
  const auto taken = queue.take();
  unsigned char read = 0;
  device::copy(&read, memory.seen, 1);
  if (read != kMark)
    throw Unavailable("the page touched to test the driver's events does not contain the value written");
  if (const auto problem = self_test_problem(taken, reinterpret_cast<std::uintptr_t>(memory.page)); !problem.empty())
    throw Unavailable("the driver's page faults cannot be trusted: " + problem);
}

class Attached final : public Source {
 public:
  Attached(std::shared_ptr<System> driver, bool moves, Keep keep)
      : driver_(std::move(driver)), queue_(*driver_, {.forced = is_forced(), .moves = moves, .keep = std::move(keep)}) {
    name_ = device::backend() == device::Backend::emulator
                ? "an emulated driver's event queue"
                : fmt::format("the driver's event queue ({})", driver_->driver_version());
    test(queue_);
  }
  Taken take() override { return queue_.take(); }
  const std::string& name() const override { return name_; }

 private:
  const std::shared_ptr<System> driver_;
  Queue queue_;
  std::string name_;
};

}  // namespace

std::string self_test_problem(const Taken& taken, std::uint64_t address) {
  const auto page = address / kPageBytes, block = address / kBlockBytes;
  std::size_t there = 0, elsewhere = 0;
  std::set<std::uint32_t> batches, replayed;
  for (const auto& event : taken.events) {
    if (const auto* fault = std::get_if<GpuFault>(&event)) {
      if (fault->address / kPageBytes == page) {
        ++there;
        batches.insert(fault->batch);
      } else if (fault->address / kBlockBytes == block) {
        ++elsewhere;
      }
    } else if (const auto* replay = std::get_if<Replay>(&event)) {
      replayed.insert(replay->batch);
    }
  }
  constexpr const char* kTry = "; report the driver's version as an issue, and omit the observer until then";
  if (taken.dropped > 0) return fmt::format("{} events were dropped while one page was touched{}", taken.dropped, kTry);
  if (there == 0) return fmt::format("one page was touched, but no fault is reported at its address{}", kTry);
  if (elsewhere > 0)
    return fmt::format("one page was touched, but {} faults are reported at other addresses{}", elsewhere, kTry);
  for (const auto batch : batches) {
    if (!replayed.contains(batch))
      return fmt::format("the fault of one page was reported, but no replay of its batch{}", kTry);
  }
  return {};
}

std::shared_ptr<System> driver_of_device() {
  switch (device::backend()) {
    case device::Backend::cuda:
      device::synchronize();  // a process has unified memory only after a context was created
      return {&linux_system(), [](System*) {}};
    case device::Backend::emulator:
      return std::make_shared<EmulatedDriver>();
    case device::Backend::hip:
      break;
  }
  return nullptr;
}

bool is_forced() {
  const char* text = std::getenv("ISTHMUS_UVM");
  if (text == nullptr || *text == '\0') return false;
  if (std::string_view(text) == "force") return true;
  throw std::invalid_argument(fmt::format("ISTHMUS_UVM is '{}'; set it to force, or unset it", text));
}

std::unique_ptr<Source> attach(bool moves, Keep keep) {
  if (auto driver = driver_of_device()) return std::make_unique<Attached>(std::move(driver), moves, std::move(keep));
  throw Unavailable(
      "this program cannot read page faults from the driver of AMD GPUs; profile with -S profiler=rocprofv3");
}

}  // namespace isthmus::trace::uvm
