#pragma once

// Planted bugs: every method of moving bytes loses some bytes. Included before everything else in the sources of
// test_transfer_mutants.

#include <cstring>

#include "memory/thread_pool.hpp"
#include "workload/workload.hpp"

#define copy_async(to, from, bytes, stream) copy_async(to, from, (bytes) > 8 ? (bytes) - 8 : 0, stream)
#define copy_batch_async(items, stream) \
  copy_batch_async(std::span<const device::CopyItem>(items).first((items).size() - 1), stream)
#define copy_strided_async(...) pointer_info(nullptr)
#define prefetch(pointer, bytes, to, stream) pointer_info(pointer)
#define prefetch_batch(...) count()
#define discard_and_prefetch_batch(...) pointer_info(nullptr)
// The last byte of a memcpy and the last page of a touch are left out.
#define part_of(count, parts, index) part_of((count) - 1, parts, index)
// Kernels are not launched.
#define launch(...) static_cast<void>(__LINE__)
