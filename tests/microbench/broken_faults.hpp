#pragma once

// Included before everything else in the sources of test_fault_mutants, with one of these defined.

#include "memory/crew.hpp"
#include "memory/pages.hpp"
#include "microbench/fault/kernels.hpp"
#include "microbench/fault/region.hpp"
#include "workload/workload.hpp"

#if defined(MUTANT_STRIDE)  // counted in floats: one page in four
#define offset_of(index, stride) offset_of(index, (stride) / 4)
#elif defined(MUTANT_LAST_PAGE)  // the last page is forgotten
#define part_of(count, parts, index) part_of((count) - 1, parts, index)
#elif defined(MUTANT_NO_RENEWAL) && !defined(DEFINES_RENEWAL)  // pages that are there are touched again
#define renew() touches()
#elif defined(MUTANT_NO_KERNEL)  // nothing runs on the GPU
#define launch(...) static_cast<void>(__LINE__)
#endif
