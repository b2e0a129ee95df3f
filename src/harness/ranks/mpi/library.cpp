#include "harness/ranks/mpi/mpi_ranks.hpp"

// Registers MPI in the program that this file is linked into.
static const isthmus::harness::RanksLibrary library(isthmus::mpi::join);
