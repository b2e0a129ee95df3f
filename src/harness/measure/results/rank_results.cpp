#include "harness/measure/results/rank_results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace isthmus::harness {

namespace {

using nlohmann::json;

json outcome_json(const CaseResult& result) {
  json outcome = {{"device_lost", result.device_lost},
                  {"interrupted", result.interrupted},
                  {"ended_by_other", result.ended_by_other_rank},
                  {"warnings", json::array()}};
  if (result.error) outcome["error"] = *result.error;
  if (result.skipped)
    outcome["skipped"] = {{"why", *result.skipped}, {"kind", result.skip_kind}, {"over_budget", result.over_budget}};
  if (const auto& insufficient_memory = result.insufficient_memory; insufficient_memory && result.skipped)
    outcome["skipped"]["insufficient_memory"] = {insufficient_memory->memory, insufficient_memory->needed,
                                                 insufficient_memory->free, insufficient_memory->usable};
  if (result.verification.verdict == Verdict::fail) {
    const auto& v = result.verification;
    outcome["wrong"] = {{"method", v.method}, {"detail", v.detail}, {"checked", v.checked}};
    if (v.error) outcome["wrong"]["error"] = *v.error;  // JSON turns values that are not finite into null
    if (v.tolerance) outcome["wrong"]["tolerance"] = *v.tolerance;
  }
  for (const auto& warning : result.warnings)
    outcome["warnings"].push_back({{"code", warning.code}, {"message", warning.message}, {"samples", warning.samples}});
  return outcome;
}

std::string of_rank(std::size_t rank, const std::string& sentence) {
  return fmt::format("rank {}: {}", rank, sentence);
}

std::optional<double> number(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

void take_wrong_result(Verification& verification, const json& wrong, std::size_t rank) {
  verification.verdict = Verdict::fail;
  verification.method = wrong.at("method");
  verification.detail = of_rank(rank, wrong.at("detail"));
  verification.error = number(wrong, "error");
  verification.tolerance = number(wrong, "tolerance");
  verification.checked = wrong.at("checked");
}

/// Merges the warnings of all ranks. A warning that all ranks share appears once, without a rank's number.
void take_warnings(CaseResult& result, const std::vector<json>& all) {
  std::vector<Warning> warnings;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    for (const auto& warning : all[rank].at("warnings")) {
      const bool common = std::all_of(all.begin(), all.end(), [&](const json& other) {
        const auto& list = other.at("warnings");
        return std::find(list.begin(), list.end(), warning) != list.end();
      });
      if (common && rank > 0) continue;
      const std::string message = warning.at("message");
      warnings.push_back({warning.at("code"), common ? message : of_rank(rank, message),
                          warning.at("samples").get<std::vector<std::size_t>>()});
    }
  }
  result.warnings = std::move(warnings);
}

}  // namespace

void share_outcome(CaseResult& result, Ranks& ranks) {
  std::vector<json> all;
  for (const auto& text : ranks.gather(outcome_json(result).dump(-1, ' ', false, json::error_handler_t::replace)))
    all.push_back(json::parse(text));

  // If several ranks have an error, a wrong result or a skip, that of the lowest rank is reported. An error takes
  // precedence over a skip.
  result.error.reset();
  result.skipped.reset();
  bool wrong = false;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto& outcome = all[rank];
    if (outcome.contains("error") && !result.error) result.error = of_rank(rank, outcome["error"]);
    if (outcome.contains("wrong") && !wrong) {
      take_wrong_result(result.verification, outcome["wrong"], rank);
      wrong = true;
    }
    result.device_lost |= outcome.at("device_lost").get<bool>();
    result.interrupted |= outcome.at("interrupted").get<bool>();
    result.ended_by_other_rank |= outcome.at("ended_by_other").get<bool>();
  }
  for (std::size_t rank = 0; rank < all.size() && !result.error && !result.skipped; ++rank) {
    if (!all[rank].contains("skipped")) continue;
    const auto& skipped = all[rank]["skipped"];
    const bool common = std::all_of(all.begin(), all.end(), [&](const json& other) {
      return other.contains("skipped") && other["skipped"] == skipped;
    });
    const std::string why = skipped.at("why");
    result.skipped = common ? why : of_rank(rank, why);
    result.skip_kind = skipped.at("kind").get<SkipKind>();
    result.over_budget = skipped.at("over_budget").get<bool>();
    if (skipped.contains("insufficient_memory")) {
      const auto& insufficient_memory = skipped["insufficient_memory"];
      result.insufficient_memory =
          InsufficientMemory{insufficient_memory[0].get<InsufficientMemory::Memory>(), insufficient_memory[1],
                             insufficient_memory[2], insufficient_memory[3]};
    }
  }
  if (result.ended_by_other_rank && !result.error && !result.skipped && !wrong)
    result.error = "a rank ended before the others: the ranks did not make the same exchanges in the same order";
  if ((result.error || result.skipped) && !wrong) result.verification = {};
  take_warnings(result, all);
}

}  // namespace isthmus::harness
