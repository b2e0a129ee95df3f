#pragma once

#include <memory>

#include "harness/ranks/ranks.hpp"

namespace isthmus::mpi {

/// Initialises MPI; the processes of its world are the ranks until what this returns is destroyed, which ends MPI.
std::unique_ptr<harness::Ranks> join();

}  // namespace isthmus::mpi
