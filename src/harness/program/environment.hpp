#pragma once

#include <string>
#include <vector>

#include "harness/program/session.hpp"

namespace isthmus::harness {

/// Variables among these `NAME=value` that look like this project's, by a misspelt or lower-case prefix, too, and that
/// nothing reads. `ISTHMUS_ROOT` and the like, which environment modules set, are not among them.
std::vector<std::string> unread_variables(const char* const* environment);

/// "nothing reads the environment variable ISTHMUS_RESULT (did you mean 'ISTHMUS_RESULTS'?); correct or unset it", or
/// empty where all of this process's are read.
std::string unread_variables_sentence();

/// A sentence for each variable that is set for one run, as the file that a workload reads is, and that this run does
/// not read. Those of a site or a shell, such as ISTHMUS_RESULTS, hold for all runs and are not among them.
std::vector<std::string> unused_variables(const std::vector<CaseSpec>& cases, const SessionOptions& options);

}  // namespace isthmus::harness
