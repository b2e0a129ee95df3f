#pragma once

// Interface of the harness for workloads: one combination of everything that can be varied, and the measurements made
// of it. A workload is one function, read from top to bottom (declare buffers, define what is correct, measure), and
// one registration. docs/adding-a-workload.md explains an example step by step.

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

/// One point of workload × placement × staging × size × axes, and everything that is measured of it.
class Case {
 public:
  // Settings of the case.
  std::int64_t integer(std::string_view axis) const;
  std::size_t extent(std::string_view axis) const;  ///< value of an axis that counts something; throws Skip if it is
                                                    ///< below 1
  std::string_view choice(std::string_view axis) const;
  memory::Placement placement() const;
  Staging staging() const;
  std::uint64_t seed() const;
  const device::DeviceInfo& device() const;
  /// Returns the file of Workload::with_file(), for cases that read one. The file's name, size and hash go into the
  /// record, and cases with different files count as different cases. Throws Skip if the user has not named a file, and
  /// whatever InputFile throws.
  const InputFile& input_file();
  /// Returns whether this case is meant to use more managed memory than is free on the device.
  bool oversubscribed() const;

  // Buffers: declared first, allocated inside measure(). `fill` returns host element i, as T(std::size_t), or writes
  // all elements at once, as void(std::span<T>); with nullptr the body fills the buffer.
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
  /// Declares a buffer that is copied only when the body requests it, whole or in part; its device memory contains
  /// poison before each pass.
  template <class T>
  Buffer<T> partial(std::string name, std::size_t elements) {
    return declare<T>(std::move(name), memory::Role::partial, {1, elements, elements}, nullptr, {});
  }
  /// Declares a buffer that exists only on the device, in every placement: it is never copied, and contains poison
  /// before each pass.
  template <class T>
  Buffer<T> scratch(std::string name, std::size_t elements) {
    return declare<T>(std::move(name), memory::Role::scratch, {1, elements, elements}, nullptr, {});
  }
  /// Declares a buffer that exists only on the host and is filled like an input: the body copies parts of it into
  /// scratch buffers with Run::copy_in(). In a placement without copies, the case is skipped.
  template <class T, class Generator>
  Buffer<T> host_source(std::string name, std::size_t elements, Generator fill) {
    return declare<T>(std::move(name), memory::Role::host_source, {1, elements, elements}, std::move(fill), {});
  }
  /// Declares a buffer that exists only on the host, in pageable memory in every placement, for the body's host code.
  template <class T, class Generator>
  Buffer<T> on_host(std::string name, std::size_t elements, Generator fill) {
    return declare<T>(std::move(name), memory::Role::host, {1, elements, elements}, std::move(fill), {});
  }
  /// Declares a matrix of rows × columns with padded row pitch, filled by `fill(row * columns + column)`; padding is
  /// zero. If `rows_per_unit` is not 0, the matrix is split into units of that many rows, with `halo` rows on either
  /// side.
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

  /// Declares inputs that can only be made as a whole and use `bytes` of host memory. `make` runs on first access, once
  /// for all cases with the same inputs, and never under --dry-run. Fills, bodies and checks may access the inputs.
  template <class T>
  Shared<T> shared(const std::string& name, std::size_t bytes, std::function<T()> make) {
    return Shared<T>(share(name, bytes, [make = std::move(make)]() -> std::shared_ptr<const void> {
      return std::make_shared<const T>(make());
    }));
  }

  /// Declares that this case's file contains the elements of `buffers`, one buffer after the other. They are read in a
  /// separate phase (Workload::file_phase()). open() starts at the beginning of the file each time and returns a
  /// reader, void(std::span<T>), which fills the rows in order, without padding, on one thread. The buffers' own fills
  /// must produce the same values.
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

  /// Sets the number of units of the chunk dimension; without it, the workload cannot be split and `streamed` is
  /// skipped.
  void chunks(std::size_t units);
  /// Declares that the body is one of `n` iterations. The record has the time of the first iteration, the time per
  /// iteration of the later ones, and the total, in seconds.
  void repeats(std::size_t n);

  /// Reports a kernel that the workload launches itself; kernels launched by Run are reported automatically.
  void kernel(device::KernelInfo info, const device::LaunchShape& shape);
  /// Records which staging really ran, if it is not the requested one ("direct: rows are not 16-byte multiples").
  void fallback(std::string reason);
  /// Records a fact, in words, that explains the figures, such as an instruction the compiler chose. `name` follows the
  /// rules of metric names.
  void note(const std::string& name, std::string text);
  void warn(std::string code, std::string message);

  /// Measures the phased and overlapped samples (docs/method.md) of `body`, which does the device's part of the work
  /// through Run and uses no other stream. A queued body is also run without a device, to count the work it queues.
  /// Called once per case, after all buffers are declared. `buffers`: paged(a, b), the buffers whose pages kernels can
  /// copy themselves; if there are none, placements that require them are skipped.
  void measure(Control control, std::function<void(Run&)> body, const PagedBuffers& buffers = {});

  // Members for workloads that take their own samples.

  /// Declares how much memory the case will use at the same time, before anything is allocated. Throws Skip (memory) if
  /// there is not enough, and ends the case here under --dry-run. Device bytes are those of the selected device.
  void needs(std::size_t host_bytes, std::size_t device_bytes);
  /// Returns the object that takes samples: workload/sampling.hpp.
  Sampling sampling() const { return Sampling(host_); }
  /// Records a single value that was observed rather than timed, such as the number of moved pages.
  void report(Metric metric, double value);
  /// Records a single timed value that cannot be measured again, such as the time of a first call.
  void once(Metric metric, double value);
  /// Returns a stream for the workload's own samples.
  device::Stream& stream();
  bool emulated() const;  ///< true if times measured on the device are meaningless
  int numa_node() const;  ///< NUMA node for host memory; -1: any
  /// Returns the ranks that run this case together with this one (several_ranks()). Call needs() before the first
  /// exchange, because --dry-run ends there.
  Team& team();

  /// Compares the host copy of `buffer` with `expected(i)`, where i counts elements without padding. Compares every
  /// element if there are at most 2^20, else a stratified sample with first, last and tile edges; always scans all
  /// elements for poison. A check declared before measure() runs on a few elements after every sample, and as described
  /// here after the last sample; a check declared after measure() runs on the last sample only. `expected` is called
  /// from several threads.
  template <class T, class Expected>
  void verify(const Buffer<T>& buffer, Expected expected, Tolerance tolerance,
              const std::string& method = "closed form") {
    add_check(buffer.index(), std::is_floating_point_v<T>, false, compare<T>(std::move(expected)), tolerance, method);
  }
  /// Compares every element with the output of `reference`, a void(std::span<T>) over elements without padding, which
  /// runs once for all cases with the same inputs.
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
  /// Checks that every placement and staging leaves the same bytes in this buffer for the same inputs: compares cases
  /// of this run and records already in this run's output file.
  template <class T>
  void verify_same(const Buffer<T>& buffer) {
    add_same(buffer.index());
  }
  /// Adds a check that the workload does itself: `error` returns the error it found, which is compared with
  /// `tolerance`.
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
        // Different integers beyond 2^53 may convert to the same double.
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
