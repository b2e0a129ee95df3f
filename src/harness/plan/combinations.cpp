#include "harness/plan/combinations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <ranges>

#include "harness/plan/modes.hpp"
#include "harness/plan/names.hpp"

namespace isthmus::harness {

namespace {

using memory::Placement;

bool asks_all(const std::vector<std::string>& names) {
  return contains(names, "all");
}

/// What of `every` the texts name, besides "all". Throws InputError for a name of none.
template <class Every, class Name>
auto named(const std::vector<std::string>& texts, std::string_view what, const Every& every, Name name_of) {
  std::vector<std::ranges::range_value_t<Every>> values;
  for (const auto& text : texts) {
    if (text == "all") continue;
    const auto found = std::ranges::find_if(every, [&](const auto& each) { return name_of(each) == text; });
    if (found == std::ranges::end(every)) {
      const auto known = mapped(every, [&](const auto& each) { return std::string(name_of(each)); });
      throw InputError(fmt::format("there is no {} '{}'; {}", what, text, suggestion(text, known)));
    }
    if (!contains(values, *found)) values.push_back(*found);
  }
  return values;
}

auto modes_named(const std::vector<std::string>& texts) {
  return named(texts, "mode", all_modes(), [](const Mode& mode) { return mode.name; });
}
auto placements_named(const std::vector<std::string>& texts) {
  return named(texts, "placement", memory::all_placements(), [](Placement each) { return memory::name(each); });
}
auto stagings_named(const std::vector<std::string>& texts) {
  return named(texts, "staging", all_stagings(), [](Staging each) { return name(each); });
}

/// What a workload runs with, of all that it offers: what was asked for, else `preferred` or its first.
template <class T>
std::vector<std::optional<T>> chosen(const std::vector<T>& offered, const std::vector<T>& asked, bool all,
                                     T preferred) {
  if (offered.empty()) return {std::nullopt};
  if (asked.empty() && !all) return {contains(offered, preferred) ? preferred : offered.front()};
  std::vector<std::optional<T>> list;
  if (all) list.assign(offered.begin(), offered.end());
  for (const T value : asked) {
    if (!contains(list, value)) list.emplace_back(value);
  }
  return list;
}

Combination checked(const Workload& workload, std::optional<Placement> placement, std::optional<Staging> staging) {
  const auto& description = workload.description();
  Combination combination{placement, staging, std::nullopt};
  if (placement && !contains(description.placements, *placement))
    combination.not_applicable = fmt::format("{} has no placement {}", workload.name(), memory::name(*placement));
  else if (staging && !contains(description.stagings, *staging))
    combination.not_applicable = fmt::format("{} has no staging {}", workload.name(), name(*staging));
  return combination;
}

}  // namespace

void check_names(const Request& request, const std::vector<const Workload*>& workloads) {
  modes_named(request.modes);
  placements_named(request.placements);
  stagings_named(request.stagings);
  std::vector<std::string> sizes(kSizes.begin(), kSizes.end());
  for (const auto* workload : workloads) {
    for (const auto& size : workload->description().sizes) {
      if (!contains(sizes, size.name)) sizes.push_back(size.name);
    }
  }
  named(request.sizes, "size", sizes, [](const std::string& name) -> std::string_view { return name; });
}

void check_offers(const Request& request, const std::vector<const Workload*>& workloads,
                  std::vector<std::string>* notices) {
  const auto check = [&](std::string_view option, const std::vector<std::string>& texts, auto has_any) {
    if (texts.empty() || asks_all(texts)) return;  // "all" is whatever there is
    std::vector<const Workload*> without;
    std::ranges::copy_if(workloads, std::back_inserter(without), [&](const auto* each) { return !has_any(*each); });
    const auto named =
        std::ranges::find_if(without, [&](const auto* each) { return contains(request.patterns, each->name()); });
    if (without.size() == workloads.size() || named != without.end())
      throw InputError(fmt::format("--{} has no effect on {}, which has none to choose from; leave it out", option,
                                   named != without.end() ? (*named)->name() : "any of the selected workloads"));
    if (!without.empty() && notices != nullptr)
      notices->push_back(
          fmt::format("--{} chooses where there is something to choose: {} of {} workloads have nothing "
                      "and run as they are",
                      option, without.size(), workloads.size()));
  };
  check("placement", request.placements, [](const Workload& each) { return !each.description().placements.empty(); });
  check("staging", request.stagings, [](const Workload& each) { return !each.description().stagings.empty(); });
  check("mode", request.modes, [](const Workload& each) {
    return !each.description().placements.empty() || !each.description().stagings.empty();
  });
}

std::vector<Combination> combinations(const Workload& workload, const Request& request,
                                      const std::vector<std::string>& modes) {
  const auto& description = workload.description();
  const bool placed = !description.placements.empty(), staged = !description.stagings.empty();
  if (!placed && !staged) return {{}};
  std::vector<Combination> list;
  if (!modes.empty()) {
    const bool all = asks_all(modes);
    const auto every = all_modes();
    for (const auto& mode : all ? std::vector(every.begin(), every.end()) : modes_named(modes)) {
      auto combination = checked(workload, placed ? memory::parse_placement(mode.placement) : std::nullopt,
                                 staged ? std::optional(mode.staging) : std::nullopt);
      if (!all || !combination.not_applicable) list.push_back(std::move(combination));
    }
    return list;
  }
  const auto placements = chosen(description.placements, placements_named(request.placements),
                                 asks_all(request.placements), memory::plain_placement());
  const auto stagings =
      chosen(description.stagings, stagings_named(request.stagings), asks_all(request.stagings), Staging::direct);
  for (const auto placement : placements) {
    for (const auto staging : stagings) list.push_back(checked(workload, placement, staging));
  }
  return list;
}

std::vector<SizeChoice> sizes_of(const Workload& workload, const std::vector<std::string>& asked) {
  const auto& description = workload.description();
  if (description.sizes.empty()) return {{}};
  if (asked.empty()) {
    const auto* small = description.find_size("small");
    const auto& size = small != nullptr ? *small : description.sizes.front();
    return {{size.name, &size, std::nullopt}};
  }
  std::vector<SizeChoice> list;
  if (asks_all(asked)) {
    for (const auto& size : description.sizes) list.push_back({size.name, &size, std::nullopt});
    return list;
  }
  for (const auto& name : asked) {
    list.push_back({name, description.find_size(name), std::nullopt});
    if (list.back().size == nullptr) list.back().not_applicable = workload.name() + " has no size " + name;
  }
  return list;
}

}  // namespace isthmus::harness
