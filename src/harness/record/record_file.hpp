#pragma once

// A JSON Lines file that grows by whole records.

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::harness {

/// The record could not be kept; what() is one sentence.
struct RecordError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A record of what was measured could not be kept, or not as a whole.
struct RecordLost : RecordError {
  using RecordError::RecordError;
};

/// A file that records are appended to, and that still holds each of them at the end, whatever others do to it
/// meanwhile: a file that was removed, replaced or cut is mended from the open descriptor and from what was appended.
class RecordFile {
 public:
  /// Opens for appending, creating the file. Throws RecordError where that cannot be.
  explicit RecordFile(std::string path);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  /// Appends one line and flushes it to the device. Others that append at the same time wait. Throws RecordLost; the
  /// file then holds what it held before, and no half of the line.
  void append(std::string_view line);

  /// Checks that every line that append() wrote is in a file that has a name, and mends the file at path() where one is
  /// not. Throws RecordLost with the number of lines that cannot be kept.
  void settle();

  /// Sentences on what others did to the file, and how it was mended; each is returned once.
  std::vector<std::string> take_notices();

  /// Takes away the half of a record that a killed run or a full disk left at the end, as append() does, too. Returns
  /// its bytes. What another program left there stays, and the next line starts after it.
  std::size_t take_back_half_a_record();

  const std::string& path() const noexcept { return path_; }

 private:
  struct Line {
    std::string text;  ///< with its end
    std::size_t at;    ///< byte of the file where it begins
  };
  /// An open file and the lines that append() wrote to it.
  struct Part {
    int descriptor = -1;
    std::vector<Line> lines;
  };

  void open_file();
  bool is_at_path() const;
  bool holds(const Line& line) const;
  void mend();
  void replace_removed_file();
  void write_missing(const std::vector<Line>& lines);
  void write(std::string text);
  std::size_t line_count() const;

  std::string path_;
  Part current_;
  bool is_readable_ = false;  ///< else nothing is known of what others do to it
  std::vector<Part> moved_;   ///< files that got another name while they were written
  std::vector<std::string> notices_;
};

/// $ISTHMUS_RESULTS, else ./results, and a file name of time, host and process. Creates the folder; throws RecordError.
std::string default_record_path();

/// Throws RecordError where a record could not be written to `path`, or would be lost behind what is no record there;
/// makes nothing and takes nothing away.
void check_record_path(const std::string& path);

/// Throws RecordError where `path` is the file or pipe that standard error, or where the program `prints` also standard
/// output, goes to: text and records would overwrite each other.
void check_is_apart(const std::string& path, bool prints);

/// Calls `use` for each line of a regular file that holds `text` and is a JSON object; other lines are passed over.
void for_each_record(const std::string& path, std::string_view text,
                     const std::function<void(nlohmann::json record)>& use);

/// Calls `use` for each of these that is a valid record.
void for_each_valid_record(const std::string& path, std::string_view text,
                           const std::function<void(const nlohmann::json& record)>& use);

/// How, where and with what a case was measured.
struct SettledCase {
  std::vector<std::string> options;  ///< sampling_words()
  std::map<std::string, std::string> origin;
};

/// Identities of the cases that the file holds valid and settled records of; lines that are none are passed over.
std::map<std::string, SettledCase> settled_cases(const std::string& path);

/// The first line that is no JSON that a reader takes, from 1; 0 where there is none, or no regular file.
std::size_t broken_line(const std::string& path);

}  // namespace isthmus::harness
