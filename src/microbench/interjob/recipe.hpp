#pragma once

// Jobs on n × n elements: what they read and write, the kernel, and what comes out.

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "workload/workload.hpp"

namespace isthmus::microbench::interjob {

/// An operand of a job on the device. On the host the inputs of all jobs are one array, and each job's begin `step`
/// bytes after those of the job before it: all jobs differ in every row, and no memory is needed for each.
struct Operand {
  std::size_t bytes = 0;
  bool read = false, written = false;
  std::size_t step = 0;
  std::size_t columns = 0, pitch = 0;  ///< elements of a row without and with padding
  workload::Uniform values{};          ///< of the host's array, by the number of an element without padding
};

struct Recipe {
  std::vector<Operand> operands;
  std::size_t result = 0;  ///< the operand that is looked at
  std::function<void(device::Stream&, std::span<void* const>)> queue;
  std::function<double(std::size_t job, std::size_t element)> expected;
  double tolerance = 0;  ///< absolute
  double flops = 0;

  const Operand& output() const { return operands[result]; }
  std::size_t results() const;  ///< elements of the result, without padding
  std::size_t device_bytes() const;
};

/// "gemv", "gemm", "saxpy", "conv2d".
Recipe recipe(std::string_view name, std::size_t n, std::uint64_t seed);

}  // namespace isthmus::microbench::interjob
