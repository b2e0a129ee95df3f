#include "harness/program/run_cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "device/api/unreached_injections.hpp"
#include "harness/measure/inputs/inputs.hpp"
#include "harness/output.hpp"
#include "harness/plan/estimate.hpp"
#include "harness/plan/names.hpp"
#include "harness/program/progress.hpp"
#include "harness/program/table.hpp"
#include "harness/program/unused_settings.hpp"
#include "harness/ranks/interrupt.hpp"
#include "harness/record/schema_check.hpp"
#include "workload/clock.hpp"

namespace isthmus::harness {

using nlohmann::json;

namespace {

/// Writes one record. If it violates the schema, it goes to FILE.invalid, so that readers of FILE never see it, and the
/// function returns false.
bool keep(RecordFile& file, const json& record, const std::string& label) {
  const auto violations = record_schema_check().violations(record);
  const std::string line = record.dump(-1, ' ', false, json::error_handler_t::replace);
  if (violations.empty()) {
    file.append(line);
    return true;
  }
  RecordFile(file.path() + ".invalid").append(line);
  say(fmt::format(
      "{}: its record violates the schema ({}), which is a bug in this program; it was written to {}.invalid", label,
      violations.front(), file.path()));
  return false;
}

/// Reports a case that did not pass.
void tell(const CaseResult& result, bool quiet) {
  const std::string label = result.spec.label();
  if (result.error) {
    const bool interrupted = result.error->starts_with(kInterruptedBefore);
    say(fmt::format("{}: {}{}", label, interrupted ? "" : "failed: ", *result.error));
  } else if (result.verification.verdict == Verdict::fail) {
    say(fmt::format("{}: wrong result: {}", label, result.verification.detail));
  } else if (result.skipped && !quiet) {
    say(fmt::format("{}: skipped: {}", label, *result.skipped));
  }
}

/// Reports changes that other programs made to the record file.
void tell_notices(RecordFile& file) {
  for (const auto& notice : file.take_notices()) say(notice);
}

/// Checks at the end of a run that everything that it wrote still exists. Throws RecordLost.
void settle(RecordFile& file, const std::vector<std::filesystem::path>& tables) {
  file.settle();
  tell_notices(file);
  std::error_code ignored;
  const auto lost =
      std::ranges::count_if(tables, [&](const auto& path) { return !std::filesystem::exists(path, ignored); });
  if (lost > 0)
    throw RecordLost(fmt::format(
        "{} of {} tables named by records in {} were removed during the run, such as {}; run their cases again", lost,
        tables.size(), file.path(), tables.front().parent_path().string()));
}

enum class Next : char { run = 'r', leave_out = 'l', end = 'e' };

/// Returns what all ranks do with the next case: the decision of rank 0, or to end if any rank was told to end.
Next agree(Ranks& ranks, Next own) {
  const auto all = ranks.gather(std::string(1, static_cast<char>(own)));
  const bool end = std::any_of(all.begin(), all.end(), [](const auto& each) { return each.at(0) == 'e'; });
  return end ? Next::end : static_cast<Next>(all.front().at(0));
}

/// Writes the tables. If one cannot be written, that becomes the error of the result, so that the other results are
/// kept.
std::vector<TableFile> write_tables(CaseResult& result, const RecordFile& file, const std::string& stem) {
  std::vector<TableFile> written;
  for (const auto& table : result.tables) {
    try {
      written.push_back(write_table(table, file.path(), stem));
    } catch (const RecordError& error) {
      say(error.what());
      result.error = error.what();
    }
  }
  return written;
}

/// Writes the case's tables and its record, and counts the case. Returns false if it failed or was interrupted.
bool write_case(CaseResult& result, const RunIdentity& identity, RecordFile& file, const std::string& stem,
                std::vector<std::filesystem::path>& table_paths, Tally& tally) {
  const auto tables = write_tables(result, file, stem);
  for (const auto& table : tables) table_paths.push_back(std::filesystem::path(file.path()).parent_path() / table.file);
  auto record = record_json(identity, result, tables);
  const bool valid = keep(file, record, result.spec.label());
  tell_notices(file);
  tally.count(valid ? outcome_of(record) : "FAILED");
  if (valid) tally.records.push_back(std::move(record));
  return valid && !result.failed() && !result.interrupted;
}

/// Starts the event file of a case, and passes the watchdog the texts that it prints if it ends this run.
void begin_watched(Watchdog& watchdog, EventFile* events, const RecordFile& file, const std::string& stem,
                   const CaseSpec& spec) {
  const auto path = fmt::format("{}.{}.uvm", file.path(), stem);
  if (events != nullptr) events->begin(path, spec.label());
  watchdog.doing(spec.label());
  watchdog.kept(fmt::format("records of earlier cases are in {}{}", file.path(),
                            events != nullptr ? " and the driver's events of this case so far in " + path : ""));
}

/// Registers the recorded checksums of results that must be the same in all placements.
void remember_results(const std::string& path) {
  for_each_valid_record(path, "\"checksums\"", [&](const json& record) {
    const auto& verify = record.at("verify");
    if (verify.at("status") != "pass" || !verify.contains("checksums") || !verify.at("inputs").is_string()) return;
    const std::string of = fmt::format("the record of {} in {}", record.at("run").at("time").get<std::string>(), path);
    for (const auto& [buffer, sum] : verify.at("checksums").items())
      known_result(verify.at("inputs"), buffer, {std::stoull(sum.get<std::string>(), nullptr, 16), of});
  });
}

/// Reports settings without effect if the run ended normally; if it ended early, later cases might have used them.
void tell_unused(const UnusedSettings& settings, const Tally& tally, bool quiet) {
  if (tally.passed == 0 || tally.failed > 0 || tally.resumed > 0 || tally.ended_early) return;
  if (const auto missed = device::unreached_injections(); !missed.empty())
    say(fmt::format(
        "ISTHMUS_INJECT requests {}, but this process made fewer such calls, so nothing failed; request an earlier one",
        join(missed, ",")));
  if (quiet) return;
  for (const auto& sentence : settings.sentences()) say(sentence);
}

/// Cases that --resume omits, because the file already has their records.
class DoneBefore {
 public:
  /// Reads the earlier records from the file `path`; if it is empty, no case is omitted.
  DoneBefore(const RunIdentity& identity, const std::string& path)
      : identity_(identity), words_(sampling_words(identity.command)) {
    if (!path.empty()) settled_ = settled_cases(path);
  }

  bool has(const CaseSpec& spec, const RunContext& context) {
    if (settled_.empty()) return false;  // otherwise an input file would be hashed in vain
    const auto device = device_of(*spec.workload, context.device);
    const auto found = settled_.find(case_identity(identity_, spec, device, context.sampling.chunks));
    if (found == settled_.end()) return false;
    if (found->second.options != words_ && otherwise_++ == 0) their_words_ = found->second.options;
    const auto here = origin_here(device);
    if (found->second.origin != here && elsewhere_++ == 0) differences_ = differences(found->second.origin, here);
    return true;
  }

  /// Reports earlier records that were measured with other options, or elsewhere.
  void tell() const {
    const auto text = [](const auto& words) { return words.empty() ? "none of these options" : join(words, " "); };
    tell(otherwise_, fmt::format("with other options ({}, now {})", text(their_words_), text(words_)), "again");
    tell(elsewhere_, fmt::format("elsewhere or with other software ({})", differences_), "here");
  }

 private:
  static void tell(int number, const std::string& how, const char* where) {
    if (number == 0) return;
    const bool one = number == 1;
    say(fmt::format("{} of the cases in the record {} measured {}, and {}; name another file to measure {} {}", number,
                    one ? "was" : "were", how, one ? "it is kept" : "they are kept", one ? "it" : "them", where));
  }

  const RunIdentity& identity_;
  std::vector<std::string> words_, their_words_;
  std::map<std::string, SettledCase> settled_;
  std::string differences_;  ///< differences of the first case that was measured elsewhere
  int otherwise_ = 0, elsewhere_ = 0;

  /// Returns "node a, here b; driver none, here 580": the facts in which two origins differ.
  static std::string differences(const std::map<std::string, std::string>& theirs,
                                 const std::map<std::string, std::string>& here) {
    std::vector<std::string> texts;
    const auto of = [](const auto& origin, const std::string& word) {
      const auto found = origin.find(word);
      return found == origin.end() ? std::string("unknown") : found->second;
    };
    auto all = theirs;
    all.insert(here.begin(), here.end());
    for (const auto& [word, value] : all) {
      if (of(theirs, word) != of(here, word))
        texts.push_back(fmt::format("{} {}, here {}", word, of(theirs, word), of(here, word)));
    }
    return join(texts, "; ");
  }
};

}  // namespace

void Tally::count(std::string_view outcome) {
  const bool is_failure = outcome == "FAILED" || outcome == "WRONG";
  ++(is_failure ? failed : outcome == "skipped" ? skipped : outcome == "interrupted" ? interrupted : passed);
}

std::string Tally::text() const {
  return fmt::format("{} passed, {} skipped, {} failed", passed, skipped, failed) +
         (interrupted > 0 ? fmt::format(", {} interrupted", interrupted) : "") +
         (resumed > 0 ? fmt::format(", {} done before", resumed) : "");
}

Tally run_cases(const std::vector<CaseSpec>& cases, const std::vector<Setting>& settings, const RunContext& context,
                const RunIdentity& identity, RecordFile* file, const SessionOptions& options, double process_begin,
                EventFile* events) {
  DoneBefore before(identity, options.resume && file != nullptr ? file->path() : "");
  if (file != nullptr) remember_results(file->path());
  Tally tally;
  std::vector<std::optional<double>> estimates;
  for (const auto& spec : cases) estimates.push_back(estimate_seconds(spec, options.sampling));
  std::vector<std::filesystem::path> table_paths;
  Progress progress(!options.quiet && file != nullptr, std::move(estimates));
  UnusedSettings unused(options.given, settings);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& spec = cases[i];
    Next next = interrupted() ? Next::end : before.has(spec, context) ? Next::leave_out : Next::run;
    if (context.ranks != nullptr) next = agree(*context.ranks, next);
    if (next == Next::end) {
      tally.ended_early = true;
      break;
    }
    if (next == Next::leave_out) {
      ++tally.resumed;
      continue;
    }
    progress.begin(i, spec.label());
    const auto stem = fmt::format("{}-{}-{}", identity.id, identity.process, i);
    if (context.watchdog != nullptr && file != nullptr) begin_watched(*context.watchdog, events, *file, stem, spec);
    const double begin = now();
    auto result = run_case(spec, context);
    if (!result.skipped) progress.measured(now() - begin);
    if (file == nullptr) {
      if (result.device_lost || result.interrupted) break;
      continue;
    }
    result.process_wall = now() - process_begin;
    progress.clear();
    unused.ran(result);
    tell(result, options.quiet);
    const bool well = write_case(result, identity, *file, stem, table_paths, tally);
    if (events != nullptr) {
      if (const auto problem = events->problem(); !problem.empty()) say(problem);
      events->end(!well);
    }
    if (result.device_lost || result.interrupted) {
      tally.ended_early = true;
      say(result.device_lost ? "the device is lost, so the run ends here; results so far are in " + file->path()
                             : "interrupted; results so far are in " + file->path());
      break;
    }
  }
  if (file != nullptr) settle(*file, table_paths);
  before.tell();
  if (file != nullptr && identity.process == 1) tell_unused(unused, tally, options.quiet);
  return tally;
}

}  // namespace isthmus::harness
