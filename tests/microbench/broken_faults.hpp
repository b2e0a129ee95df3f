#pragma once

// Included before everything else in the sources of test_fault_mutants and test_fault_mutant_NO_RENEWAL.

#include "memory/crew.hpp"
#include "memory/pages.hpp"
#include "microbench/fault/kernels.hpp"
#include "microbench/fault/region.hpp"
#include "planted.hpp"
#include "workload/workload.hpp"

#if defined(MUTANT_NO_RENEWAL)  // pages that are there are touched again
#if !defined(DEFINES_RENEWAL)
#define renew() touches()
#endif
#else
// Counted in floats: one page in four.
#define offset_of(index, stride) offset_of(index, (stride) / (isthmus::planted("STRIDE") ? 4 : 1))
// The last page is forgotten.
#define part_of(count, parts, index) part_of((count) - (isthmus::planted("LAST_PAGE") ? 1 : 0), parts, index)
// Nothing runs on the GPU.
#define launch(...) (isthmus::planted("NO_KERNEL") ? static_cast<void>(0) : launch(__VA_ARGS__))
#endif
