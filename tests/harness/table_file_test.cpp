#include "harness/record/table_file.hpp"
#include "../temporary_path.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string>

#include "harness/record/record_file.hpp"

namespace isthmus::harness {
namespace {

namespace fs = std::filesystem;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

std::string unpacked(const fs::path& path) {
  std::string text;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return text;
  char block[4096];
  int count = 0;
  while ((count = gzread(file, block, sizeof block)) > 0) text.append(block, static_cast<std::size_t>(count));
  EXPECT_EQ(gzclose(file), Z_OK);
  return text;
}

class TableFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = temporary_path(testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
    record_ = folder_ / "r.jsonl";
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_ / "r.tables"), {}));
  }

  std::string refused(const Table& table) const {
    try {
      write_table(table, record_, "x");
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }

  fs::path folder_, record_;
  const Table table_{"batches", {"time", "bytes"}, {{0.5, 0.1, -1e-300}, {4096, kUnknown, 9007199254740993.0}}};
};

TEST_F(TableFiles, AreReadBackByGunzip) {
  const auto written = write_table(table_, record_, "0-batches");
  EXPECT_EQ(written.name, "batches");
  EXPECT_EQ(written.columns, table_.columns);
  EXPECT_EQ(written.rows, 3u);
  EXPECT_TRUE(written.file.starts_with("r.tables/0-batches-")) << written.file;
  EXPECT_TRUE(written.file.ends_with(".csv.gz")) << written.file;
  EXPECT_EQ(unpacked(folder_ / written.file), "time,bytes\n0.5,4096\n0.1,\n-1e-300,9007199254740992\n");
}

TEST_F(TableFiles, HashIsOfTheFile) {
  const auto written = write_table(table_, record_, "batches");
  // Hash that sha256sum prints for the file.
  FILE* sum = popen(("sha256sum " + (folder_ / written.file).string()).c_str(), "r");
  ASSERT_NE(sum, nullptr);
  char digits[65] = {};
  EXPECT_EQ(fread(digits, 1, 64, sum), 64u);
  pclose(sum);
  EXPECT_EQ(written.sha256, digits);
  EXPECT_NE(written.file.find(written.sha256.substr(0, 12)), std::string::npos);
}

TEST_F(TableFiles, TakeNoOthersPlace) {
  auto other = table_;
  other.values[0][0] = 0.25;
  const auto first = write_table(table_, record_, "x"), second = write_table(other, record_, "x");
  EXPECT_NE(first.file, second.file);
  EXPECT_EQ(write_table(table_, record_, "x").sha256, first.sha256) << "the same table is the same file";
  EXPECT_EQ(files(), 2u) << "and nothing else lies there";
}

TEST_F(TableFiles, NamesAreQuotedAndUnknownIsEmpty) {
  const auto one = write_table({"one", {"a, \"b\"\nc"}, {{kUnknown, 1, INFINITY}}}, record_, "micro/x ä");
  EXPECT_EQ(unpacked(folder_ / one.file), "\"a, \"\"b\"\"\nc\"\n\"\"\n1\n\"\"\n");
  EXPECT_EQ(one.file.find_first_of(" \\\xc3", 0), std::string::npos) << one.file;
  const auto none = write_table({"none", {"a", ""}, {{}, {}}}, record_, "");
  EXPECT_EQ(none.rows, 0u);
  EXPECT_EQ(unpacked(folder_ / none.file), "a,\"\"\n");
}

TEST_F(TableFiles, OfAnyLengthAreWhole) {
  std::vector<double> values(50'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i));
  const auto text = unpacked(folder_ / write_table({"long", {"v"}, {values}}, record_, "long").file);
  std::size_t begin = text.find('\n') + 1, rows = 0;
  for (; begin < text.size(); begin = text.find('\n', begin) + 1, ++rows)
    ASSERT_EQ(std::stod(text.substr(begin, 40)), values[rows]);
  EXPECT_EQ(rows, values.size());
}

TEST_F(TableFiles, LieBesideARecordOfAnyName) {
  const auto written = write_table(table_, folder_ / "records.of.today", "x");
  EXPECT_TRUE(written.file.starts_with("records.of.today.tables/")) << written.file;
  EXPECT_TRUE(fs::exists(folder_ / written.file));
}

TEST_F(TableFiles, WhatIsNoTableIsRefused) {
  EXPECT_EQ(refused({"x", {}, {}}), "the table 'x' has no columns");
  EXPECT_EQ(refused({"", {"a"}, {{1}}}), "the table '' has no name");
  EXPECT_EQ(refused({"x", {"a"}, {{1}, {2}}}), "the table 'x' needs one name per column");
  EXPECT_EQ(refused({"x", {"a", "a"}, {{1}, {2}}}), "the table 'x' has two columns with the same name");
  EXPECT_EQ(refused({"x", {"a", "b"}, {{1}, {}}}), "the table 'x' has columns of different lengths");
  EXPECT_THROW(write_table({"x", {}, {}}, record_, "x"), std::invalid_argument);
}

TEST_F(TableFiles, AFolderThatCannotBeIsASentence) {
  std::ofstream(folder_ / "r.tables") << "in the way";
  EXPECT_THROW(write_table(table_, record_, "x"), RecordError);
  EXPECT_NE(refused(table_).find("r.tables for tables cannot be created (Not a directory)"), std::string::npos)
      << refused(table_);
}

TEST_F(TableFiles, AFolderThatMayNotBeWrittenIsASentence) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  fs::create_directories(folder_ / "r.tables");
  fs::permissions(folder_ / "r.tables", fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THROW(write_table(table_, record_, "x"), RecordError);
  EXPECT_NE(refused(table_).find("could not be written (Permission denied)"), std::string::npos) << refused(table_);
}

TEST_F(TableFiles, ADiskThatFillsLeavesNothing) {
  // Limits every file of this process to 64 bytes, as a quota would.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto said = refused(table_);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_NE(said.find("could not be written (File too large)"), std::string::npos) << said;
  EXPECT_EQ(files(), 0u);
}

}  // namespace
}  // namespace isthmus::harness
