#pragma once

// Planted bugs: chases that stop too early, on CPU and GPU. Included before everything else in the sources of
// test_latency_mutants.

#include "microbench/latency/follow.hpp"
#include "workload/workload.hpp"

// The CPU makes one hop too few.
#define follow(from, hops) follow(from, (hops) - 1)
// Kernels are not launched.
#define launch(...) static_cast<void>(__LINE__)
