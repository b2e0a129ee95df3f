#pragma once

// Included before everything else in the sources of test_latency_mutants: chases that stop short, on either side.

#include "microbench/latency/follow.hpp"
#include "workload/workload.hpp"

// The CPU goes one hop less than it was asked to.
#define follow(from, hops) follow(from, (hops) - 1)
// No kernel runs.
#define launch(...) static_cast<void>(__LINE__)
