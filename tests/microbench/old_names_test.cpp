// Names that kinds of memory had until records of version 3: each is refused, and the sentence says the new one.

#include "harness/plan/old_names.hpp"
#include "catalogue.hpp"
#include "harness/plan/description.hpp"
#include "harness/plan/registry.hpp"

namespace isthmus::microbench {
namespace {

std::string refusal(const std::string& pattern, std::vector<std::string> settings = {}) {
  try {
    harness::Request request;
    request.patterns = {pattern};
    request.settings = std::move(settings);
    harness::plan(request);
    return {};
  } catch (const harness::InputError& error) {
    return error.what();
  }
}

TEST(OldNames, OfWorkloadsAreRefusedWithTheNewOne) {
  const std::pair<const char*, const char*> renamed[] = {
      {"alloc/malloc", "'alloc/pageable'"},
      {"alloc/wc-touched", "'alloc/write_combined-touched'"},
      {"latency/malloc-cpu/chase", "'latency/pageable-cpu/chase'"},
      {"accounting/wc/gpu0", "'accounting/write_combined/gpu0'"},
      {"transfer/wc-gpu0/ce", "'transfer/write_combined-gpu0/ce'"},
      {"transfer/gpu0-system/fault", "'transfer/gpu0-pageable/fault'"},
      {"transfer/system-gpu0/*", "'transfer/pageable-gpu0/*'"}};
  for (const auto& [old, current] : renamed) {
    const auto sentence = refusal(old);
    EXPECT_NE(sentence.find(std::string("it is called ") + current + " now"), std::string::npos) << old << sentence;
  }
}

TEST(OldNames, OfMemoryAreRefusedWithTheNewSetting) {
  EXPECT_EQ(refusal("stream/gpu0/triad", {"memory=device,wc"}),
            "'wc' is no value of axis memory of stream/gpu0/triad any longer; write --set memory=write_combined now");
  EXPECT_EQ(refusal("fault/gpu0/major", {"memory=malloc"}),
            "'malloc' is no value of axis memory of fault/gpu0/major any longer; write --set memory=pageable now");
  EXPECT_EQ(refusal("faults/random", {"memory=huge"}),
            "'huge' is no value of axis memory of faults/random any longer; write --set memory=pageable --set "
            "pages=huge now");
  for (const char* never : {"memory=huge", "memory=wcx"})
    EXPECT_NE(refusal("stream/gpu0/triad", {never}).find("choose one of"), std::string::npos) << never;
}

TEST(OldNames, AreNobodysNow) {
  for (const auto* workload : harness::all_workloads()) {
    EXPECT_EQ(harness::current_workload(workload->name()), workload->name());
    for (const auto& axis : workload->description().axes) {
      if (axis.name != "memory") continue;
      for (const auto& value : axis.choices)
        EXPECT_EQ(harness::current_memory(workload->name(), std::get<std::string>(value)).front().second, value)
            << workload->name();
    }
  }
}

}  // namespace
}  // namespace isthmus::microbench
