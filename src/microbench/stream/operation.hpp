#pragma once

// Operations on each element: STREAM's four, plus read-only and write-only.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "workload/workload.hpp"

namespace isthmus::microbench::stream {

enum class Operation {
  copy,   ///< out[i] = first[i]
  scale,  ///< out[i] = scalar · first[i]
  add,    ///< out[i] = first[i] + second[i]
  triad,  ///< out[i] = first[i] + scalar · second[i]
  read,   ///< sum += first[i]
  write,  ///< out[i] = scalar
};

struct OperationFacts {
  Operation operation;
  std::string_view name, formula;
  unsigned reads, writes;  ///< numbers of arrays that are read and written
  unsigned arrays() const { return reads + writes; }
};

inline constexpr std::array<OperationFacts, 6> kOperations{{
    {Operation::copy, "copy", "c = a", 1, 1},
    {Operation::scale, "scale", "c = s·a", 1, 1},
    {Operation::add, "add", "c = a + b", 2, 1},
    {Operation::triad, "triad", "c = a + s·b", 2, 1},
    {Operation::read, "read", "sum of a", 1, 0},
    {Operation::write, "write", "c = s", 0, 1},
}};

constexpr const OperationFacts& facts(Operation operation) {
  return kOperations[static_cast<std::size_t>(operation)];
}

inline constexpr double kScalar = 3;

/// Returns element i of input array 0 or 1: an integer below 2^16, so that every result and every sum is exact in a
/// double. Called by kernels and by the host.
constexpr double input(std::uint64_t seed, std::uint64_t array, std::size_t i) {
  return static_cast<double>(workload::hash(seed, array, i) >> 48);
}

/// Returns the expected result at element i.
constexpr double expected(Operation operation, std::uint64_t seed, std::size_t i) {
  switch (operation) {
    case Operation::copy:
      return input(seed, 0, i);
    case Operation::scale:
      return kScalar * input(seed, 0, i);
    case Operation::add:
      return input(seed, 0, i) + input(seed, 1, i);
    case Operation::triad:
      return input(seed, 0, i) + kScalar * input(seed, 1, i);
    default:
      return kScalar;
  }
}

/// Arrays of one case; those that the operation does not use are null.
struct Arrays {
  double* out = nullptr;
  double* first = nullptr;
  double* second = nullptr;
  std::size_t count = 0;  ///< elements of each array
};

/// Layout of an operation's arrays in one block of memory: one after the other, as in STREAM.
struct Layout {
  Operation operation;
  std::size_t count;       ///< elements of an array
  std::size_t offset = 0;  ///< bytes between one array and the next

  std::size_t bytes() const { return facts(operation).arrays() * (count * sizeof(double) + offset); }
  Arrays at(std::byte* block) const {
    Arrays arrays{.count = count};
    const auto& has = facts(operation);
    const auto next = [&] {
      return reinterpret_cast<double*>(std::exchange(block, block + count * sizeof(double) + offset));
    };
    if (has.reads > 0) arrays.first = next();
    if (has.reads > 1) arrays.second = next();
    if (has.writes > 0) arrays.out = next();
    return arrays;
  }
};

}  // namespace isthmus::microbench::stream
