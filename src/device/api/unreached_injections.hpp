#pragma once

#include <string>
#include <vector>

namespace isthmus::device {

/// Returns the faults requested by ISTHMUS_INJECT, as call:n, whose call has been made fewer than n times.
std::vector<std::string> unreached_injections();

}  // namespace isthmus::device
