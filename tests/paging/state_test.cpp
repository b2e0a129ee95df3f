// Tests of the state word by itself: its fields do not affect each other, and each transition results in the state that
// the protocol defines.

#include "paging/state.hpp"

#include <gtest/gtest.h>

namespace isthmus::paging {
namespace {

constexpr State kPlain = in_frame(0xfffffffe) + kValid;

static_assert(kReferences == 0xfffff && (kReferences & (kValid | kBusy | kDirty | kUsed | kGhost)) == 0);
static_assert((in_frame(0xffffffff) & (kReferences | kValid | kBusy | kDirty | kUsed | kGhost)) == 0);
static_assert(frame(kPlain + 3 * kReference) == 0xfffffffe && references(kPlain + 3 * kReference) == 3);

TEST(State, AsManyReferencesAsThereAreTouchNothingElse) {
  const State full = kPlain + kMostReferences * kReference;
  EXPECT_EQ(references(full), kMostReferences);
  EXPECT_TRUE(valid(full));
  EXPECT_FALSE(busy(full));
  EXPECT_EQ(frame(full), 0xfffffffe);
  EXPECT_EQ(full - kMostReferences * kReference, kPlain);
}

TEST(State, OneAddMakesAFetchedPageValidWithItsNumberWhateverWaits) {
  for (const State waiting : {1, 2, 77, 0xfffff}) {
    for (const bool ghosted : {false, true}) {
      const State absent = waiting + (ghosted ? kGhost : 0);
      ASSERT_TRUE(may_fetch(absent));
      const State underway = fetching(absent);
      EXPECT_FALSE(may_fetch(underway));
      EXPECT_FALSE(may_go_on(underway, Access::read));
      for (const std::uint32_t number : {0u, 1u, 0xfffffffeu}) {
        const State there = underway + fetched(number, ghosted);
        EXPECT_EQ(references(there), waiting);
        EXPECT_EQ(frame(there), number);
        EXPECT_TRUE(valid(there));
        EXPECT_FALSE(busy(there));
        EXPECT_FALSE(ghost(there));
        EXPECT_FALSE(dirty(there));
        EXPECT_FALSE(used(there));
      }
    }
  }
}

TEST(State, APageLeavesOnlyItsOwnFrameWhenNobodyIsInIt) {
  EXPECT_TRUE(may_leave(kPlain, 0xfffffffe));
  EXPECT_TRUE(may_leave(kPlain | kUsed | kDirty, 0xfffffffe));
  EXPECT_FALSE(may_leave(kPlain, 0xfffffffd)) << "it is in another frame by now";
  EXPECT_FALSE(may_leave(kPlain + kReference, 0xfffffffe));
  EXPECT_FALSE(may_leave(kPlain | kBusy, 0xfffffffe));
  EXPECT_FALSE(may_leave(in_frame(0), 0)) << "it is not there";
  EXPECT_EQ(references(left(kPlain)), 0u);
  EXPECT_TRUE(may_fetch(left(kPlain)));
  EXPECT_TRUE(ghost(left(kPlain)));
}

TEST(State, APageThatIsWrittenBackIsReadButNotWritten) {
  EXPECT_FALSE(may_clean(kPlain, 0xfffffffe)) << "the host has the same";
  ASSERT_TRUE(may_clean(kPlain | kDirty, 0xfffffffe));
  EXPECT_FALSE(may_clean((kPlain | kDirty) + kReference, 0xfffffffe)) << "it may be written to";
  const State cleaned = cleaning(kPlain | kDirty);
  EXPECT_FALSE(dirty(cleaned));
  EXPECT_TRUE(may_go_on(cleaned + kReference, Access::read));
  EXPECT_FALSE(may_go_on(cleaned + kReference, Access::write));
  EXPECT_FALSE(may_leave(cleaned, 0xfffffffe));
  EXPECT_FALSE(may_fetch(cleaned));
  EXPECT_TRUE(may_go_on(cleaned & ~kBusy, Access::write));
}

}  // namespace
}  // namespace isthmus::paging
