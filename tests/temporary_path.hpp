#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace isthmus {

/// Where this process may write a file that is called `name`: tests run beside each other, the same one on two
/// machines.
inline std::string temporary_path(const std::string& name) {
  return testing::TempDir() + "isthmus-" + std::to_string(getpid()) + "-" + name;
}

}  // namespace isthmus
