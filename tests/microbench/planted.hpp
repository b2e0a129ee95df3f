#pragma once

// For sources with several bugs planted in them: the environment variable MUTANT says which of them is there, so that
// one program serves for all.

#include <cstdlib>
#include <string_view>

namespace isthmus {

inline bool planted(std::string_view bug) {
  static const char* const chosen = std::getenv("MUTANT");
  return chosen != nullptr && bug == chosen;
}

}  // namespace isthmus
