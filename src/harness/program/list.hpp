#pragma once

// The commands that measure nothing.

#include <string>

namespace isthmus::harness {

/// The workloads that match, as text of at most 80 columns or as JSON. Throws InputError where none does.
std::string list_text(const std::string& pattern);
std::string list_json(const std::string& pattern);

/// Devices, host and build; `problem` is why nothing can be measured here, or empty.
struct Info {
  std::string text, json, problem;
};
Info info();

}  // namespace isthmus::harness
