#include "microbench/stream/host_team.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "memory/numa_nodes.hpp"

namespace isthmus::microbench::stream {

HostTeam::HostTeam(std::vector<int> processors, int numa_node)
    : pool_(std::move(processors)), numa_node_(numa_node), own_(pool_.size()) {}

memory::Part HostTeam::own_part(const Arrays& arrays, unsigned thread) const {
  const auto pieces = memory::part_of(arrays.count / kPiece, pool_.size(), thread);
  return {pieces.first * kPiece, pieces.last * kPiece};
}

void HostTeam::write_inputs(const Arrays& arrays, std::uint64_t seed) {
  pool_.run([&](unsigned thread) {
    const memory::ScopedMemoryNode on_node(numa_node_);
    const auto part = own_part(arrays, thread);
    // All arrays are written in one loop, as in STREAM. So their pages are allocated alternately, and data that are
    // read together do not fall into different rows of the same banks.
    for (std::size_t i = part.first; i < part.last; ++i) {
      if (arrays.first != nullptr) arrays.first[i] = input(seed, 0, i);
      if (arrays.second != nullptr) arrays.second[i] = input(seed, 1, i);
      if (arrays.out != nullptr) std::memset(&arrays.out[i], 0xff, sizeof(double));
    }
  });
}

void HostTeam::poison(const Arrays& arrays) {
  pool_.run([&](unsigned thread) {
    const auto part = own_part(arrays, thread);
    if (arrays.out != nullptr) std::memset(arrays.out + part.first, 0xff, (part.last - part.first) * sizeof(double));
    own_[thread].sum = 0;
  });
}

double HostTeam::run(Operation operation, Stores stores, const Arrays& arrays, int times) {
  pool_.run([&](unsigned thread) {
    const auto part = own_part(arrays, thread);
    auto& own = own_[thread];
    double sum = 0;
    pool_.meet();
    own.begin = workload::now();
    for (int i = 0; i < times; ++i) sum = run_on_host(operation, stores, arrays, part.first, part.last);
    own.end = workload::now();
    own.sum = sum;
  });
  const auto begins = [](const Own& a, const Own& b) { return a.begin < b.begin; };
  const auto ends = [](const Own& a, const Own& b) { return a.end < b.end; };
  return std::max_element(own_.begin(), own_.end(), ends)->end -
         std::min_element(own_.begin(), own_.end(), begins)->begin;
}

double HostTeam::sum() const {
  double all = 0;
  for (const auto& own : own_) all += own.sum;
  return all;
}

}  // namespace isthmus::microbench::stream
