#pragma once

#include <string>
#include <vector>

namespace isthmus::device {

/// The faults that ISTHMUS_INJECT asks for, as call:n, whose call has not been made so often.
std::vector<std::string> unreached_injections();

}  // namespace isthmus::device
