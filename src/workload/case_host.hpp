#pragma once

// What a Case is implemented against. The harness provides it; a test of a workload's declarations may provide its own.

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

/// In elements; `pitch` from the start of one row to the start of the next.
struct BufferShape {
  std::size_t rows, columns, pitch;
};

/// Writes elements [first, last), counted without padding, to `begin` and what follows it.
using Fill = std::function<void(std::byte* begin, std::size_t first, std::size_t last)>;
using MakeShared = std::function<std::shared_ptr<const void>()>;
/// Fills the next row of a file's elements.
using ReadRow = std::function<void(std::byte* row, std::size_t elements)>;

struct DeclaredBuffer {
  memory::BufferSpec spec;
  std::size_t element_bytes;
  BufferShape shape;
  Fill fill;
  bool whole;  ///< filled at once, by one thread
  std::size_t elements() const { return shape.rows * shape.columns; }
};

/// What Case::shared() declares.
struct SharedInput {
  std::string name;
  std::size_t bytes;
  std::function<const void*()> get;
};

/// What Case::reads_file() declares.
struct FileReader {
  std::vector<std::size_t> buffers;
  std::function<ReadRow()> open;
};

/// All that a workload has declared so far.
struct Declarations {
  std::optional<InputFile> file;  ///< once it has asked for it
  std::vector<DeclaredBuffer> buffers;
  std::vector<SharedInput> shared_inputs;
  std::optional<FileReader> file_reader;
  std::size_t chunk_units = 0, repeats = 1;
};

/// The side of a Case that runs it. Names and meanings are those of Case and Sampling, which check what authors give
/// them before they call this.
class CaseHost {
 public:
  virtual ~CaseHost() = default;

  virtual const CaseSpec& spec() const = 0;
  /// Notes that the setting has a say in this case: one that no case reads has no effect.
  virtual void consult(std::string_view setting) const = 0;
  virtual std::uint64_t seed() const = 0;
  virtual const device::DeviceInfo* device() const = 0;  ///< nullptr: there is none
  virtual const InputFile& input_file() = 0;

  virtual Declarations& declarations() = 0;
  virtual const BufferAddresses& addresses() const = 0;
  virtual bool measured() const = 0;  ///< measure() has ended
  /// What was made under this name for the same inputs, else what `make` gives.
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
  /// Ends the case where its seconds are over and nothing was sampled; `done`: what was done last, for the message.
  virtual void end_if_over_budget(std::string_view done) const = 0;
  virtual void batch(int operations) = 0;
  virtual void invalidate(std::string code, std::string message) = 0;
  virtual bool latch() = 0;
  virtual double latch_timeout() const = 0;
  virtual double least_seconds(std::string_view timer) const = 0;
  virtual int largest_batch() const = 0;
};

}  // namespace isthmus::workload
