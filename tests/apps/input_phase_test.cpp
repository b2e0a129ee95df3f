// Tests of programs whose input is in a file that the harness writes or the user names.

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <span>

#include "../emulated_machine.hpp"
#include "../microbench/catalogue.hpp"
#include "../temporary_path.hpp"
#include "workload/scratch_file.hpp"
#include "workload/skip.hpp"
#include "workload/text_numbers.hpp"
#include "workload/values.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench {
namespace {

using workload::InputFile, workload::TextNumbers;

/// Text file that is removed with this object; `variable` is the environment variable that names it.
class TextFile {
 public:
  explicit TextFile(const std::string& text, const char* variable = nullptr)
      : path_(temporary_path(std::string(variable != nullptr ? variable : "") + "-input.txt")), variable_(variable) {
    write(text);
    if (variable_ != nullptr) setenv(variable_, path_.c_str(), 1);
  }
  ~TextFile() {
    std::filesystem::remove(path_);
    if (variable_ != nullptr) unsetenv(variable_);
  }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  TextNumbers numbers() const { return {InputFile(path_, 1 << 30), "name another"}; }

 private:
  std::string path_;
  const char* variable_;
};

double value(const harness::CaseResult& result, const char* metric) {
  const auto* found = result.find(metric);
  return found != nullptr && !found->samples.empty() ? found->samples.back() : std::numeric_limits<double>::quiet_NaN();
}

class ProgramsWithFiles : public device::OnEmulatedMachine {
 protected:
  static harness::CaseResult run(const std::string& program, std::vector<std::string> settings,
                                 const std::string& data) {
    settings.push_back("data=" + data);
    return run_cases(program, {"none"}, {"pageable"}, settings).at(0);
  }
  /// Expects the same results whether the numbers are generated or read from a user's file that contains them.
  static void expect_same(const std::string& program, const std::vector<std::string>& settings) {
    const auto made = run(program, settings, "generated"), read = run(program, settings, "file");
    EXPECT_EQ(complaint(made), "");
    EXPECT_EQ(complaint(read), "");
    EXPECT_EQ(made.verification.checksums, read.verification.checksums);
    EXPECT_NE(made.verification.inputs, read.verification.inputs);
    EXPECT_GT(value(read, "file"), 0);
  }
  static void expect_error(const std::string& program, const std::vector<std::string>& settings,
                           const std::string& text, const TextFile& file, const std::string& message) {
    file.write(text);
    const auto error = run(program, settings, "file").error.value_or("no error");
    EXPECT_NE(error.find(message), std::string::npos) << error;
    EXPECT_NE(error.find("input.txt"), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
};

const std::vector<std::string> chip = {"rows=37", "cols=131", "steps=9"}, records = {"records=4001"};

const std::vector<std::string> everywhere = {"pageable", "pinned",  "pool",           "mapped",
                                             "managed",  "unified", "managed_demand", "managed_advise"};

struct Program {
  std::string name;
  std::vector<std::string> settings;
  double bytes;
};
const std::vector<Program> programs = {
    {"apps/hotspot", chip, 2.0 * 37 * 131 * 4},
    {"apps/nn", records, 4001 * 8.0},
    {"apps/srad_v1", {"rows=37", "cols=131", "steps=3"}, 37.0 * 131 * 4},
    {"apps/dwt2d", {"rows=37", "cols=131", "filter=9/7,5/3", "form=parts"}, 3.0 * 37 * 131 * 4},
    {"apps/backprop", {"inputs=999"}, 4.0 * (1000 + 16000 + 17)},
    {"apps/heartwall",
     {"rows=240", "cols=230", "inner=4", "outer=8", "frames=3", "form=single,static"},
     3.0 * 240 * 230 + 4 * 2 * 12},
};

// With `data=written`, numbers and results equal those of `data=generated` in every placement; the input phase is the
// only difference.
TEST_P(ProgramsWithFiles, WrittenIsGenerated) {
  for (auto [name, settings, bytes] : programs) {
    settings.emplace_back("data=generated,written");
    const auto results = run_cases(name, {"none"}, everywhere, settings);
    EXPECT_GE(results.size(), 2 * everywhere.size());
    // Checksums keyed by inputs. Inputs may differ between the two filters or forms of a program.
    std::map<std::string, std::map<std::string, std::uint64_t>> known;
    for (const auto& result : results) {
      SCOPED_TRACE(result.spec.label());
      if (result.skipped && result.spec.placement == memory::parse_placement("unified")) continue;
      EXPECT_EQ(complaint(result), "");
      const auto& left = result.verification;
      EXPECT_EQ(known.try_emplace(left.inputs, left.checksums).first->second, left.checksums);
      EXPECT_FALSE(result.input_file);
      const bool written = result.spec.choice("data") == "written";
      for (const char* metric : {"file", "file_rate", "file_resident", "total"})
        EXPECT_EQ(result.find(metric) != nullptr, written) << metric;
      if (!written) continue;
      EXPECT_EQ(result.find("file")->bytes_moved.value_or(0), bytes);
      EXPECT_DOUBLE_EQ(value(result, "file_rate"), bytes / value(result, "file"));
      EXPECT_DOUBLE_EQ(value(result, "total"), value(result, "file") + value(result, "wall"));
      EXPECT_GE(value(result, "file_resident"), 0);
      EXPECT_LE(value(result, "file_resident"), 1);
    }
  }
}

/// Returns the generated numbers of a chip as text, with enough digits to read them back exactly.
std::string chip_text(std::size_t cells, std::size_t numbers) {
  std::string text;
  const auto heat = workload::uniform(42, 0, 320, 340), power = workload::uniform(42, 1, 0, 1);
  for (std::size_t i = 0; i < numbers; ++i) text += fmt::format("{:.9g}\n", i < cells ? heat(i) : power(i - cells));
  return text;
}
std::string record_text(float latitude, float longitude) {
  return fmt::format("1977  6 14 18 13 TONY       {:5.1f}{:5.1f}   97  511", latitude, longitude);
}

TEST_P(ProgramsWithFiles, ChipOfTheUser) {
  const TextFile file(chip_text(37 * 131, 2 * 37 * 131), "ISTHMUS_HOTSPOT");
  expect_same("apps/hotspot", chip);
}

TEST_P(ProgramsWithFiles, ImageOfTheUser) {
  constexpr std::size_t kPixels = std::size_t{37} * 131;
  const auto byte = [](std::size_t i) { return static_cast<unsigned char>(workload::hash(42, 0, i) >> 56); };
  std::string bytes, text = "P2 # an image\n#\n# of two lines\n131 37\n255\n";
  for (std::size_t i = 0; i < kPixels; ++i) {
    for (std::size_t component = 0; component < 3; ++component)
      bytes += static_cast<char>(byte(component * kPixels + i));
    text += std::to_string(byte(i)) + (i % 20 == 19 ? "\n" : " ");
  }
  const TextFile raw(bytes, "ISTHMUS_DWT2D");
  expect_same("apps/dwt2d", {"rows=37", "cols=131", "filter=5/3"});
  EXPECT_EQ(complaint(run("apps/dwt2d", {"rows=37", "cols=131", "filter=9/7"}, "file")), "");
  expect_error("apps/dwt2d", {"rows=36", "cols=131"}, bytes, raw, "has 14541 bytes");

  const std::vector<std::string> image = {"rows=37", "cols=131", "steps=3"};
  const TextFile plain(text, "ISTHMUS_SRAD");
  expect_same("apps/srad_v1", image);
  expect_error("apps/srad_v1", image, "P5 131 37 255\n", plain, "line 1 of the file");
  expect_error("apps/srad_v1", image, "P2\n# 131\n37\n131 255\n", plain, "a different number of columns");
  expect_error("apps/srad_v1", image, "P2\n131\n38\n255\n", plain, "a different number of rows");
  expect_error("apps/srad_v1", image, "P2\n131 37 256\n", plain, "256 is not between 1 and 255");
  expect_error("apps/srad_v1", image, "P2\n131 37 7\n8", plain, "8 is not between 0 and 7");
  expect_error("apps/srad_v1", image, text.substr(0, text.size() - 6), plain, "a number is missing");
  expect_error("apps/srad_v1", image, "#", plain, "it is not a plain PGM");
}

TEST_P(ProgramsWithFiles, RecordsOfTheUser) {
  std::string text;
  for (int i = 0; i < 12; ++i) text += record_text(30 + static_cast<float>(i), i == 7 ? 90 : 99) + "\n";
  ASSERT_EQ(text.find('\n'), 48U);  // length of the lines that the original's generator writes
  const TextFile file(text, "ISTHMUS_NN");
  const auto result = run("apps/nn", {"records=12"}, "file");
  EXPECT_EQ(complaint(result), "");
  EXPECT_EQ(result.find("file")->bytes_moved.value_or(0), static_cast<double>(text.size()));
  EXPECT_EQ(result.input_file.value().bytes, text.size());
}

TEST_P(ProgramsWithFiles, WhatIsWrongWithAFileIsOneSentence) {
  const std::vector<std::string> few = {"rows=2", "cols=3", "steps=1"};
  const TextFile cells("", "ISTHMUS_HOTSPOT");
  expect_error("apps/hotspot", few, chip_text(6, 11), cells, "line 12 of the file");
  expect_error("apps/hotspot", few, chip_text(6, 13), cells, "there is more than requested");
  expect_error("apps/hotspot", few, "1\n2\n\n3 4x 5", cells, "'4x' is not a number");
  expect_error("apps/hotspot", few, "1\n2\n\n3 4x 5", cells, "line 4 of");
  expect_error("apps/hotspot", few, "1\nnan", cells, "nan is not between");
  expect_error("apps/hotspot", few, "1\n1e9", cells, "1e9 is not between");
  expect_error("apps/hotspot", few, std::string("1\n\0\xff", 4), cells,
               "'?"
               "?' is not a number");
  expect_error("apps/hotspot", few, "", cells, "a number is missing");

  const std::string right = record_text(3, 4) + "\n";
  std::string all;
  for (int i = 0; i < 10; ++i) all += right;
  const TextFile places("", "ISTHMUS_NN");
  const std::vector<std::string> ten = {"records=10"};
  expect_error("apps/nn", ten, all.substr(right.size()), places, "line 10 of the file");
  expect_error("apps/nn", ten, all + right, places, "there is more than requested");
  expect_error("apps/nn", ten, right + "short\n" + all, places, "line 2 of the file");
  expect_error("apps/nn", ten, right + std::string(40, 'x') + "\n" + all, places, "'xxxxx' is not a number");
  expect_error("apps/nn", ten, right + std::string(9000, 'x'), places, "too long");
}

TEST_P(ProgramsWithFiles, WithoutAFileThereIsNoCase) {
  for (const auto& [program, variable] : {std::pair{"apps/hotspot", "ISTHMUS_HOTSPOT"}, {"apps/nn", "ISTHMUS_NN"}}) {
    const auto skipped = run(program, {}, "file").skipped.value_or("not skipped");
    EXPECT_NE(skipped.find(std::string("set ") + variable), std::string::npos) << skipped;
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, ProgramsWithFiles, testing::Values("warp=32", "warp=64,order=reverse"));

// --- input phase -------------------------------------------------------------------------------------

/// Runs a program with a planted bug: it starts `off` elements too late in its file, or generates a different last
/// element each time.
void mistaken(workload::Case& c) {
  const auto n = c.extent("n"), off = static_cast<std::size_t>(c.integer("off"));
  const bool others = c.integer("others") != 0;
  const auto made = std::make_shared<std::atomic<std::uint32_t>>(0);
  auto in = c.inout<std::uint32_t>("in", n, [=](std::size_t i) {
    return static_cast<std::uint32_t>(7 * i + 1) + (others && i == n - 1 ? (*made)++ : 0);
  });
  if (c.choice("data") == "file") {
    const auto& file = c.input_file();
    c.reads_file<std::uint32_t>({in}, [file, off] {
      return [file, at = off * sizeof(std::uint32_t)](std::span<std::uint32_t> row) mutable {
        file.read(at, row.data(), row.size_bytes());
        at += row.size_bytes();
      };
    });
  }
  c.verify(in, [](std::size_t) { return 0; }, {});
  c.measure(workload::Control::queued, [=](workload::Run& run) { run.fill(in, 0); });
}
const workload::Registration mistaken_registration =
    workload::Workload("fixture/mistaken", mistaken)
        .summary("numbers of a file, read wrong")
        .placements(memory::all_placements())
        .axis(workload::number_axis("n", "numbers", 1000))
        .axis(workload::number_axis("off", "by which it is wrong", 0, 0))
        .axis(workload::number_axis("others", "whether the last one changes", 0, 0))
        .axis(workload::choice_axis("data", "where they are", {"generated", "written", "file"}))
        .file_phase("data")
        .with_file("data", "ISTHMUS_MISTAKEN", "a file of numbers", 1 << 20);

class InputPhase : public device::EmulatorTest {
 protected:
  static harness::CaseResult run(const std::vector<std::string>& settings) {
    return run_cases("fixture/mistaken", {}, {"managed"}, settings).at(0);
  }
};

// The harness fills such a buffer again before every pass after the first, so the results would not show the bug.
TEST_F(InputPhase, WhatIsReadIsComparedWithTheInput) {
  std::string bytes;
  for (std::uint32_t i = 0; i < 1001; ++i) {
    const std::uint32_t number = 7 * i + 1;
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  const TextFile file(bytes, "ISTHMUS_MISTAKEN");
  EXPECT_EQ(complaint(run({"data=file"})), "");
  EXPECT_EQ(complaint(run({"data=file", "off=1"})),
            "the bytes read are the input: the error is 1000, but at most 0 is allowed");
  EXPECT_EQ(complaint(run({"data=written"})), "");
  EXPECT_EQ(complaint(run({"data=written", "others=1"})),
            "the bytes read are the input: the error is 1, but at most 0 is allowed");
  file.write(bytes.substr(0, 3999));
  EXPECT_NE(complaint(run({"data=file"})).find("it was truncated meanwhile"), std::string::npos);
}

TEST_F(InputPhase, AFolderInMemoryIsSeen) {
  const char* folder = "/dev/shm";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "there is no " << folder;
  const char* before = getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  setenv("TMPDIR", folder, 1);
  const int there = workload::open_scratch_file();
  const auto result = run({"data=written", "n=123457"});
  before != nullptr ? setenv("TMPDIR", kept.c_str(), 1) : unsetenv("TMPDIR");
  const bool in_memory = workload::lies_in_memory(there);
  close(there);
  if (!in_memory) GTEST_SKIP() << folder << " is on a disk";
  EXPECT_EQ(complaint(result), "");
  EXPECT_EQ(value(result, "file_resident"), 1);
  EXPECT_TRUE(std::ranges::any_of(result.warnings, [](const auto& warning) { return warning.code == "file_cached"; }));
}

// --- texts -------------------------------------------------------------------------------------------

TEST(TextNumbers, AreReadOverTheEndsOfBlocks) {
  std::string text = " \r\n\t";
  constexpr int kCount = 300000;  // about 2 MB
  for (int i = 0; i < kCount; ++i) text += std::to_string(i) + (i % 7 == 0 ? "\n" : " ");
  const TextFile file(text);
  auto numbers = file.numbers();
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(numbers.number(0, kCount), static_cast<float>(i));
  numbers.end();
  auto lines = file.numbers();
  std::string joined;
  while (joined.size() < text.size()) joined += std::string(lines.line()) + "\n";
  EXPECT_TRUE(joined == text);  // EXPECT_EQ would compare differing texts line by line
  lines.end();
}

// A file may contain anything: the result is either numbers within bounds, or an error of one sentence that names the
// line.
TEST(TextNumbers, TakeAnything) {
  using namespace std::string_literals;
  const std::string letters = "0123456789+-.eE \n\t\rx#\"\0\xff"s;
  std::uint64_t refused = 0, taken = 0;
  for (std::uint64_t round = 0; round < 400; ++round) {
    std::string text;
    for (std::uint64_t i = 0; i < workload::hash(1, round, 0) % 50; ++i)
      text += std::to_string(workload::hash(2, round, i) % 9999) + "\n";
    for (std::uint64_t i = 0; i < round % 4 && !text.empty(); ++i)
      text[workload::hash(3, round, i) % text.size()] = letters[workload::hash(4, round, i) % letters.size()];
    const TextFile file(text);
    for (const bool by_lines : {false, true}) {
      auto numbers = file.numbers();
      try {
        for (int i = 0; i < 300; ++i) {
          const float found = by_lines ? numbers.number_of(numbers.line(), -1e4f, 1e4f) : numbers.number(-1e4f, 1e4f);
          EXPECT_TRUE(found >= -1e4f && found <= 1e4f);
          ++taken;
        }
        ADD_FAILURE() << "300 numbers where there are 50";
      } catch (const std::runtime_error& error) {
        const std::string said = error.what();
        EXPECT_TRUE(said.starts_with("line ")) << said;
        EXPECT_EQ(said.find('\n'), std::string::npos) << said;
        ++refused;
      }
    }
  }
  EXPECT_EQ(refused, 800);
  EXPECT_GT(taken, 1000);
}

// --- scratch files -----------------------------------------------------------------------------------

TEST(ScratchFile, NeedsRoomAndAFolder) {
  EXPECT_NO_THROW(workload::require_scratch_room(1));
  try {
    workload::require_scratch_room(std::numeric_limits<std::size_t>::max());
    FAIL() << "there is no such room";
  } catch (const workload::Skip& skip) {
    EXPECT_EQ(skip.kind, workload::SkipKind::memory);
    EXPECT_NE(std::string(skip.what()).find("set TMPDIR"), std::string::npos);
  }
  const char* before = getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  setenv("TMPDIR", "/dev/null", 1);
  EXPECT_THROW(workload::open_scratch_file(), workload::Skip);
  before != nullptr ? setenv("TMPDIR", kept.c_str(), 1) : unsetenv("TMPDIR");
}

}  // namespace
}  // namespace isthmus::microbench
