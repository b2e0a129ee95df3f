#pragma once

// What cases with the same inputs share: inputs that are made once, and results that must be the same.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "harness/plan/input_files.hpp"
#include "harness/plan/workloads.hpp"

namespace isthmus::harness {

/// Names the inputs of a case: its workload and version, the seed, every axis that does not merely say how, and the
/// file that it reads. What is generated is the same, written to a file or not.
std::string inputs_name(const CaseSpec& spec, std::uint64_t seed, const std::optional<InputFileFacts>& file = {});

/// Lets go of what was made for other inputs.
void keep_only_inputs_of(const std::string& inputs);

/// Whether it is there already, and so among the memory that is taken.
bool holds_shared_input(const std::string& inputs, const std::string& name);

/// What was made under this name for these inputs, else what `make` gives. Only the latest inputs are kept: cases with
/// the same ones follow each other.
std::shared_ptr<const void> shared_input(const std::string& inputs, const std::string& name,
                                         const std::function<std::shared_ptr<const void>()>& make);

/// A result as some case left it.
struct KnownResult {
  std::uint64_t checksum = 0;
  std::string of;  ///< the case
};
/// What the first case with these inputs left in the buffer; keeps `own` where this is the first.
KnownResult known_result(const std::string& inputs, const std::string& buffer, const KnownResult& own);

}  // namespace isthmus::harness
