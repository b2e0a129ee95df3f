#pragma once

// Inputs that are made once and shared by all cases that need the same ones, and results on which those cases must
// agree.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "harness/plan/input_files.hpp"
#include "harness/plan/workloads.hpp"

namespace isthmus::harness {

/// Returns a name for the inputs of a case. It contains the workload and its version, the seed, the file that the case
/// reads, and every axis except those that only determine how the work is done. Generated inputs have the same name
/// whether or not they are written to a file.
std::string inputs_name(const CaseSpec& spec, std::uint64_t seed, const std::optional<InputFileFacts>& file = {});

/// Frees all shared inputs except those made under the name `inputs`.
void keep_only_inputs_of(const std::string& inputs);

/// Returns whether the input exists already, so that its memory is already in use.
bool holds_shared_input(const std::string& inputs, const std::string& name);

/// Returns the object made under this name for these inputs; `make` creates it if it does not exist yet. Only the
/// latest inputs are kept, because cases with the same inputs follow each other.
std::shared_ptr<const void> shared_input(const std::string& inputs, const std::string& name,
                                         const std::function<std::shared_ptr<const void>()>& make);

/// Result of a case that was measured earlier.
struct KnownResult {
  std::uint64_t checksum = 0;
  std::string of;  ///< label of the earlier case
};
/// Returns the result that the first case with these inputs left in the buffer. If the current case is the first, its
/// result `own` is kept for later cases and returned.
KnownResult known_result(const std::string& inputs, const std::string& buffer, const KnownResult& own);

}  // namespace isthmus::harness
