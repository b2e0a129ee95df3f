// What the machine's copies reach: the bounds that the seven workloads are read against.

#include <algorithm>

#include "harness/workload.hpp"

namespace isthmus::microbench {
namespace {

using namespace harness;
using Next = device::SpinLatch::Next;

/// Memory for one reading, freed on every way out.
struct Memory {
  void* pointer;
  void (*release)(void*);
  Memory(void* p, void (*r)(void*)) : pointer(p), release(r) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    try {
      release(pointer);
    } catch (const device::Error&) {  // the first failure is the one to report
    }
  }
};
Memory on_device(std::size_t bytes) {
  return {device::malloc_device(bytes), device::free_device};
}
Memory pinned(std::size_t bytes) {
  return {device::malloc_pinned(bytes), device::free_pinned};
}

/// Times copies on the device's clock; behind a spin latch, so that their submission is not in the reading.
class CopyTimer {
 public:
  CopyTimer(Case& c, Next next) : stream_(c.stream()), next_(next) {}
  /// Seconds of one copy.
  double operator()(void* to, const void* from, std::size_t bytes, bool with_latch = true) {
    if (with_latch) latch_.hold(stream_, 5.0, next_);
    begin_.record(stream_);
    device::copy_async(to, from, bytes, stream_);
    end_.record(stream_);
    if (with_latch) latch_.release();
    stream_.synchronize();
    return device::elapsed(begin_, end_);
  }

 private:
  device::Stream& stream_;
  Next next_;
  device::Event begin_, end_;
  device::SpinLatch latch_;
};

constexpr std::uint8_t pattern = 0x5a;

void fill_device(Case& c, void* pointer, std::uint8_t value, std::size_t bytes) {
  device::fill_async(pointer, value, bytes, c.stream());
  c.stream().synchronize();
}

/// Bytes of host memory that are not the pattern.
double count_wrong(const void* pointer, std::size_t bytes) {
  const auto* begin = static_cast<const std::uint8_t*>(pointer);
  return static_cast<double>(bytes - static_cast<std::size_t>(std::count(begin, begin + bytes, pattern)));
}

Metric rate(std::string direction, double bytes, double moved) {
  return {.name = "rate",
          .unit = "B/s",
          .better = Better::higher,
          .timer = "event",
          .direction = std::move(direction),
          .bytes_needed = bytes,
          .bytes_moved = moved,
          .limit = {},
          .limit_source = {}};
}

// Bytes read plus bytes written over time, so that it compares with a kernel's declared traffic.
void device_copy(Case& c) {
  const std::size_t bytes = c.extent("bytes");
  c.needs(bytes, 2 * bytes);
  const Memory from = on_device(bytes), to = on_device(bytes);
  fill_device(c, from.pointer, pattern, bytes);
  fill_device(c, to.pointer, 0xff, bytes);
  const Memory result = pinned(bytes);
  c.verify(
      "every byte arrived",
      [&] {
        device::copy(result.pointer, to.pointer, bytes);
        return count_wrong(result.pointer, bytes);
      },
      0);
  Metric metric = rate("d2d", static_cast<double>(bytes), 2.0 * static_cast<double>(bytes));
  metric.limit = c.device().memory_bandwidth;
  metric.limit_source = "peak device memory bandwidth";
  CopyTimer time_copy(c, Next::kernel);
  c.sample(std::move(metric),
           [&] { return 2.0 * static_cast<double>(bytes) / time_copy(to.pointer, from.pointer, bytes); });
}

/// Page-locked memory full of the pattern, device memory to copy it to, and the check that it arrived.
struct HostToDevice {
  explicit HostToDevice(Case& c) : bytes(checked(c)), from(pinned(bytes)), to(on_device(bytes)), result(pinned(bytes)) {
    std::fill_n(static_cast<std::uint8_t*>(from.pointer), bytes, pattern);
    fill_device(c, to.pointer, 0xff, bytes);
    c.verify("every byte arrived", [this] { return wrong(); }, 0);
  }
  HostToDevice(const HostToDevice&) = delete;
  HostToDevice& operator=(const HostToDevice&) = delete;
  static std::size_t checked(Case& c) {
    const std::size_t bytes = c.extent("bytes");
    c.needs(2 * bytes, bytes);
    return bytes;
  }
  double wrong() const {
    device::copy(result.pointer, to.pointer, bytes);
    return count_wrong(result.pointer, bytes);
  }

  std::size_t bytes;
  Memory from, to, result;
};

void pinned_h2d(Case& c) {
  const HostToDevice memory(c);
  const auto bytes = static_cast<double>(memory.bytes);
  CopyTimer time_copy(c, Next::copy_in);
  c.sample(rate("h2d", bytes, bytes),
           [&] { return bytes / time_copy(memory.to.pointer, memory.from.pointer, memory.bytes); });
}

void pinned_d2h(Case& c) {
  const std::size_t bytes = c.extent("bytes");
  c.needs(bytes, bytes);
  const Memory from = on_device(bytes), to = pinned(bytes);
  fill_device(c, from.pointer, pattern, bytes);
  std::fill_n(static_cast<std::uint8_t*>(to.pointer), bytes, std::uint8_t{0xff});
  c.verify("every byte arrived", [&] { return count_wrong(to.pointer, bytes); }, 0);
  CopyTimer time_copy(c, Next::copy_out);
  c.sample(rate("d2h", static_cast<double>(bytes), static_cast<double>(bytes)),
           [&] { return static_cast<double>(bytes) / time_copy(to.pointer, from.pointer, bytes); });
}

// A copy so small that its submission takes longer than itself: timed with and without the latch that keeps the
// submission out of the reading.
void small_copy(Case& c) {
  const HostToDevice memory(c);
  const auto bytes = static_cast<double>(memory.bytes);
  CopyTimer time_copy(c, Next::copy_in);
  for (const bool with_latch : {true, false}) {
    c.sample({.name = with_latch ? "with_latch" : "without_latch",
              .unit = "s",
              .better = Better::lower,
              .timer = "event",
              .direction = "h2d",
              .bytes_needed = bytes,
              .bytes_moved = bytes,
              .limit = {},
              .limit_source = {}},
             [&] { return time_copy(memory.to.pointer, memory.from.pointer, memory.bytes, with_latch); });
  }
}

// A link of PCIe 4, the middle of what machines have.
double seconds_of_copy(const CaseSpec& spec) {
  return static_cast<double>(spec.integer("bytes")) / 25e9;
}

Workload copy_workload(const char* name, void (*function)(Case&), const char* summary) {
  constexpr std::int64_t mi = std::int64_t{1} << 20;
  Workload w(name, function);
  w.version(1)
      .summary(summary)
      .source("isthmus")
      .tags({"reference"})
      .stagings({})
      .metrics({"rate"})
      .estimate(seconds_of_copy)
      .axis({.name = "bytes",
             .help = "bytes of one copy",
             .default_value = 64 * mi,
             .allowed = {},
             .minimum = 1,
             .bytes = true})
      .size("tiny", {{"bytes", mi}})
      .size("small", {{"bytes", 16 * mi}})
      .size("medium", {{"bytes", 64 * mi}})
      .size("large", {{"bytes", 512 * mi}})
      .size("super", {{"bytes", 4096 * mi}});
  return w;
}

const Registration device_copy_registration =
    copy_workload("reference/device_copy", device_copy, "device-to-device copy, bytes read plus bytes written");
const Registration h2d_registration =
    copy_workload("reference/pinned_h2d", pinned_h2d, "page-locked host memory to the device, copy engine");
const Registration d2h_registration =
    copy_workload("reference/pinned_d2h", pinned_d2h, "device to page-locked host memory, copy engine");
const Registration small_registration = [] {
  Workload w("reference/small_copy", small_copy);
  w.version(1)
      .summary("a 4 KiB copy timed with and without the spin latch: the gap is its submission")
      .source("isthmus")
      .tags({"reference"})
      .stagings({})
      .metrics({"with_latch", "without_latch"})
      .estimate(seconds_of_copy)
      .axis({.name = "bytes",
             .help = "bytes of one copy",
             .default_value = std::int64_t{4096},
             .allowed = {},
             .minimum = 1,
             .bytes = true})
      .size("tiny", {{"bytes", std::int64_t{4096}}})
      .size("small", {{"bytes", std::int64_t{4096}}});
  return w;
}();

}  // namespace
}  // namespace isthmus::microbench
