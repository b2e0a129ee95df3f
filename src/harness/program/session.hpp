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
inline constexpr int failed = 1;       ///< a case failed, or nothing could be measured at all
inline constexpr int bad_input = 2;    ///< before any work
inline constexpr int interrupted = 3;  ///< or the device was lost; what was measured is on disk
}  // namespace exit_code

/// Of a failure outside of any case.
int exit_code_of(const std::exception& failure) noexcept;

struct SessionOptions {
  RequestTexts texts;
  SamplingOptions sampling;
  std::uint64_t seed = 42;
  std::optional<int> processes;       ///< fresh ones; else as many as a preset says
  std::optional<std::string> device;  ///< index or UUID
  std::optional<int> numa_node;
  std::optional<std::string> record;
  std::vector<std::string> observers;  ///< by name
  std::vector<std::string> given;      ///< options, as --seed, whatever their values
  Oversubscription oversubscription;
  bool dry_run = false, resume = false, quiet = false;
  bool table = false;                ///< of what was measured, at the end
  std::vector<std::string> command;  ///< as typed
};

/// Throws InputError and RecordError before any work, device::Error where the device cannot be asked.
int run_session(const SessionOptions& options);

}  // namespace isthmus::harness
