#pragma once

// Planted bugs: every second update goes to the bin of the previous update, and a cache line's payload differs from the
// expected one. Included before everything else in the sources of test_atomics_mutants.

#include "microbench/atomics/device_updates.hpp"
#include "microbench/atomics/host_updates.hpp"

#define bin(...) bin((__VA_ARGS__) & ~std::uint64_t{1})
#define payload(turn) payload((turn) + static_cast<std::uint32_t>(__LINE__))
