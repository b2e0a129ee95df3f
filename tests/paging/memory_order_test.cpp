// Tests of the protocol's fences. Only ThreadSanitizer or a GPU can show that a fence is missing: ThreadSanitizer must
// report a race if one is missing, and no race if all are present.

#include <gtest/gtest.h>

#include "own_process.hpp"

#if defined(__SANITIZE_THREAD__)

namespace isthmus::paging {
namespace {

TEST(MemoryOrder, OfTheProtocolIsNeverReported) {
  for (unsigned seed = 1; seed <= 10; ++seed)
    ASSERT_EQ(exit_code_of<Sound>(machine_of(seed)), kClean) << "seed " << seed;
}

struct PublishesUnfenced : Sound {
  static constexpr bool publish_unfenced = true;
};
struct EntersUnfenced : Sound {
  static constexpr bool enter_unfenced = true;
};
struct LeavesUnfenced : Sound {
  static constexpr bool leave_unfenced = true;
};

template <class Bug>
class Unfenced : public testing::Test {};
using Bugs = testing::Types<PublishesUnfenced, EntersUnfenced, LeavesUnfenced>;
TYPED_TEST_SUITE(Unfenced, Bugs);

TYPED_TEST(Unfenced, IsReportedWithinTenRepeats) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    if (exit_code_of<TypeParam>(machine_of(seed)) == kReported) return;
  }
  FAIL() << "ten programs did not show it";
}

}  // namespace
}  // namespace isthmus::paging

#endif
