#pragma once

#include "microbench/need.hpp"
#include "microbench/transfer/ends.hpp"

namespace isthmus::microbench::transfer {

/// Throws workload::Skip with the reason where a memory that the name speaks of is not there.
void need_ends(const Path& path);

}  // namespace isthmus::microbench::transfer
