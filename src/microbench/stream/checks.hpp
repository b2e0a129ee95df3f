#pragma once

// Whether the results are right: every element against its closed form, exactly.

#include <cstddef>
#include <cstdint>

#include "microbench/stream/operation.hpp"

namespace isthmus::microbench::stream {

/// How the host comes to see memory.
enum class Reach {
  host,            ///< where it is
  copies,          ///< by copies
  through_device,  ///< by copies to the selected device and back: memory that the CPU reads very slowly
};

/// Elements that are not what the operation leaves.
std::size_t wrong_results(Operation operation, std::uint64_t seed, const double* out, std::size_t count, Reach reach);
/// Of all elements of input array 0.
double expected_sum(std::uint64_t seed, std::size_t count);

}  // namespace isthmus::microbench::stream
