#pragma once

// The files that cases read.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "harness/plan/workloads.hpp"
#include "workload/input_file.hpp"

namespace isthmus::harness {

/// What a record says of a file.
struct InputFileFacts {
  std::string name;
  std::size_t bytes = 0;
  std::string sha256;

  std::string axis_value() const { return sha256.substr(0, 12); }
};

/// `stop`: as of InputFile::sha256().
InputFileFacts facts_of(const InputFile& file, const std::function<bool()>& stop = {});

/// Whether the case reads a file.
bool reads_file(const CaseSpec& spec);
/// The file that the case reads. Throws Skip where none is named, and what InputFile throws.
InputFile open_input_file(const CaseSpec& spec);
/// Facts of that file; nullopt where the case reads none, it cannot be read, or `stop` ended that.
std::optional<InputFileFacts> input_file_facts(const CaseSpec& spec, const std::function<bool()>& stop);

}  // namespace isthmus::harness
