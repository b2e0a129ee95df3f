// Tests of the errors of device::Convolutions if its library is not in the loader's path, is too old, or is another
// file of the same name.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "device/api/libraries.hpp"

namespace isthmus::device {
namespace {

std::string refusal() {
  try {
    const Convolutions library(Convolutions::Math::fp32, Convolutions::Algorithms::any);
    return "none";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_EQ(error.call(), "convolutions_create");
    return error.what();
  }
}

void expect_mentions(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words) EXPECT_NE(text.find(word), std::string::npos) << text;
}

TEST(NoLibrary, IsMissing) {
  for (const char* folder : {"", "/usr/local/cuda/lib64/", "/opt/rocm/lib/"}) {
    if (dlopen((folder + std::string(ISTHMUS_LIBRARY_FILE)).c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr)
      GTEST_SKIP() << "this machine has " ISTHMUS_LIBRARY_NAME;
  }
  expect_mentions(refusal(), {ISTHMUS_LIBRARY_NAME " could not be loaded (tried " ISTHMUS_LIBRARY_FILE,
                              "install " ISTHMUS_LIBRARY_NAME " or set "});
}

TEST(NoLibrary, IsAnotherFile) {
  expect_mentions(refusal(), {ISTHMUS_LIBRARY_FILE " has no ", "install another version of " ISTHMUS_LIBRARY_NAME});
}

#ifdef ISTHMUS_OLD_LIBRARY_LACKS
TEST(NoLibrary, IsTooOld) {
  expect_mentions(refusal(),
                  {ISTHMUS_LIBRARY_FILE " has no " ISTHMUS_OLD_LIBRARY_LACKS, "install another version of "});
}
#endif

}  // namespace
}  // namespace isthmus::device
