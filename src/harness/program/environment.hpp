#pragma once

#include <string>
#include <vector>

#include "harness/program/session.hpp"

namespace isthmus::harness {

/// Returns the names of the variables in `environment` (texts `NAME=value`) that look like this project's, even with a
/// misspelt or lower-case prefix, but that nothing reads. Variables that environment modules set, such as
/// `ISTHMUS_ROOT`, are excluded.
std::vector<std::string> unread_variables(const char* const* environment);

/// Returns "nothing reads the environment variable ISTHMUS_RESULT (did you mean 'ISTHMUS_RESULTS'?); correct or unset
/// it", or an empty string if all of this process's variables are read.
std::string unread_variables_sentence();

/// Returns a sentence for each variable that is meant for a single run, such as the file that a workload reads, but
/// that this run does not read. Variables of a site or a shell, such as ISTHMUS_RESULTS, apply to all runs and are
/// excluded.
std::vector<std::string> unused_variables(const std::vector<CaseSpec>& cases, const SessionOptions& options);

}  // namespace isthmus::harness
