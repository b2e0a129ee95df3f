#pragma once

// What a test tells the false libcudnn.so.9, and what that has seen. Both are built from these lines.

#include <cstddef>
#include <string>
#include <vector>

namespace isthmus::device {

/// As cuDNN gives it.
struct FakeTrial {
  int algorithm, status;
  float milliseconds;
  std::size_t workspace_bytes;
  int same_bits, math;
  int reserved[3];
};

struct FakeCudnn {
  std::size_t version = 91900;
  std::string fails{};  ///< the function that returns `status`
  int status = 0;
  std::vector<FakeTrial> trials{{0, 0, 1, 0, 1, 3, {}}};
  int made = 0, destroyed = 0;  ///< handles and descriptors
  int searches = 0;
  int math_of_search = -1, math_of_run = -1, algorithm_of_run = -1;
  std::size_t workspace_of_run = 0;
  void* stream = nullptr;
};

}  // namespace isthmus::device
