#pragma once

#include <memory>

#include "harness/ranks/ranks.hpp"

namespace isthmus::mpi {

/// Initialises MPI. The processes of its world are the ranks until the returned object is destroyed, which finalises
/// MPI.
std::unique_ptr<harness::Ranks> join();

}  // namespace isthmus::mpi
