#pragma once

// JSON Lines file that grows by whole records.

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::harness {

/// Failure to keep a record; what() is one sentence.
struct RecordError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Failure to keep, completely or in part, records of data that were already measured.
struct RecordLost : RecordError {
  using RecordError::RecordError;
};

/// File to which records are appended, and which contains all of them at the end of the run, whatever other programs do
/// to it: a file that was removed, replaced or truncated is restored from the open descriptor and from the appended
/// lines.
class RecordFile {
 public:
  /// Opens the file for appending and creates it if needed. Throws RecordError if that fails.
  explicit RecordFile(std::string path);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  /// Appends one line and flushes it to the device. Concurrent writers wait for each other. Throws RecordLost; the file
  /// then has its former contents and no part of the line.
  void append(std::string_view line);

  /// Checks that every line that append() wrote is in a file that still has a name, and adds missing lines to the file
  /// at path(). Throws RecordLost with the number of lines that cannot be kept.
  void settle();

  /// Returns sentences that describe what other programs did to the file and how it was restored. Each is returned
  /// once.
  std::vector<std::string> take_notices();

  /// Removes an incomplete record that a killed run or a full disk left at the end, and returns its size in bytes.
  /// append() does the same. Text of another program stays, and the next line starts after it.
  std::size_t discard_half_record();

  const std::string& path() const noexcept { return path_; }

 private:
  struct Line {
    std::string text;  ///< including the line end
    std::size_t at;    ///< byte offset of its beginning in the file
  };
  /// Open file and the lines that append() wrote to it.
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
  bool is_readable_ = false;  ///< if false, changes by other programs cannot be noticed
  std::vector<Part> moved_;   ///< files that were renamed while they were written
  std::vector<std::string> notices_;
};

/// Returns a path in $ISTHMUS_RESULTS, else in ./results, with a file name made from the time, the host and the process
/// ID. Creates the folder. Throws RecordError.
std::string default_record_path();

/// Throws RecordError if a record could not be written to `path`, or if the file there begins with something that is
/// not a record, so that readers would reject it. Neither creates nor removes files.
void check_record_path(const std::string& path);

/// Throws RecordError if `path` is the file or pipe of standard error or, if the program `prints`, of standard output,
/// because text and records would overwrite each other.
void check_is_apart(const std::string& path, bool prints);

/// Calls `use` for each line, of a regular file, that contains `text` and is a JSON object; other lines are ignored.
void for_each_record(const std::string& path, std::string_view text,
                     const std::function<void(nlohmann::json record)>& use);

/// Calls `use` for each line that contains `text` and is a valid record; other lines are ignored.
void for_each_valid_record(const std::string& path, std::string_view text,
                           const std::function<void(const nlohmann::json& record)>& use);

/// Options and origin with which a case was measured.
struct SettledCase {
  std::vector<std::string> options;  ///< result of sampling_words()
  std::map<std::string, std::string> origin;
};

/// Returns the cases for which the file has valid, settled records, keyed by identity; other lines are ignored.
std::map<std::string, SettledCase> settled_cases(const std::string& path);

/// Returns the number, counted from 1, of the first line that readers do not accept as JSON; 0 if there is no such line
/// or no regular file.
std::size_t broken_line(const std::string& path);

}  // namespace isthmus::harness
