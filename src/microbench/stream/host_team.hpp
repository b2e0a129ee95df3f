#pragma once

// Host threads that perform an operation together, each always on its own part of the arrays.

#include <vector>

#include "memory/thread_pool.hpp"
#include "microbench/stream/host_kernels.hpp"

namespace isthmus::microbench::stream {

class HostTeam {
 public:
  /// Starts one thread on each of `processors`. Memory that they touch first is on `numa_node`, or local to each thread
  /// if that is -1.
  HostTeam(std::vector<int> processors, int numa_node);

  unsigned size() const noexcept { return pool_.size(); }
  bool kept_places() const noexcept { return pool_.kept_places(); }
  /// Writes the inputs, and poison into the output. This is the first touch of the memory.
  void write_inputs(const Arrays& arrays, std::uint64_t seed);
  void poison(const Arrays& arrays);
  /// Performs the operation `times` times in a row and returns the seconds from the first start to the last end.
  double run(Operation operation, Stores stores, const Arrays& arrays, int times);
  /// Returns the sum of the elements that the last run read.
  double sum() const;

 private:
  /// State of one thread, on a separate cache line.
  struct alignas(128) Own {
    double begin = 0, end = 0, sum = 0;
  };
  memory::Part own_part(const Arrays& arrays, unsigned thread) const;

  memory::ThreadPool pool_;
  int numa_node_;
  std::vector<Own> own_;
};

}  // namespace isthmus::microbench::stream
