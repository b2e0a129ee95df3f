#pragma once

// Interface that Case is implemented with. The harness provides it; tests of a workload's declarations may provide
// another.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/kernel/launch.hpp"
#include "memory/placement.hpp"
#include "workload/buffer.hpp"
#include "workload/checks.hpp"
#include "workload/input_file.hpp"
#include "workload/metric.hpp"
#include "workload/run.hpp"

namespace isthmus::workload {

struct CaseSpec;  // workload/registration.hpp
class Team;       // workload/team.hpp

/// Shape of a buffer in elements; `pitch` is the distance from the start of one row to the start of the next.
struct BufferShape {
  std::size_t rows, columns, pitch;
};

/// Writes elements [first, last), counted without padding, to the memory at `begin`.
using Fill = std::function<void(std::byte* begin, std::size_t first, std::size_t last)>;
using MakeShared = std::function<std::shared_ptr<const void>()>;
/// Function that fills the next row with elements from a file.
using ReadRow = std::function<void(std::byte* row, std::size_t elements)>;

struct DeclaredBuffer {
  memory::BufferSpec spec;
  std::size_t element_bytes;
  BufferShape shape;
  Fill fill;
  bool whole;  ///< filled in a single call, on one thread
  std::size_t elements() const { return shape.rows * shape.columns; }
};

/// Declaration made by Case::shared().
struct SharedInput {
  std::string name;
  std::size_t bytes;
  std::function<const void*()> get;
};

/// Declaration made by Case::reads_file().
struct FileReader {
  std::vector<std::size_t> buffers;
  std::function<ReadRow()> open;
};

/// All declarations that a workload has made so far.
struct Declarations {
  std::optional<InputFile> file;  ///< set once the workload has requested it
  std::vector<DeclaredBuffer> buffers;
  std::vector<SharedInput> shared_inputs;
  std::optional<FileReader> file_reader;
  std::size_t chunk_units = 0, repeats = 1;
};

/// Interface that runs a Case. Its functions have the names and meanings of those of Case and Sampling, which check
/// what authors pass and then call this.
class CaseHost {
 public:
  virtual ~CaseHost() = default;

  virtual const CaseSpec& spec() const = 0;
  /// Notes that the setting affects this case; settings that no case reads have no effect.
  virtual void consult(std::string_view setting) const = 0;
  virtual std::uint64_t seed() const = 0;
  virtual const device::DeviceInfo* device() const = 0;  ///< nullptr: no device
  virtual const InputFile& input_file() = 0;

  virtual Declarations& declarations() = 0;
  virtual const BufferAddresses& addresses() const = 0;
  virtual bool measured() const = 0;  ///< true after measure() has ended
  /// Returns the value already made under this name for the same inputs, or else the result of `make`.
  virtual std::shared_ptr<const void> shared_input(const std::string& name, const MakeShared& make) = 0;
  virtual void add(ElementCheck check) = 0;
  virtual void add(OwnCheck check) = 0;
  virtual void add(SameCheck check) = 0;

  virtual void kernel(device::KernelInfo info, const device::LaunchShape& shape) = 0;
  virtual void fallback(std::string reason) = 0;
  virtual void note(const std::string& name, std::string text) = 0;
  virtual void warn(std::string code, std::string message) = 0;

  virtual void measure(Control control, std::function<void(Run&)> body, const PagedBuffers& buffers) = 0;
  virtual void needs(std::size_t host_bytes, std::size_t device_bytes) = 0;
  virtual void once(Metric metric, double value) = 0;
  virtual device::Stream& stream() = 0;
  virtual bool emulated() const = 0;
  virtual int numa_node() const = 0;
  virtual Team& team() = 0;

  virtual void sample(std::vector<Metric> metrics, const std::function<void()>& prepare,
                      const std::function<std::vector<double>()>& body) = 0;
  virtual void limit(int most_samples, int most_warmups) = 0;
  virtual bool interrupted() const = 0;
  /// Ends the case if its time budget is used up before any sample was taken; `done` names the last operation, for the
  /// message.
  virtual void end_if_over_budget(std::string_view done) const = 0;
  virtual void batch(int operations) = 0;
  virtual void invalidate(std::string code, std::string message) = 0;
  virtual bool latch() = 0;
  virtual double latch_timeout() const = 0;
  virtual double least_seconds(std::string_view timer) const = 0;
  virtual int largest_batch() const = 0;
};

}  // namespace isthmus::workload
