#pragma once

// Workloads as the harness sees them, by their names without a namespace.

#include "workload/description.hpp"

namespace isthmus::harness {

using namespace workload;

}  // namespace isthmus::harness
