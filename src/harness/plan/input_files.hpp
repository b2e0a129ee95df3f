#pragma once

// Input files of cases.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "harness/plan/workloads.hpp"
#include "workload/input_file.hpp"

namespace isthmus::harness {

/// Facts about an input file, for the record of its case.
struct InputFileFacts {
  std::string name;
  std::size_t bytes = 0;
  std::string sha256;

  std::string axis_value() const { return sha256.substr(0, 12); }
};

/// Returns the facts of `file`. `stop` is passed to InputFile::sha256().
InputFileFacts facts_of(const InputFile& file, const std::function<bool()>& stop = {});

/// Returns whether the case reads a file.
bool reads_file(const CaseSpec& spec);
/// Opens the file that the case reads. Throws Skip if no file is named, and whatever InputFile throws.
InputFile open_input_file(const CaseSpec& spec);
/// Returns the facts of the file that the case reads; nullopt if the case reads none, if the file cannot be read, or if
/// `stop` ended the reading.
std::optional<InputFileFacts> input_file_facts(const CaseSpec& spec, const std::function<bool()>& stop);

}  // namespace isthmus::harness
