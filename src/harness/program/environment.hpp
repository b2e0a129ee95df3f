#pragma once

#include <string>
#include <vector>

namespace isthmus::harness {

/// Variables among these `NAME=value` that look like this project's, by a misspelt or lower-case prefix, too, and that
/// nothing reads. `ISTHMUS_ROOT` and the like, which environment modules set, are not among them.
std::vector<std::string> unread_variables(const char* const* environment);

/// "nothing reads the environment variable ISTHMUS_RESULT (did you mean 'ISTHMUS_RESULTS'?); correct or unset it", or
/// empty where all of this process's are read.
std::string unread_variables_sentence();

}  // namespace isthmus::harness
