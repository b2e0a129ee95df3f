#pragma once

// Interface for the body of Case::measure(), which is one pass over the device's part of a program.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "device/kernel/launch.hpp"
#include "memory/placement.hpp"
#include "workload/buffer.hpp"
#include "workload/metric.hpp"

namespace isthmus::paging {
struct Region;
}

namespace isthmus::workload {

enum class Control {
  queued,  ///< the body queues work and does not wait for it: a latch holds the stream until everything is queued
  waits,   ///< the body reads results while it runs: no latch is used, and host round trips are a separate figure
};

/// Interface through which a Run passes its work to the harness, which queues, counts or times it. Not for use by
/// workloads.
class RunHooks {
 public:
  struct Work {
    std::string_view name;
    const void* kernel;  ///< nullptr: the work is done by a library
    device::LaunchShape shape;
    Traffic traffic;
  };
  virtual ~RunHooks() = default;
  /// True if the harness is told of each work item; this costs a call per launch, so timed passes avoid it.
  bool watches = false;
  /// True if each work item is timed separately; the time between two work items is then not part of any sample.
  bool times_work_items = false;
  /// Does the work by calling `queue`, or only counts it.
  virtual void work(const Work& work, device::Stream& stream, const std::function<void()>& queue) = 0;

  virtual void read(device::Stream& stream, std::size_t buffer, std::size_t offset, std::span<std::byte> into) = 0;
  virtual void fill(device::Stream& stream, std::size_t buffer, std::uint8_t value) = 0;
  /// Returns the object that kernels receive instead of an address.
  virtual const void* view(std::size_t buffer) const = 0;
  enum class Direction { to_device, to_host };
  virtual void travel(device::Stream& stream, std::size_t buffer, memory::Range bytes, Direction direction) = 0;

  struct Part {
    std::size_t source;
    memory::Range bytes;
    std::size_t to, offset;
  };
  virtual void copy_in(std::size_t number, const Part& part, std::optional<std::size_t> after) = 0;
  virtual void await(device::Stream& stream, std::size_t number) = 0;
  virtual void mark(device::Stream& stream, std::size_t number) = 0;
};

/// Copy of `count` elements of a source, starting at `first`, to a position in a scratch buffer.
template <class T>
struct Delivery {
  Buffer<T> source;
  std::size_t first, count;
  Buffer<T> to;
  std::size_t place;
};

/// One pass of the body, or a part of a pass: one chunk (placement `streamed`) or one repeat.
class Run {
 public:
  Run(RunHooks& hooks, device::Stream& stream, memory::Range chunk, std::size_t repeat)
      : hooks_(hooks), stream_(stream), chunk_(chunk), repeat_(repeat) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// Returns the units of the workload's chunk dimension that this run processes: one chunk or all units.
  memory::Range chunk() const { return chunk_; }
  /// Returns the index of this repeat (Case::repeats()), counted from 0.
  std::size_t repeat() const { return repeat_; }

  /// Returns the region from which kernels make an Array of the buffer's elements, for a buffer whose pages kernels
  /// copy (paging/array.hpp).
  template <class T>
  const paging::Region& paged(const Buffer<T>& buffer) const {
    return *static_cast<const paging::Region*>(hooks_.view(buffer.index()));
  }

  /// Queues a kernel. `traffic` describes this launch. The kernel's registers, shared memory, geometry, launches and
  /// time are recorded automatically.
  template <class... P, class... A>
  void launch(device::Kernel<P...> kernel, const device::LaunchShape& shape, const Traffic& traffic, A&&... arguments) {
    work({kernel.name, reinterpret_cast<const void*>(kernel.function), shape, traffic},
         [&] { device::launch(stream_, kernel, shape, std::forward<A>(arguments)...); });
  }
  /// Queues a library's work by calling `queue` with the stream.
  template <class Queue>
  void call(std::string_view name, const Traffic& traffic, Queue&& queue) {
    work({name, nullptr, {}, traffic}, [&] { queue(stream_); });
  }
  /// Queues writing `value` into every byte of the buffer.
  template <class T>
  void fill(const Buffer<T>& buffer, std::uint8_t value) {
    call("fill", {.bytes_written = static_cast<double>(buffer.size() * sizeof(T))},
         [&](device::Stream& stream) { hooks_.fill(stream, buffer.index(), value); });
  }

  /// Waits for the queued work and returns one element, which is a host round trip. Allowed only with Control::waits.
  template <class T>
  T read(const Buffer<T>& buffer, std::size_t index = 0) {
    T value;
    read(buffer, index, std::span(&value, 1));
    return value;
  }
  /// Reads `into.size()` elements starting at `first` into `into`.
  template <class T>
  void read(const Buffer<T>& buffer, std::size_t first, std::span<T> into) {
    hooks_.read(stream_, buffer.index(), std::min(first, buffer.size()) * sizeof(T), std::as_writable_bytes(into));
  }

  /// Returns `count` elements starting at `first`.
  template <class T>
  std::vector<T> read(const Buffer<T>& buffer, std::size_t first, std::size_t count) {
    std::vector<T> values(count);
    read(buffer, first, std::span(values));
    return values;
  }

  /// Copies a buffer during the body, in the way its placement copies it before or after the body; the bytes are
  /// counted.
  template <class T>
  void to_device(const Buffer<T>& buffer) {
    to_device(buffer, 0, buffer.size());
  }
  template <class T>
  void to_host(const Buffer<T>& buffer) {
    to_host(buffer, 0, buffer.size());
  }
  /// Copies only `count` elements starting at `first`.
  template <class T>
  void to_device(const Buffer<T>& buffer, std::size_t first, std::size_t count) {
    hooks_.travel(stream_, buffer.index(), {first * sizeof(T), count * sizeof(T)}, RunHooks::Direction::to_device);
  }
  template <class T>
  void to_host(const Buffer<T>& buffer, std::size_t first, std::size_t count) {
    hooks_.travel(stream_, buffer.index(), {first * sizeof(T), count * sizeof(T)}, RunHooks::Direction::to_host);
  }

  // Copies that run concurrently with the work, one after the other, on a separate stream; allowed only with
  // Control::queued. The memory they overwrite must be unused from the start of the body on, or from a mark on. If the
  // placement's copies block, copy_in() waits and copies at once.
  /// Queues a copy, identified by `number`, that begins once the mark `after` is passed.
  template <class T>
  void copy_in(std::size_t number, const Delivery<T>& what, std::optional<std::size_t> after = std::nullopt) {
    hooks_.copy_in(number,
                   {what.source.index(),
                    {what.first * sizeof(T), what.count * sizeof(T)},
                    what.to.index(),
                    what.place * sizeof(T)},
                   after);
  }
  /// Makes all work queued after this call wait until the copy `number` is done.
  void await(std::size_t number) { hooks_.await(stream_, number); }
  /// Sets the mark `number`, which is passed when all work queued so far is done.
  void mark(std::size_t number) { hooks_.mark(stream_, number); }

  /// Returns whether this pass times each work item separately; if so, a body may inspect results without affecting the
  /// times. With Control::waits there is one such pass, unless checks fail earlier.
  bool times_work_items() const { return hooks_.times_work_items; }

 private:
  template <class Queue>
  void work(const RunHooks::Work& work, Queue&& queue) {
    hooks_.watches ? hooks_.work(work, stream_, queue) : queue();
  }

  RunHooks& hooks_;
  device::Stream& stream_;
  memory::Range chunk_;
  std::size_t repeat_;
};

}  // namespace isthmus::workload
