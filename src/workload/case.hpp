#pragma once

// What a workload sees of the harness: one point of all that can be varied, and what is measured at it. A workload is
// one function, read from top to bottom: declare buffers, say what is right, measure; and one registration.
// docs/adding-a-workload.md walks through one.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "device/kernel/launch.hpp"
#include "memory/placement.hpp"
#include "workload/buffer.hpp"
#include "workload/case_host.hpp"
#include "workload/input_file.hpp"
#include "workload/metric.hpp"
#include "workload/run.hpp"
#include "workload/sampling.hpp"
#include "workload/skip.hpp"
#include "workload/staging.hpp"
#include "workload/values.hpp"

namespace isthmus::workload {

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
  /// The file of Workload::with_file(), in a case that reads one. Its name, size and hash go into the record, and cases
  /// of two files are two cases. Throws Skip where none is named, and what InputFile throws.
  const InputFile& input_file();
  /// Its managed memory is meant to be more than the device has free.
  bool oversubscribed() const;

  // Buffers: declared first, allocated inside measure(). `fill` gives host element i, as T(std::size_t), or all of them
  // at once, as void(std::span<T>); nullptr: the body fills it.
  template <class T, class Generator>
  Buffer<T> input(std::string name, std::size_t elements, Generator fill, memory::Split split = {}) {
    return declare<T>(std::move(name), memory::Role::input, {1, elements, elements}, std::move(fill), split);
  }
  template <class T, class Generator>
  Buffer<T> inout(std::string name, std::size_t elements, Generator fill, memory::Split split = {}) {
    return declare<T>(std::move(name), memory::Role::inout, {1, elements, elements}, std::move(fill), split);
  }
  template <class T>
  Buffer<T> output(std::string name, std::size_t elements, memory::Split split = {}) {
    return declare<T>(std::move(name), memory::Role::output, {1, elements, elements}, nullptr, split);
  }
  /// Travels where the body says so, whole or in part; on the device it holds poison before each pass.
  template <class T>
  Buffer<T> on_demand(std::string name, std::size_t elements) {
    return declare<T>(std::move(name), memory::Role::on_demand, {1, elements, elements}, nullptr, {});
  }
  /// On the device only, whatever the placement: it never travels, and holds poison before each pass.
  template <class T>
  Buffer<T> scratch(std::string name, std::size_t elements) {
    return declare<T>(std::move(name), memory::Role::scratch, {1, elements, elements}, nullptr, {});
  }
  /// On the host only, and filled as an input is: the body brings parts of it into scratch buffers by Run::bring(). The
  /// case is skipped in a placement that copies nothing.
  template <class T, class Generator>
  Buffer<T> source(std::string name, std::size_t elements, Generator fill) {
    return declare<T>(std::move(name), memory::Role::source, {1, elements, elements}, std::move(fill), {});
  }
  /// On the host only, in pageable memory, whatever the placement: what the body's own code looks at.
  template <class T, class Generator>
  Buffer<T> on_host(std::string name, std::size_t elements, Generator fill) {
    return declare<T>(std::move(name), memory::Role::host, {1, elements, elements}, std::move(fill), {});
  }
  /// rows × columns, row pitch padded; `fill(row * columns + column)`; padding is zero. Split by `rows_per_unit`
  /// rows when that is not 0, with `halo` rows on either side.
  template <class T, class Generator>
  Buffer<T> input_matrix(std::string name, std::size_t rows, std::size_t columns, Generator fill,
                         std::size_t rows_per_unit = 0, std::size_t halo = 0) {
    return declare_matrix<T>(std::move(name), memory::Role::input, rows, columns, std::move(fill), rows_per_unit, halo);
  }
  template <class T, class Generator>
  Buffer<T> inout_matrix(std::string name, std::size_t rows, std::size_t columns, Generator fill) {
    return declare_matrix<T>(std::move(name), memory::Role::inout, rows, columns, std::move(fill), 0, 0);
  }
  template <class T>
  Buffer<T> output_matrix(std::string name, std::size_t rows, std::size_t columns, std::size_t rows_per_unit = 0) {
    return declare_matrix<T>(std::move(name), memory::Role::output, rows, columns, nullptr, rows_per_unit, 0);
  }

  /// Inputs that are known only as a whole, of `bytes` of host memory: `make` runs once for all cases with the same
  /// inputs, when they are first looked at, and never under --dry-run. Fills, bodies and checks may look at them.
  template <class T>
  Shared<T> shared(const std::string& name, std::size_t bytes, std::function<T()> make) {
    return Shared<T>(share(name, bytes, [make = std::move(make)]() -> std::shared_ptr<const void> {
      return std::make_shared<const T>(make());
    }));
  }

  /// The elements of the file that this case reads are those of `buffers`, one buffer after the other: they are read in
  /// a phase of their own (Workload::file_phase()). open() begins with the file anew; what it gives fills rows without
  /// padding in turn, as void(std::span<T>), on one thread. The buffers' own fills must give the same.
  template <class T, class Open>
  void reads_file(const std::vector<Buffer<T>>& buffers, Open open) {
    std::vector<std::size_t> indices;
    for (const auto& buffer : buffers) indices.push_back(buffer.index());
    add_file_reader(std::move(indices), [open = std::move(open)]() -> ReadRow {
      return [read = open()](std::byte* row, std::size_t elements) mutable {
        read(std::span(reinterpret_cast<T*>(row), elements));
      };
    });
  }

  /// Units of the chunk dimension; without it the workload cannot be cut and `streamed` is skipped.
  void chunks(std::size_t units);
  /// The body is one iteration of `n`: the record has the first one, the later ones (seconds of one) and all of them.
  void repeats(std::size_t n);

  /// Reports a kernel that a reading of one's own launches; what Run launches is reported by itself.
  void kernel(device::KernelInfo info, const device::LaunchShape& shape);
  /// The staging that really ran, where it is not the one asked for ("direct: rows are not 16-byte multiples").
  void fallback(std::string reason);
  /// A fact in words that belongs to the figures, such as an instruction that the compiler chose. `name` as of metrics.
  void note(const std::string& name, std::string text);
  void warn(std::string code, std::string message);

  /// Runs the phased and overlapped readings (docs/method.md) around `body`, which does the device's part of the work
  /// through Run and touches no stream of its own. A queued body is also run without a device, to count what it queues.
  /// Once per case, after all buffers are declared. `buffers`: paged(a, b), whose pages kernels can fetch by
  /// themselves; with none, a placement for that is skipped.
  void measure(Control control, std::function<void(Run&)> body, const PagedBuffers& buffers = {});

  // For workloads with readings of their own.

  /// Says what the case will hold at once: throws Skip (memory) where it does not fit, and ends the case here under
  /// --dry-run. Before allocating. Device bytes are those of the selected device.
  void needs(std::size_t host_bytes, std::size_t device_bytes);
  /// Takes samples, and says how: workload/sampling.hpp.
  Sampling sampling() const { return Sampling(host_); }
  /// A single value that was seen and not timed, such as how many pages moved.
  void observe(Metric metric, double value);
  /// A single value that was timed and cannot be again, such as what a first call took.
  void once(Metric metric, double value);
  /// A stream for readings of one's own.
  device::Stream& stream();
  bool emulated() const;  ///< device times mean nothing here
  int numa_node() const;  ///< where host memory is to lie; -1: anywhere
  /// The ranks that run this case with this one (several_ranks()). No exchange before needs(): --dry-run ends there.
  Team& team();

  /// Compares the host copy of `buffer` with `expected(i)`, i counting elements without padding. Every element when
  /// there are at most 2^20, else a stratified sample with first, last and tile edges; always scans all of them for
  /// poison. Declared before measure(), it runs after every sample (on a few elements) and after the last (on all of
  /// the above); declared after it, on the last sample only. `expected` is called from several threads.
  template <class T, class Expected>
  void verify(const Buffer<T>& buffer, Expected expected, Tolerance tolerance,
              const std::string& method = "closed form") {
    add_check(buffer.index(), std::is_floating_point_v<T>, false, compare<T>(std::move(expected)), tolerance, method);
  }
  /// Compares every element with what `reference` writes, as void(std::span<T>) of elements without padding. It runs
  /// once for all cases with the same inputs.
  template <class T, class Reference>
  void verify_all(const Buffer<T>& buffer, Reference reference, Tolerance tolerance = {},
                  const std::string& method = "serial reference") {
    const std::size_t elements = unpadded(buffer.index());
    const auto all = shared<std::vector<T>>(method + " of " + name_of(buffer.index()), elements * sizeof(T), [=] {
      std::vector<T> values(elements);
      reference(std::span<T>(values));
      return values;
    });
    add_check(buffer.index(), std::is_floating_point_v<T>, true, compare<T>([all](std::size_t i) { return (*all)[i]; }),
              tolerance, method);
  }
  /// Every placement and staging leaves the same bytes here, for the same inputs: in this run, and in the records that
  /// the file of this run holds already.
  template <class T>
  void verify_same(const Buffer<T>& buffer) {
    add_same(buffer.index());
  }
  /// A check of one's own: returns the error found; compared with `tolerance`.
  void verify(std::string method, const std::function<double()>& error, double tolerance);

  explicit Case(CaseHost& host) : host_(host) {}

 private:
  using Element = std::function<std::pair<double, double>(std::size_t, const std::byte*)>;
  std::size_t declare_buffer(DeclaredBuffer buffer);
  const BufferAddresses& addresses() const;
  std::function<const void*()> share(std::string name, std::size_t bytes, MakeShared make);
  void add_file_reader(std::vector<std::size_t> buffers, std::function<ReadRow()> open);
  std::size_t unpadded(std::size_t buffer) const;
  const std::string& name_of(std::size_t buffer) const;
  void add_check(std::size_t buffer, bool floating, bool everything, Element, Tolerance, std::string method);
  void add_same(std::size_t buffer);

  template <class T, class Expected>
  static Element compare(Expected expected) {
    return [expected = std::move(expected)](std::size_t i, const std::byte* element) {
      T actual;
      __builtin_memcpy(&actual, element, sizeof actual);
      const auto right = expected(i);
      std::pair both{static_cast<double>(actual), static_cast<double>(right)};
      if constexpr (std::is_integral_v<T> && std::is_integral_v<decltype(expected(i))>) {
        // Integers beyond 2^53 may differ and be one double.
        if (both.first == both.second && actual != static_cast<T>(right))
          both.first = std::nextafter(both.second, 2 * both.second);
      }
      return both;
    };
  }
  template <class T, class Generator>
  Buffer<T> declare(std::string name, memory::Role role, const BufferShape& shape, Generator generator,
                    memory::Split split) {
    constexpr bool whole = std::is_invocable_v<Generator, std::span<T>>;
    Fill fill;
    if constexpr (whole) {
      fill = [generator](std::byte* begin, std::size_t first, std::size_t last) {
        generator(std::span(reinterpret_cast<T*>(begin), last - first));
      };
    } else if constexpr (!std::is_null_pointer_v<Generator>) {
      fill = [generator](std::byte* begin, std::size_t first, std::size_t last) {
        T* out = reinterpret_cast<T*>(begin);
        for (std::size_t i = first; i < last; ++i) out[i - first] = generator(i);
      };
    }
    const auto elements = memory::byte_count(shape.rows, shape.pitch);
    const auto index = declare_buffer({{std::move(name), role, memory::byte_count(elements, sizeof(T)), split},
                                       sizeof(T),
                                       shape,
                                       std::move(fill),
                                       whole});
    return {addresses(), index, elements, shape.pitch};
  }
  template <class T, class Generator>
  Buffer<T> declare_matrix(std::string name, memory::Role role, std::size_t rows, std::size_t columns,
                           Generator generator, std::size_t rows_per_unit, std::size_t halo) {
    const std::size_t pitch = row_pitch<T>(columns);
    return declare<T>(std::move(name), role, {rows, columns, pitch}, std::move(generator),
                      {rows_per_unit * pitch * sizeof(T), halo});
  }

  CaseHost& host_;
};

}  // namespace isthmus::workload
