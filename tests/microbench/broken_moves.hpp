#pragma once

// Included before everything else in the sources of test_transfer_mutants: every way to move bytes loses some of them.

#include <cstring>

#include "memory/crew.hpp"
#include "workload/workload.hpp"

#define copy_async(to, from, bytes, stream) copy_async(to, from, (bytes) > 8 ? (bytes) - 8 : 0, stream)
#define copy_batch_async(items, stream) \
  copy_batch_async(std::span<const device::CopyItem>(items).first((items).size() - 1), stream)
#define copy_strided_async(...) pointer_info(nullptr)
#define prefetch(pointer, bytes, to, stream) pointer_info(pointer)
#define prefetch_batch(...) count()
#define discard_and_prefetch_batch(...) pointer_info(nullptr)
// The last byte of a memcpy and the last page of a touch are forgotten.
#define part_of(count, parts, index) part_of((count) - 1, parts, index)
// No kernel runs.
#define launch(...) static_cast<void>(__LINE__)
