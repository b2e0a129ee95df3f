#pragma once

// The processes that were started together. The harness knows them by this interface alone; ranks/mpi implements it in
// builds that have MPI.

#include <memory>

#include "workload/team.hpp"

namespace isthmus::harness {

using workload::Message, workload::OtherRankEnded, workload::Ranks, workload::Team;

/// What the launcher (mpirun, srun, …) that started this process says of it; rank 0 of 1 where none did.
struct Launched {
  int rank = 0, size = 1;
};
Launched launched();

/// A process by itself: rank 0 of 1.
Ranks& alone();

/// How this program joins the ranks that were started with it: a namespace-scope constant in ranks/mpi/library.cpp.
class RanksLibrary {
 public:
  explicit RanksLibrary(std::unique_ptr<Ranks> (*join)());
};
bool has_ranks_library();

/// Joins the other ranks where a launcher started several, at most once a process; nullptr where this process is alone.
/// Throws InputError where several were started that do not find each other: each would write the same records.
std::unique_ptr<Ranks> join_ranks();

}  // namespace isthmus::harness
