// Tests of the order of the proxy's copies and answers. ThreadSanitizer must report no race if the answers follow the
// copies, and a race if they precede the copies (ISTHMUS_ANSWERS_EARLY, see CMakeLists.txt).

#include <gtest/gtest.h>

#include "own_process.hpp"

#if defined(__SANITIZE_THREAD__)

namespace isthmus::paging {
namespace {

Machine proxied(unsigned seed) {
  Machine machine = machine_of(seed);
  machine.options.transport = Transport::proxy;
  machine.options.queues = 1 + seed % 2;
  machine.options.depth = 1 + seed % 3;
  return machine;
}

#if defined(ISTHMUS_ANSWERS_EARLY)
TEST(ProxyOrder, OfEarlyAnswersIsReportedWithinTenRepeats) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    if (exit_code_of<Sound>(proxied(seed)) == kReported) return;
  }
  FAIL() << "ten programs did not show it";
}
#else
TEST(ProxyOrder, IsNeverReported) {
  for (unsigned seed = 1; seed <= 10; ++seed) ASSERT_EQ(exit_code_of<Sound>(proxied(seed)), kClean) << "seed " << seed;
}
#endif

}  // namespace
}  // namespace isthmus::paging

#endif
