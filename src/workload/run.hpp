#pragma once

// What the body of Case::measure() works with: one pass over the device's part of a program.

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
  queued,  ///< the body queues work and waits for none of it: a latch holds the stream until all is queued
  waits,   ///< the body looks at results on the way: no latch, and the host's turns are a figure of their own
};

/// What the harness does around the work of a body; nothing of it is public.
class RunKeeper {
 public:
  struct Work {
    std::string_view name;
    const void* kernel;  ///< nullptr: a library's work
    device::LaunchShape shape;
    Traffic traffic;
  };
  virtual ~RunKeeper() = default;
  /// Whether each piece of work is announced; it costs a call a launch, so timed passes do without.
  bool watches = false;
  /// Whether each piece of work is timed by itself, and what lies between two is in no reading.
  bool times_pieces = false;
  /// Does the work, which `queue` queues, or only counts it.
  virtual void work(const Work& work, device::Stream& stream, const std::function<void()>& queue) = 0;

  virtual void read(device::Stream& stream, std::size_t buffer, std::size_t offset, std::span<std::byte> into) = 0;
  virtual void fill(device::Stream& stream, std::size_t buffer, std::uint8_t value) = 0;
  /// What kernels are given instead of an address.
  virtual const void* view(std::size_t buffer) const = 0;
  enum class Direction { to_device, to_host };
  virtual void travel(device::Stream& stream, std::size_t buffer, memory::Range bytes, Direction direction) = 0;

  struct Part {
    std::size_t source;
    memory::Range bytes;
    std::size_t to, offset;
  };
  virtual void bring(std::size_t number, const Part& part, std::optional<std::size_t> after) = 0;
  virtual void await(device::Stream& stream, std::size_t number) = 0;
  virtual void mark(device::Stream& stream, std::size_t number) = 0;
};

/// `count` elements of a source, from `first` on, and where in a scratch buffer they go.
template <class T>
struct Delivery {
  Buffer<T> source;
  std::size_t first, count;
  Buffer<T> to;
  std::size_t place;
};

/// One pass of the body, or of one chunk of it (placement `streamed`), or one of its repeats.
class Run {
 public:
  Run(RunKeeper& keeper, device::Stream& stream, memory::Range chunk, std::size_t repeat)
      : keeper_(keeper), stream_(stream), chunk_(chunk), repeat_(repeat) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// All units of the workload's chunk dimension, or one chunk of them.
  memory::Range chunk() const { return chunk_; }
  /// Which of Case::repeats() this is, from 0.
  std::size_t repeat() const { return repeat_; }

  /// What an Array of a buffer's elements is made of, where its pages are the kernels' to fetch (paging/array.hpp).
  template <class T>
  const paging::Region& paged(const Buffer<T>& buffer) const {
    return *static_cast<const paging::Region*>(keeper_.view(buffer.index()));
  }

  /// Queues a kernel. `traffic` is of this launch. The kernel's registers, shared memory, geometry, launches and time
  /// go into the record by themselves.
  template <class... P, class... A>
  void launch(device::Kernel<P...> kernel, const device::LaunchShape& shape, const Traffic& traffic, A&&... arguments) {
    work({kernel.name, reinterpret_cast<const void*>(kernel.function), shape, traffic},
         [&] { device::launch(stream_, kernel, shape, std::forward<A>(arguments)...); });
  }
  /// Queues a library's work: `queue` is given the stream.
  template <class Queue>
  void call(std::string_view name, const Traffic& traffic, Queue&& queue) {
    work({name, nullptr, {}, traffic}, [&] { queue(stream_); });
  }
  /// Queues the writing of `value` into every byte.
  template <class T>
  void fill(const Buffer<T>& buffer, std::uint8_t value) {
    call("fill", {.bytes_written = static_cast<double>(buffer.size() * sizeof(T))},
         [&](device::Stream& stream) { keeper_.fill(stream, buffer.index(), value); });
  }

  /// Waits for what is queued and gives one element: a turn of the host. Control::waits only.
  template <class T>
  T read(const Buffer<T>& buffer, std::size_t index = 0) {
    T value;
    read(buffer, index, std::span(&value, 1));
    return value;
  }
  /// The same for `into.size()` elements from `first` on.
  template <class T>
  void read(const Buffer<T>& buffer, std::size_t first, std::span<T> into) {
    keeper_.read(stream_, buffer.index(), std::min(first, buffer.size()) * sizeof(T), std::as_writable_bytes(into));
  }

  /// The same as numbers of their own.
  template <class T>
  std::vector<T> read(const Buffer<T>& buffer, std::size_t first, std::size_t count) {
    std::vector<T> values(count);
    read(buffer, first, std::span(values));
    return values;
  }

  /// A buffer travels in the middle of the body as its placement has it travel at the ends; what travels is counted.
  template <class T>
  void to_device(const Buffer<T>& buffer) {
    to_device(buffer, 0, buffer.size());
  }
  template <class T>
  void to_host(const Buffer<T>& buffer) {
    to_host(buffer, 0, buffer.size());
  }
  /// The same for `count` elements from `first` on.
  template <class T>
  void to_device(const Buffer<T>& buffer, std::size_t first, std::size_t count) {
    keeper_.travel(stream_, buffer.index(), {first * sizeof(T), count * sizeof(T)}, RunKeeper::Direction::to_device);
  }
  template <class T>
  void to_host(const Buffer<T>& buffer, std::size_t first, std::size_t count) {
    keeper_.travel(stream_, buffer.index(), {first * sizeof(T), count * sizeof(T)}, RunKeeper::Direction::to_host);
  }

  // Copies that run beside the work, one after the other, on a stream of their own; with Control::queued only. What
  // they overwrite is free from the start of the body, or where the body has marked that it is. Where the placement's
  // copies block, bring() waits and copies.
  /// Queues a copy, known by this number from now on, that begins once the mark `after` is passed.
  template <class T>
  void bring(std::size_t number, const Delivery<T>& what, std::optional<std::size_t> after = std::nullopt) {
    keeper_.bring(number,
                  {what.source.index(),
                   {what.first * sizeof(T), what.count * sizeof(T)},
                   what.to.index(),
                   what.place * sizeof(T)},
                  after);
  }
  /// What is queued from here on begins when the copy of this number is done.
  void await(std::size_t number) { keeper_.await(stream_, number); }
  /// The mark of this number is passed when all that was queued up to here is done.
  void mark(std::size_t number) { keeper_.mark(stream_, number); }

  /// Whether this pass times each piece of work by itself, so that a body may look at what it does for nothing. With
  /// Control::waits there is one such pass, unless checks fail before.
  bool times_pieces() const { return keeper_.times_pieces; }

 private:
  template <class Queue>
  void work(const RunKeeper::Work& work, Queue&& queue) {
    keeper_.watches ? keeper_.work(work, stream_, queue) : queue();
  }

  RunKeeper& keeper_;
  device::Stream& stream_;
  memory::Range chunk_;
  std::size_t repeat_;
};

}  // namespace isthmus::workload
