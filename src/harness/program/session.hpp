#pragma once

// `isthmus-bench run`: from the command line to records on disk and an exit code.

#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "harness/plan/request.hpp"
#include "harness/plan/sampling.hpp"
#include "harness/program/oversubscribe.hpp"
#include "harness/program/table.hpp"

namespace isthmus::harness {

namespace exit_code {
inline constexpr int passed = 0;
inline constexpr int failed = 1;       ///< a case failed, or nothing could be measured
inline constexpr int bad_input = 2;    ///< error found before any work
inline constexpr int interrupted = 3;  ///< interrupted, or the device was lost; everything measured is on disk
}  // namespace exit_code

/// Returns the exit code of a failure outside any case.
int exit_code_of(const std::exception& failure) noexcept;

struct SessionOptions {
  RequestTexts texts;
  SamplingOptions sampling;
  std::uint64_t seed = 42;
  std::optional<int> processes;       ///< number of fresh processes; nullopt for the preset's number
  std::optional<std::string> device;  ///< index or UUID
  std::optional<int> numa_node;
  std::optional<std::string> record;
  std::vector<std::string> observers;  ///< names of requested observers
  std::vector<std::string> given;      ///< options on the command line, such as --seed, without values
  Oversubscription oversubscription;
  bool dry_run = false, resume = false, quiet = false;
  bool table = false;                ///< print a table of the results at the end
  std::vector<std::string> command;  ///< command line as typed
};

/// Runs a session and returns its exit code. Throws InputError and RecordError before any work, device::Error if the
/// device cannot be queried.
int run_session(const SessionOptions& options);

}  // namespace isthmus::harness
