#pragma once

// Planted bugs: the last CPU thread leaves out its last work item, and every kernel leaves out the last pair of
// elements. Included before everything else in the sources of test_stream_mutants.

#include "memory/thread_pool.hpp"
#include "microbench/stream/device_kernels.hpp"

#define part_of(count, parts, index) part_of((count) - 1, parts, index)
#define kPerAccess 2 - 1
