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
#include "harness/program/unused_settings.hpp"
#include "harness/ranks/interrupt.hpp"
#include "harness/record/schema_check.hpp"
#include "workload/clock.hpp"

namespace isthmus::harness {

using nlohmann::json;

namespace {

/// Writes one record; one that breaks the schema goes to FILE.invalid, since a reader of FILE must never meet it.
bool keep(RecordFile& file, const json& record, const std::string& label) {
  const auto violations = record_schema_check().violations(record);
  const std::string line = record.dump(-1, ' ', false, json::error_handler_t::replace);
  if (violations.empty()) {
    file.append(line);
    return true;
  }
  RecordFile(file.path() + ".invalid").append(line);
  say(fmt::format("{}: its record violates the schema ({}), which is a bug in this program; it was put into {}.invalid",
                  label, violations.front(), file.path()));
  return false;
}

/// Says what happened to a case that did not pass.
void tell(const CaseResult& result, bool quiet) {
  const std::string label = result.spec.label();
  if (result.error) {
    say(fmt::format("{}: failed: {}", label, *result.error));
  } else if (result.verification.verdict == Verdict::fail) {
    say(fmt::format("{}: wrong result: {}", label, result.verification.detail));
  } else if (result.skipped && !quiet) {
    say(fmt::format("{}: skipped: {}", label, *result.skipped));
  }
}

/// Says what others did to the record file.
void tell_notices(RecordFile& file) {
  for (const auto& notice : file.take_notices()) say(notice);
}

/// All that the run wrote is still there at its end. Throws RecordLost.
void settle(RecordFile& file, const std::vector<std::filesystem::path>& tables) {
  file.settle();
  tell_notices(file);
  std::error_code ignored;
  const auto lost =
      std::ranges::count_if(tables, [&](const auto& path) { return !std::filesystem::exists(path, ignored); });
  if (lost > 0)
    throw RecordLost(
        fmt::format("{} of {} tables that records in {} name were removed while the run went on, as {}; run "
                    "their cases again",
                    lost, tables.size(), file.path(), tables.front().parent_path().string()));
}

enum class Next : char { run = 'r', leave_out = 'l', end = 'e' };

/// What all ranks do with the next case: what rank 0 says, unless any was asked to end.
Next agree(Ranks& ranks, Next own) {
  const auto all = ranks.gather(std::string(1, static_cast<char>(own)));
  const bool end = std::any_of(all.begin(), all.end(), [](const auto& each) { return each.at(0) == 'e'; });
  return end ? Next::end : static_cast<Next>(all.front().at(0));
}

/// The record says which table cannot be written: what was measured is kept.
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

/// Writes the case's tables and its record, and counts it. False where it did not end as it should.
bool write_case(CaseResult& result, const RunIdentity& identity, RecordFile& file, const std::string& stem,
                std::vector<std::filesystem::path>& table_paths, Tally& tally) {
  const auto tables = write_tables(result, file, stem);
  for (const auto& table : tables) table_paths.push_back(std::filesystem::path(file.path()).parent_path() / table.file);
  auto record = record_json(identity, result, tables);
  const bool valid = keep(file, record, result.spec.label()), failed = !valid || result.failed();
  tell_notices(file);
  ++(failed ? tally.failed : result.interrupted ? tally.interrupted : result.skipped ? tally.skipped : tally.passed);
  if (valid) tally.records.push_back(std::move(record));
  return !failed && !result.interrupted;
}

/// Gives the watchdog what it says where it ends this run.
void begin_watched(Watchdog& watchdog, EventFile* events, const RecordFile& file, const std::string& stem,
                   const CaseSpec& spec) {
  const auto path = fmt::format("{}.{}.uvm", file.path(), stem);
  if (events != nullptr) events->begin(path, spec.label());
  watchdog.doing(spec.label());
  watchdog.kept(fmt::format("the records of the cases before are in {}{}", file.path(),
                            events != nullptr ? " and the driver's events of this one so far in " + path : ""));
}

/// What the records in the file left where all placements must leave the same.
void remember_results(const std::string& path) {
  for_each_valid_record(path, "\"checksums\"", [&](const json& record) {
    const auto& verify = record.at("verify");
    if (verify.at("status") != "pass" || !verify.contains("checksums") || !verify.at("inputs").is_string()) return;
    const std::string of = fmt::format("the record of {} in {}", record.at("run").at("time").get<std::string>(), path);
    for (const auto& [buffer, sum] : verify.at("checksums").items())
      known_result(verify.at("inputs"), buffer, {std::stoull(sum.get<std::string>(), nullptr, 16), of});
  });
}

/// Says which settings were given in vain, once a run has ended as it should: one that ends early may have had need of
/// them later.
void tell_unused(const UnusedSettings& settings, const Tally& tally, bool quiet) {
  if (tally.passed == 0 || tally.failed > 0 || tally.resumed > 0 || tally.ended_early) return;
  if (const auto missed = device::unreached_injections(); !missed.empty())
    say(
        fmt::format("ISTHMUS_INJECT asks for {}, and this process made fewer such calls, so nothing failed by it; ask "
                    "for an earlier one",
                    join(missed, ",")));
  if (quiet) return;
  for (const auto& sentence : settings.sentences()) say(sentence);
}

/// Cases that --resume leaves out.
class DoneBefore {
 public:
  /// `path`: the records of before; empty where nothing is left out.
  DoneBefore(const RunIdentity& identity, const std::string& path)
      : identity_(identity), words_(sampling_words(identity.command)) {
    if (!path.empty()) settled_ = settled_cases(path);
  }

  bool has(const CaseSpec& spec, const RunContext& context) {
    if (settled_.empty()) return false;  // else a file that the case reads would be hashed for nothing
    const auto device = device_of(*spec.workload, context.device);
    const auto found = settled_.find(case_identity(identity_, spec, device, context.sampling.chunks));
    if (found == settled_.end()) return false;
    if (found->second.options != words_ && otherwise_++ == 0) their_words_ = found->second.options;
    const auto here = origin_here(device);
    if (found->second.origin != here && elsewhere_++ == 0) differences_ = differences(found->second.origin, here);
    return true;
  }

  /// Says whose records stand for cases that are measured otherwise now, or elsewhere.
  void tell() const {
    const auto text = [](const auto& words) { return words.empty() ? "none of these options" : join(words, " "); };
    tell(otherwise_, fmt::format("otherwise than asked now ({}, now {})", text(their_words_), text(words_)), "anew");
    tell(elsewhere_, fmt::format("elsewhere, or with other software ({})", differences_), "here");
  }

 private:
  static void tell(int number, const std::string& how, const char* where) {
    if (number == 0) return;
    const bool one = number == 1;
    say(fmt::format("{} of the cases done before {} measured {}; {}, so name another file to measure {} {}", number,
                    one ? "was" : "were", how, one ? "it stays as it is" : "they stay as they are", one ? "it" : "them",
                    where));
  }

  const RunIdentity& identity_;
  std::vector<std::string> words_, their_words_;
  std::map<std::string, SettledCase> settled_;
  std::string differences_;  ///< of the first that was measured elsewhere
  int otherwise_ = 0, elsewhere_ = 0;

  /// "node a, here b; driver none, here 580": what two origins do not have in common.
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
      say(result.device_lost ? "the device is lost, so the run ends here; what was measured is in " + file->path()
                             : "interrupted; what was measured is in " + file->path());
      break;
    }
  }
  if (file != nullptr) settle(*file, table_paths);
  before.tell();
  if (file != nullptr && identity.process == 1) tell_unused(unused, tally, options.quiet);
  return tally;
}

}  // namespace isthmus::harness
