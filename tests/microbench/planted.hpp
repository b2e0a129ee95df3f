#pragma once

// Selects one of several bugs planted in a program: the environment variable MUTANT names the active bug.

#include <cstdlib>
#include <string_view>

namespace isthmus {

inline bool planted(std::string_view bug) {
  static const char* const chosen = std::getenv("MUTANT");
  return chosen != nullptr && bug == chosen;
}

}  // namespace isthmus
