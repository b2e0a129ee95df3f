// Runs a program compiled from a source with a planted bug: its checks must find the bug on one of the machines on
// which the correct programs are tested.

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "../emulated_machine.hpp"
#include "../microbench/catalogue.hpp"
#include "../temporary_path.hpp"
#include "rings.hpp"

namespace isthmus::microbench {
namespace {

class Mutant : public device::EmulatorTest {
 protected:
  /// Returns whether the result was wrong or an address was outside the emulated device's memory.
  static bool is_caught(const char* machine, const std::string& placement, const std::string& staging,
                        const std::vector<std::string>& settings) {
    configure(machine);
    const auto results = run_cases(getenv("WORKLOAD"), {staging}, {placement}, settings);
    EXPECT_EQ(results.size(), 1u);
    const auto& result = results.at(0);
    RecordProperty("complaint", complaint(result));
    EXPECT_FALSE(result.skipped) << complaint(result);
    return result.verification.verdict == harness::Verdict::fail || result.error;
  }
};

TEST_F(Mutant, IsCaught) {
  std::istringstream words(getenv("SETTINGS"));
  std::vector<std::string> settings;
  std::string placement = "pinned", staging = "none";
  for (std::string word; words >> word;) {
    if (word.starts_with("placement=")) {
      placement = word.substr(word.find('=') + 1);
    } else if (word.starts_with("staging=")) {
      staging = word.substr(word.find('=') + 1);
    } else {
      settings.push_back(word);
    }
  }
  const std::string file = temporary_path("rings.wsg");
  if (settings.front() == "graph=file") {
    apps::write_rings(file, true);
    setenv("ISTHMUS_GRAPH", file.c_str(), 1);
  }
  if (settings.front() == "data=file") {
    std::ofstream numbers(file);
    for (int i = 0; i < 30; ++i) numbers << i << '\n';
    setenv("ISTHMUS_HOTSPOT", file.c_str(), 1);
  }
  if (std::find(settings.begin(), settings.end(), "network=file") != settings.end()) {
    // A 1x1 window that moves by 2 skips three of four numbers. A shortcut uses the same tensor as the next layer.
    std::ofstream text(file);
    text << "[net]\nwidth=8\nheight=8\nchannels=2\n[convolutional]\nfilters=5\nsize=3\npad=1\n"
            "[convolutional]\nfilters=6\nsize=1\nstride=2\n"
            "[convolutional]\nfilters=7\nsize=3\nstride=2\npad=1\n[shortcut]\nfrom=1\n";
    setenv("ISTHMUS_NETWORK", file.c_str(), 1);
  }
  // Streams start their work at once with `grace=0`, but only when the program waits for them with `grace=30`.
  const auto machines = {"warp=32", "warp=64,order=reverse", "grace=0", "grace=30"};
  EXPECT_TRUE(std::any_of(machines.begin(), machines.end(),
                          [&](const char* machine) { return is_caught(machine, placement, staging, settings); }));
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace isthmus::microbench
