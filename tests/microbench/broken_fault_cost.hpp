#pragma once

// Planted bugs of fault/*. Included before everything else in the sources of test_fault_cost_mutants and
// test_fault_cost_mutant_NO_RENEWAL.

#include "memory/pages.hpp"
#include "memory/thread_pool.hpp"
#include "microbench/fault_cost/faulting_region.hpp"
#include "microbench/fault_cost/kernels.hpp"
#include "planted.hpp"
#include "workload/workload.hpp"

#if defined(MUTANT_NO_RENEWAL)  // pages are not renewed, so the touched pages are present
#if !defined(DEFINES_RENEWAL)
#define renew() touches()
#endif
#else
// The stride is used in floats instead of bytes, so only one page in four is touched.
#define offset_of(index, stride) offset_of(index, (stride) / (isthmus::planted("STRIDE") ? 4 : 1))
// The last page is not touched.
#define part_of(count, parts, index) part_of((count) - (isthmus::planted("LAST_PAGE") ? 1 : 0), parts, index)
// Kernels are not launched.
#define launch(...) (isthmus::planted("NO_KERNEL") ? static_cast<void>(0) : launch(__VA_ARGS__))
#endif
