#include "harness/ranks/mpi/mpi_ranks.hpp"

// Makes MPI known to the program that this file is linked into.
static const isthmus::harness::RanksLibrary library(isthmus::mpi::join);
