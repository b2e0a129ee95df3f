#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace isthmus {

/// Returns a path that contains `name` and is unique to this process, because tests run concurrently and the same test
/// runs on several emulated machines.
inline std::string temporary_path(const std::string& name) {
  return testing::TempDir() + "isthmus-" + std::to_string(getpid()) + "-" + name;
}

}  // namespace isthmus
