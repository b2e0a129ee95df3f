#pragma once

// Processes that were started together. The harness uses them only through this interface, which ranks/mpi implements
// in builds with MPI.

#include <memory>

#include "workload/team.hpp"

namespace isthmus::harness {

using workload::Message, workload::OtherRankEnded, workload::Ranks, workload::Team;

/// Rank that the launcher (mpirun, srun, …) assigned to this process; rank 0 of 1 without a launcher.
struct Launched {
  int rank = 0, size = 1;
};
Launched launched();

/// Returns the ranks of a process that runs alone: it is rank 0 of 1.
Ranks& alone();

/// Registration of the function that joins ranks that were started together. ranks/mpi/library.cpp defines one at
/// namespace scope.
class RanksLibrary {
 public:
  explicit RanksLibrary(std::unique_ptr<Ranks> (*join)());
};
bool has_ranks_library();

/// Joins the other ranks if a launcher started several, at most once per process; returns nullptr if this process is
/// alone. Throws InputError if several processes were started that do not find each other, because each would write the
/// same records.
std::unique_ptr<Ranks> join_ranks();

}  // namespace isthmus::harness
