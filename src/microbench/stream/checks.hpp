#pragma once

// Checks of the results: every element must exactly equal its closed form.

#include <cstddef>
#include <cstdint>

#include "microbench/stream/operation.hpp"

namespace isthmus::microbench::stream {

/// Method by which the host reads memory.
enum class Reach {
  host,            ///< direct access
  copies,          ///< copies to the host
  through_device,  ///< copies to the selected device, then to the host, for memory that the CPU reads very slowly
};

/// Returns the number of elements that differ from the expected results of the operation.
std::size_t wrong_results(Operation operation, std::uint64_t seed, const double* out, std::size_t count, Reach reach);
/// Returns the expected sum of all elements of input array 0.
double expected_sum(std::uint64_t seed, std::size_t count);

}  // namespace isthmus::microbench::stream
