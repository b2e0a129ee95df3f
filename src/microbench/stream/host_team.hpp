#pragma once

// Threads of the CPU that do an operation together, each on its own part of the arrays, always the same one.

#include <vector>

#include "memory/crew.hpp"
#include "microbench/stream/host_kernels.hpp"

namespace isthmus::microbench::stream {

class HostTeam {
 public:
  /// A thread on each of `processors`. What they touch first lies on `numa_node`, or beside each where that is -1.
  HostTeam(std::vector<int> processors, int numa_node);

  unsigned size() const noexcept { return crew_.size(); }
  bool kept_places() const noexcept { return crew_.kept_places(); }
  /// Writes the inputs, and poison into the output: the first touch of memory that nobody has used.
  void write_inputs(const Arrays& arrays, std::uint64_t seed);
  void poison(const Arrays& arrays);
  /// Does the operation `times` times in a row and returns the seconds from the first start to the last end.
  double run(Operation operation, Stores stores, const Arrays& arrays, int times);
  /// What the last run read.
  double sum() const;

 private:
  /// Of one thread, on a cache line of its own.
  struct alignas(128) Own {
    double begin = 0, end = 0, sum = 0;
  };
  memory::Part own_part(const Arrays& arrays, unsigned thread) const;

  memory::Crew crew_;
  int numa_node_;
  std::vector<Own> own_;
};

}  // namespace isthmus::microbench::stream
