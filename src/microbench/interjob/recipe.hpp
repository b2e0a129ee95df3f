#pragma once

// Recipes of jobs on n × n elements: operands, kernel and expected result.

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "workload/workload.hpp"

namespace isthmus::microbench::interjob {

/// Operand of a job on the device. On the host, the inputs of all jobs share one array, in which each job's input
/// begins `step` bytes after that of the previous job. So all jobs differ in every row without needing separate memory.
struct Operand {
  std::size_t bytes = 0;
  bool read = false, written = false;
  std::size_t step = 0;
  std::size_t columns = 0, pitch = 0;  ///< elements of a row without and with padding
  workload::Uniform values{};          ///< values of the host's array; the index of an element excludes padding
};

struct Recipe {
  std::vector<Operand> operands;
  std::size_t result = 0;  ///< index of the operand that is checked
  std::function<void(device::Stream&, std::span<void* const>)> queue;
  std::function<double(std::size_t job, std::size_t element)> expected;
  double tolerance = 0;  ///< absolute error allowed
  double flops = 0;

  const Operand& output() const { return operands[result]; }
  std::size_t results() const;  ///< elements of the result, without padding
  std::size_t device_bytes() const;
};

/// Returns the recipe of this name: "gemv", "gemm", "saxpy" or "conv2d".
Recipe recipe(std::string_view name, std::size_t n, std::uint64_t seed);

}  // namespace isthmus::microbench::interjob
