#pragma once

// Planted bug: kernels have no block barriers. Included before everything else in the sources of
// test_microbench_mutants.

#include "device/kernel/kernel.hpp"

#define __syncthreads() static_cast<void>(0)
