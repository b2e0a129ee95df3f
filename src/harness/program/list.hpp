#pragma once

// Commands that measure nothing: `list` and `info`.

#include <string>

namespace isthmus::harness {

/// Returns the workloads that match, as text of at most 80 columns or as JSON. Throws InputError if none matches.
std::string list_text(const std::string& pattern);
std::string list_json(const std::string& pattern);

/// Devices, host and build. `problem` is the reason why nothing can be measured here; empty if there is none.
struct Info {
  std::string text, json, problem;
};
Info info();

}  // namespace isthmus::harness
