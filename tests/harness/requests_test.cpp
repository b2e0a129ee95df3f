// Tests of random requests that a user may type: each results in a plan or in an error message. This file is compiled
// into the tests of the harness and, with other workloads, into those of the catalogue.

#include <gtest/gtest.h>

#include <random>

#include "harness/plan/axis_settings.hpp"
#include "harness/plan/estimate.hpp"
#include "harness/plan/input_files.hpp"
#include "harness/plan/modes.hpp"
#include "harness/plan/names.hpp"
#include "harness/plan/plan.hpp"
#include "harness/plan/registry.hpp"

namespace isthmus::harness {
namespace {

class Typist {
 public:
  explicit Typist(unsigned seed) : random_(seed), workloads_(all_workloads()) {}

  RequestTexts request() {
    RequestTexts texts;
    const Workload* workload = nullptr;
    for (std::size_t i = below(8) == 0 ? 2 : 1; i > 0; --i) {
      workload = any(workloads_);
      const auto& name = workload->name();
      texts.patterns.push_back(below(4) == 0 ? name.substr(0, name.rfind('/')) + "/*" : name);
    }
    const auto& description = workload->description();
    if (below(3) == 0) {
      texts.modes = names(mapped(all_modes(), [](const Mode& mode) { return std::string(mode.name); }));
    } else {
      const auto name_of = [](auto each) {
        using memory::name, workload::name;
        return std::string(name(each));
      };
      if (below(2) == 0) texts.placements = names(mapped(memory::all_placements(), name_of));
      if (below(2) == 0) texts.stagings = names(mapped(all_stagings(), name_of));
    }
    if (below(3) == 0) texts.sizes = names({kSizes.begin(), kSizes.end()});
    if (below(4) == 0 && !description.presets.empty()) texts.preset = any(description.presets).name;
    texts.size_sweep = below(6) == 0;
    for (std::size_t i = below(4); i > 0; --i) texts.settings.push_back(setting(*workload));
    if (below(20) == 0) invalidate(*any(std::vector{&texts.patterns, &texts.modes, &texts.sizes, &texts.settings}));
    return texts;
  }

 private:
  std::size_t below(std::size_t end) { return random_() % end; }
  template <class T>
  const T& any(const std::vector<T>& list) {
    return list[below(list.size())];
  }
  std::vector<std::string> names(const std::vector<std::string>& known) {
    std::vector<std::string> list{below(4) == 0 ? "all" : any(known)};
    if (below(2) == 0) list.push_back(any(known));
    return list;
  }
  std::string setting(const Workload& workload) {
    const auto axes = below(8) == 0 ? axes_of(*any(workloads_)) : axes_of(workload);
    if (axes.empty()) return "none=1";
    const auto& axis = *any(axes);
    std::string text = axis.name + "=";
    for (std::size_t i = below(3); i > 0; --i) text += value(axis) + ",";
    return text + value(axis);
  }
  std::string value(const Axis& axis) {
    static const std::vector<std::string> odd{"all", "0", "-1", "1.5", "4KiB", "x", "", "99999999999999999999", "1EiB"};
    if (below(8) == 0) return any(odd);
    return axis.choices.empty() ? std::to_string(axis.minimum + static_cast<std::int64_t>(below(5000)))
                                : to_text(any(axis.choices));
  }
  void invalidate(std::vector<std::string>& texts) {
    if (texts.empty()) texts.emplace_back();
    auto& text = texts.back();
    text.insert(below(text.size() + 1), 1, static_cast<char>(1 + below(255)));
  }

  std::mt19937 random_;
  std::vector<const Workload*> workloads_;
};

/// Returns the problem with a case, or "" if the case can run.
std::string problem(const CaseSpec& spec) {
  static_cast<void>(reads_file(spec) || writes_input(spec) || estimate_seconds(spec, {}));
  if (spec.label().empty()) return "no label";
  for (const auto* axis : axes_of(*spec.workload)) {
    const auto* value = spec.find(axis->name);
    if (value == nullptr && spec.workload->description().find_axis(axis->name) != nullptr) return "lacks " + axis->name;
    if (value != nullptr && !takes(*axis, *value)) return axis->name + " is " + to_text(*value);
  }
  return "";
}

TEST(Requests, WhatIsNotRefusedIsPlanned) {
  constexpr int kRequests = 1500;
  constexpr double kMany = 40;
  Typist typist(4711);
  int refused = 0, planned = 0;
  for (int i = 0; i < kRequests; ++i) {
    const auto texts = typist.request();
    SCOPED_TRACE(join(texts.patterns, " ") + " --mode " + join(texts.modes, ",") + " --placement " +
                 join(texts.placements, ",") + " --staging " + join(texts.stagings, ",") + " --size " +
                 join(texts.sizes, ",") + " --preset " + texts.preset.value_or("") + " --set " +
                 join(texts.settings, " --set ") + (texts.size_sweep ? " --size-sweep" : ""));
    Request request;
    try {
      request = parse_request(texts);
    } catch (const InputError& error) {
      ++refused;
      EXPECT_GT(std::string(error.what()).size(), 20u);
      continue;
    }
    for (const auto& notice : request.notices) EXPECT_GT(notice.size(), 20u);
    ASSERT_FALSE(request.workloads.empty());
    for (const auto& each : request.workloads) {
      if (most_cases(each) > kMany) continue;
      ++planned;
      Request alone;
      alone.workloads = {each};
      const auto cases = plan(alone);
      EXPECT_FALSE(cases.empty()) << each.workload->name();
      for (const auto& spec : cases) ASSERT_EQ(problem(spec), "") << spec.label();
    }
  }
  EXPECT_GT(refused, kRequests / 5);
  EXPECT_GT(planned, kRequests / 5);
}

}  // namespace
}  // namespace isthmus::harness
