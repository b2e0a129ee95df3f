#pragma once

// Makes names of namespace workload available to the harness without qualification.

#include "workload/description.hpp"

namespace isthmus::harness {

using namespace workload;

}  // namespace isthmus::harness
