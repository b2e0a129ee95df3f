#pragma once

// Included before everything else in the sources of test_stream_mutants: the last thread of the CPU forgets its last
// piece, and every kernel the last pair of elements.

#include "memory/crew.hpp"
#include "microbench/stream/device_kernels.hpp"

#define part_of(count, parts, index) part_of((count) - 1, parts, index)
#define kPerAccess 2 - 1
