#pragma once

// What a workload sees of the harness. A workload is one function, read from top to bottom: declare buffers,
// declare traffic, measure, verify; and one registration. docs/adding-a-workload.md walks through one.
//
//   void saxpy(Case& c) {
//     const auto n = c.extent("n");
//     auto x = c.input<float>("x", n, uniform(c.seed(), 0, -1, 1));
//     auto y = c.inout<float>("y", n, uniform(c.seed(), 1, -1, 1));
//     c.traffic({.bytes_read = 8 * n, .bytes_written = 4 * n, .flops = 2 * n});
//     c.verify(y, [=](std::size_t i) { return …; }, {.relative = 1e-6});
//     c.measure([&](const Launch& at) { launch(at.stream, ISTHMUS_KERNEL(saxpy_none), …, x.device(), y.device()); });
//   }
//   const Registration registration = Workload("microbench/saxpy", saxpy).version(1)…;

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "device/kernel.hpp"
#include "memory/placement.hpp"

namespace isthmus::harness {

enum class Staging { none, direct, async, bulk };
std::string_view name(Staging) noexcept;

enum class SkipKind {
  unsupported,     ///< the device or system cannot; red at a site that says it can
  memory,          ///< the case needs more memory than there is
  not_applicable,  ///< this combination means nothing for the workload
};

/// Thrown by a workload for a case that cannot run here; the record carries the reason.
struct Skip : std::runtime_error {
  explicit Skip(const std::string& reason, SkipKind kind_ = SkipKind::unsupported)
      : std::runtime_error(reason), kind(kind_) {}
  SkipKind kind;
};

// --- inputs: every element is a function of (seed, stream, index), on any thread, in any order -----

/// splitmix64 finaliser over seed, stream and index: a counter-based generator.
constexpr std::uint64_t hash(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  std::uint64_t z = index + 0x9e3779b97f4a7c15ULL * (seed + 1) + 0xd1b54a32d192ed03ULL * (stream + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// Uniform floats in [low, high): exact multiples of (high-low)/2^24.
struct Uniform {
  std::uint64_t seed, stream;
  float low, high;
  float operator()(std::size_t index) const {
    return low + (high - low) * static_cast<float>(hash(seed, stream, index) >> 40) * 0x1p-24f;
  }
};
inline Uniform uniform(std::uint64_t seed, std::uint64_t stream, float low, float high) {
  return {seed, stream, low, high};
}

// --- buffers ---------------------------------------------------------------------------------------

/// Handle to a declared buffer; the pointers are valid inside measure() and verify().
template <class T>
class Buffer {
 public:
  T* device() const { return reinterpret_cast<T*>(set_->device(index_)); }
  T* host() const { return reinterpret_cast<T*>(set_->host(index_)); }
  std::size_t size() const { return elements_; }
  /// Elements from one row to the next (matrix() pads rows to 128 bytes).
  std::size_t pitch() const { return pitch_; }
  std::size_t index() const { return index_; }

 private:
  friend class Case;
  Buffer(memory::BufferSet* const& set, std::size_t index, std::size_t elements, std::size_t pitch)
      : set_(set), index_(index), elements_(elements), pitch_(pitch) {}
  memory::BufferSet* const& set_;
  std::size_t index_, elements_, pitch_;
};

/// Rows padded to 128 bytes, so that every row is aligned for 16-byte and bulk copies.
template <class T>
constexpr std::size_t row_pitch(std::size_t columns) {
  constexpr std::size_t unit = 128 / sizeof(T);
  return (columns + unit - 1) / unit * unit;
}

// --- measuring -------------------------------------------------------------------------------------

/// What one launch has to do: all units of the workload's chunk dimension, or one chunk of them (`streamed`).
struct Launch {
  device::Stream& stream;
  memory::Range chunk;
};

/// Declared beside the kernel, counted once, however often a bad kernel re-reads.
struct Traffic {
  double bytes_read = 0;     ///< device bytes the kernel must read
  double bytes_written = 0;  ///< device bytes it must write
  double flops = 0;
};

struct Tolerance {
  double absolute = 0;
  double relative = 0;  ///< of |expected|; both may be given, the larger bound holds
};

enum class Better { lower, higher };

class Team;  // harness/ranks.hpp

/// A metric that a workload measures by itself.
struct Metric {
  std::string name{};
  std::string unit{};                            ///< SI: "s", "B/s", "FLOP/s", "1"
  std::optional<Better> better = Better::lower;  ///< nullopt: neither is
  std::string timer = "event";                   ///< "event", "clock" or "none"
  std::string direction{};                       ///< "h2d", "d2h", "d2d", "h2h" or empty
  double bytes_needed = 0, bytes_moved = 0;
  std::optional<double> limit{};
  std::string limit_source{};
  std::string limit_reason{};  ///< why no limit is known
};

/// One point of the product workload × placement × staging × size × axes, and all that is measured at it.
class Case {
 public:
  // What was asked for.
  std::int64_t integer(std::string_view axis) const;
  std::size_t extent(std::string_view axis) const;  ///< an integer axis that counts something: ≥ 1
  std::string_view choice(std::string_view axis) const;
  memory::Placement placement() const;
  Staging staging() const;
  std::uint64_t seed() const;
  const device::DeviceInfo& device() const;

  // Buffers: declared first, allocated inside measure(). Generators give host element i.
  template <class T, class Generator>
  Buffer<T> input(std::string name, std::size_t elements, Generator generator, memory::Split split = {}) {
    return declare<T>(std::move(name), memory::Role::input, elements, elements, std::move(generator), split);
  }
  template <class T, class Generator>
  Buffer<T> inout(std::string name, std::size_t elements, Generator generator, memory::Split split = {}) {
    return declare<T>(std::move(name), memory::Role::inout, elements, elements, std::move(generator), split);
  }
  template <class T>
  Buffer<T> output(std::string name, std::size_t elements, memory::Split split = {}) {
    return declare<T>(std::move(name), memory::Role::output, elements, elements, nullptr, split);
  }
  /// rows × columns, row pitch padded; `generator(row * columns + column)`; padding is zero. Split by `rows_per_unit`
  /// rows when that is not 0, with `halo` rows on either side.
  template <class T, class Generator>
  Buffer<T> input_matrix(std::string name, std::size_t rows, std::size_t columns, Generator generator,
                         std::size_t rows_per_unit = 0, std::size_t halo = 0) {
    return declare_matrix<T>(std::move(name), memory::Role::input, rows, columns, std::move(generator), rows_per_unit,
                             halo);
  }
  template <class T>
  Buffer<T> output_matrix(std::string name, std::size_t rows, std::size_t columns, std::size_t rows_per_unit = 0) {
    return declare_matrix<T>(std::move(name), memory::Role::output, rows, columns, nullptr, rows_per_unit, 0);
  }

  /// Units of the chunk dimension; without it the workload cannot be cut and `streamed` is skipped.
  void chunks(std::size_t units);

  void traffic(const Traffic&);
  /// Reports registers, shared memory and occupancy of the kernel that measure() launches; with the launch shape the
  /// record also has its grid, block and dynamic shared memory.
  void kernel(device::KernelInfo info, std::optional<device::LaunchShape> shape = std::nullopt);
  /// The staging that really ran, where it is not the one asked for ("direct: rows are not 16-byte multiples").
  void fallback(std::string reason);
  /// A fact in words that belongs to the figures, such as an instruction that the compiler chose. `name` as of metrics.
  void note(const std::string& name, std::string text);
  void warn(std::string code, std::string message);

  /// Runs the phased and overlapped readings (docs/method.md) around `body`, which queues the kernel(s) for one chunk
  /// and nothing that waits. Once per case, after all buffers are declared.
  void measure(const std::function<void(const Launch&)>& body);

  // For workloads with readings of their own.

  /// Says what the case will hold at once: throws Skip (memory) where it does not fit, and ends the case here under
  /// --dry-run. Before allocating. Device bytes are those of the selected device.
  void needs(std::size_t host_bytes, std::size_t device_bytes);
  /// Samples `body`, which returns one value of `metric`: of one operation, in the metric's unit.
  void sample(Metric metric, const std::function<double()>& body);
  /// Several metrics that one event yields (each direction of a bidirectional transfer and their sum): `body` returns a
  /// value of each. Sampling ends when every metric's median is settled.
  void sample(std::vector<Metric> metrics, const std::function<std::vector<double>()>& body);
  /// For operations that take a second and more: from now on at most so many samples and warm-ups, where the user asks
  /// for no number of them.
  void sparing(int samples, int warmups);
  /// Inside the body of sample(): so many operations were timed together.
  void batch(int operations);
  /// Inside the body of sample(): this sample does not count; why, as in a warning.
  void spoil(std::string code, std::string message);
  /// A single value that was seen and not timed, such as how many pages moved.
  void observe(Metric metric, double value);
  /// A single value that was timed and cannot be again, such as what a first call took.
  void once(Metric metric, double value);
  /// A stream for readings of one's own.
  device::Stream& stream();
  bool emulated() const;  ///< device times mean nothing here
  /// Whether a latch shall hold streams until all is queued, and after how many seconds it gives up. Where none shall
  /// (--no-latch), asking makes the record say so.
  bool latch() const;
  double latch_timeout() const;
  /// What is shorter by this timer ("event", "clock") is too coarse: repeat the operation, at most so often, and say so
  /// with batch(). Zero on an emulated device.
  double least_seconds(std::string_view timer) const;
  /// How many operations in a row are long enough for `timer`, at most `most`: `seconds_of(n)` does n of them and says
  /// how long they took. 1 on an emulated device.
  int batch_for(std::string_view timer, int most, const std::function<double(int)>& seconds_of) const;
  int largest_batch() const;
  int numa_node() const;  ///< where host memory shall lie; -1: anywhere
  /// The ranks that run this case with this one (several_ranks()). No exchange before needs(): --dry-run ends there.
  Team& team();

  /// Compares the host copy of `buffer` with `expected(i)`, i counting elements without padding. Every element when
  /// there are at most 2^20, else a stratified sample with first, last and tile edges; always scans for poison.
  /// Declared before measure(), it runs after every sample (on a few elements) and after the last (on all of the
  /// above); declared after it, on the last sample only. `expected` is called from several threads.
  template <class T, class Expected>
  void verify(const Buffer<T>& buffer, Expected expected, Tolerance tolerance, std::string method = "closed form") {
    add_check(
        buffer.index(), sizeof(T), std::is_floating_point_v<T>,
        [=](std::size_t i, const std::byte* element) {
          T actual;
          __builtin_memcpy(&actual, element, sizeof actual);
          return std::pair<double, double>{static_cast<double>(actual), static_cast<double>(expected(i))};
        },
        tolerance, std::move(method));
  }
  /// A check of one's own: returns the error found; compared with `tolerance`.
  void verify(std::string method, const std::function<double()>& error, double tolerance);

  struct State;
  explicit Case(State& state) : state_(state) {}

 private:
  using Element = std::function<std::pair<double, double>(std::size_t, const std::byte*)>;
  using Fill = std::function<void(std::byte* begin, std::size_t first, std::size_t last)>;  // elements, no padding
  std::size_t declare_buffer(memory::BufferSpec spec, std::size_t element_bytes, std::size_t columns, std::size_t pitch,
                             Fill fill);
  memory::BufferSet* const& buffers() const;
  void add_check(std::size_t buffer, std::size_t element_bytes, bool floating, Element, Tolerance, std::string method);

  template <class T, class Generator>
  Buffer<T> declare(std::string name, memory::Role role, std::size_t elements, std::size_t pitch, Generator generator,
                    memory::Split split) {
    Fill fill;
    if constexpr (!std::is_null_pointer_v<Generator>) {
      fill = [generator](std::byte* begin, std::size_t first, std::size_t last) {
        T* out = reinterpret_cast<T*>(begin);
        for (std::size_t i = first; i < last; ++i) out[i - first] = generator(i);
      };
    }
    const auto index = declare_buffer({std::move(name), role, memory::byte_count(elements, sizeof(T)), split},
                                      sizeof(T), pitch, pitch, std::move(fill));
    return {buffers(), index, elements, pitch};
  }
  template <class T, class Generator>
  Buffer<T> declare_matrix(std::string name, memory::Role role, std::size_t rows, std::size_t columns,
                           Generator generator, std::size_t rows_per_unit, std::size_t halo) {
    const std::size_t pitch = row_pitch<T>(columns);
    Fill fill;
    if constexpr (!std::is_null_pointer_v<Generator>) {
      fill = [generator](std::byte* begin, std::size_t first, std::size_t last) {
        T* out = reinterpret_cast<T*>(begin);
        for (std::size_t i = first; i < last; ++i) out[i - first] = generator(i);
      };
    }
    const auto index = declare_buffer({std::move(name),
                                       role,
                                       memory::byte_count(rows, memory::byte_count(pitch, sizeof(T))),
                                       {rows_per_unit * pitch * sizeof(T), halo}},
                                      sizeof(T), columns, pitch, std::move(fill));
    return {buffers(), index, rows * pitch, pitch};
  }

  State& state_;
};

// --- registration ----------------------------------------------------------------------------------

using AxisValue = std::variant<std::int64_t, std::string>;

struct Axis {
  std::string name{};
  std::string help{};
  AxisValue default_value{};
  std::vector<AxisValue> allowed{};  ///< empty: any integer ≥ minimum
  std::int64_t minimum = 0;
  bool bytes = false;  ///< a number of bytes: may be written 4KiB, 64MiB, 1GiB
  /// What runs where the user names neither this axis nor a size or preset that sets it; empty: default_value.
  std::vector<AxisValue> usual{};
  /// What `--set axis=all` runs where any number is allowed; empty: `sweep`.
  std::vector<AxisValue> listed{};
  std::vector<AxisValue> sweep{};  ///< what --size-sweep runs
};

using AxisSettings = std::vector<std::pair<std::string, AxisValue>>;

class Workload;

/// One point of the product workload × placement × staging × size × axes, before anything runs.
struct CaseSpec {
  const Workload* workload = nullptr;
  std::optional<memory::Placement> placement;
  std::optional<Staging> staging;
  std::optional<std::string> size;
  std::optional<std::string> preset;
  AxisSettings axes;                          ///< every axis of the workload, in its order
  std::vector<std::string> varied;            ///< axes that take several values in this run
  std::optional<std::string> not_applicable;  ///< why this combination is recorded as skipped

  const AxisValue* find(std::string_view axis) const noexcept;
  std::int64_t integer(std::string_view axis) const;
  std::string_view choice(std::string_view axis) const;
  /// "microbench/saxpy pinned×direct tiny threads=64", for progress lines and messages.
  std::string label() const;
  bool operator==(const CaseSpec&) const = default;
};

struct Size {
  std::string name{};  ///< tiny small medium large super mega
  AxisSettings settings{};
};

struct Preset {
  std::string name{};       ///< "paper-fig10"
  std::string help{};       ///< figure, and what it sets
  AxisSettings settings{};  ///< fixed for every case of the preset
  std::vector<std::string> sizes{};
  std::string sweep_axis{};  ///< empty, or the axis that the figure's horizontal axis shows
  std::vector<AxisValue> sweep{};
  std::vector<std::string> modes{};  ///< mode aliases; empty: those asked for
  // What holds where the command line does not say.
  int processes = 1;                   ///< fresh ones, one after the other; the most that a selected workload wants
  std::optional<double> least_time{};  ///< seconds for which samples are taken at least
};

/// A workload and all that can be varied. Chained at registration.
class Workload {
 public:
  Workload(std::string name, std::function<void(Case&)> function);
  Workload& version(int v);  ///< raised whenever figures stop being comparable
  Workload& summary(std::string text);
  Workload& source(std::string text);  ///< paper and section
  Workload& tags(std::vector<std::string> tags);
  Workload& placements(std::span<const memory::Placement> list);  ///< none unless called (reference/*)
  Workload& stagings(std::vector<Staging> list);
  Workload& axis(Axis axis);
  Workload& size(std::string name, AxisSettings settings);
  Workload& preset(Preset preset);
  /// Names of the metrics that the workload samples by itself (measure()'s need not be listed).
  Workload& metrics(std::vector<std::string> names);
  /// Names of metrics that a case has only where the machine tells them, such as how many pages moved.
  Workload& observed(std::vector<std::string> names);
  /// Verification not needed, and why (launch costs and the like).
  Workload& unverified(std::string reason);
  /// Seconds of one operation of a case, roughly, so that `run` can say beforehand how long all of them take. Wanted of
  /// workloads with readings of their own; those that call measure() are estimated from their buffers (--dry-run).
  Workload& estimate(std::function<double(const CaseSpec&)> seconds);
  /// The devices it uses, by index, where its name says which: all of them go into the record, the first as the one
  /// that is watched. Those that are not there are left out. Without this it uses the session's.
  Workload& devices(std::vector<int> indices);
  /// A true measurement also on a machine without a GPU: records say emulated: false.
  Workload& native();
  /// Several ranks measure it together, and one process cannot; every other workload is measured by one process.
  Workload& several_ranks();

  const std::string& name() const { return name_; }
  struct Description;
  const Description& description() const;

 private:
  friend class Registration;
  std::string name_;
  std::shared_ptr<Description> description_;
};

/// The one line that makes a workload known: a namespace-scope constant in its source file.
class Registration {
 public:
  Registration(Workload workload);
};

/// What a family of workloads is made for.
struct Machine {
  int gpus = 1;
  std::vector<int> memory_nodes{0};  ///< NUMA nodes with usable memory, ascending; {0} where the kernel knows none
};

/// Workloads whose names say between which memories of this machine they move data: made when they are first asked for.
/// A namespace-scope constant, like Registration. `prefix` ends with a slash and begins every name. A name means the
/// same on every machine; `make` may also be called for a larger machine than this one, since a name of a GPU or a node
/// that is not there makes a case too, which the workload skips with the reason.
class Family {
 public:
  Family(const std::string& prefix, std::vector<Workload> (*make)(const Machine&));
};

/// Seconds on the host's steady clock.
double now();

}  // namespace isthmus::harness
