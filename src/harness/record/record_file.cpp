#include "harness/record/record_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "harness/record/host_facts.hpp"
#include "harness/record/read_json.hpp"
#include "harness/record/record.hpp"
#include "harness/record/schema_check.hpp"

namespace isthmus::harness {

namespace {

namespace fs = std::filesystem;

std::string reason(int error) {
  return std::strerror(error);
}

RecordError unwritable(const std::string& path, int error) {
  return RecordError(
      fmt::format("the record {} cannot be written ({}); choose another with --record", path, reason(error)));
}

/// Scope with an exclusive lock on a file, so that other writers that append to it wait. On a file system without locks
/// there is no lock.
class Alone {
 public:
  explicit Alone(int descriptor) : descriptor_(descriptor) {
    int result = -1;
    do {
      result = flock(descriptor_, LOCK_EX);
    } while (result != 0 && errno == EINTR);
    locked_ = result == 0;
  }
  ~Alone() {
    if (locked_) flock(descriptor_, LOCK_UN);
  }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;

  /// Returns whether the lock was obtained, so that no other process that uses it is writing.
  bool locked() const noexcept { return locked_; }

 private:
  int descriptor_;
  bool locked_ = false;
};

/// Returns the size in bytes of a regular file; nullopt for a pipe or a device.
std::optional<std::size_t> size_of(int descriptor) {
  struct stat status{};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return static_cast<std::size_t>(status.st_size);
}

constexpr std::string_view record_begin = R"({"axes":)";  // every record begins with this, because its keys are sorted

/// Returns the text after the last line end; empty if it cannot be read or is too long for a record.
std::string unfinished_line(int descriptor, std::size_t size) {
  constexpr std::size_t piece = std::size_t{1} << 16;
  std::string tail;
  for (std::size_t end = size; end > 0 && tail.size() < kLongestLine;) {
    std::string part(std::min(piece, end), '\0');
    end -= part.size();
    if (pread(descriptor, part.data(), part.size(), static_cast<off_t>(end)) != static_cast<ssize_t>(part.size()))
      return {};
    const auto line_end = part.rfind('\n');
    tail.insert(0, line_end == std::string::npos ? part : part.substr(line_end + 1));
    if (line_end != std::string::npos || end == 0) return tail;
  }
  return {};
}

bool is_half_a_record(std::string_view line) {
  return !line.empty() && (line.starts_with(record_begin) || record_begin.starts_with(line)) && !read_json(line);
}

/// Truncates the file to `size` bytes and returns whether that succeeded.
bool cut_to(int descriptor, std::size_t size) {
  return ftruncate(descriptor, static_cast<off_t>(size)) == 0;
}

/// Removes an incomplete record at the end of a file of `size` bytes, and returns its size in bytes.
std::size_t discard_half(int descriptor, std::size_t size) {
  const auto tail = unfinished_line(descriptor, size);
  return is_half_a_record(tail) && cut_to(descriptor, size - tail.size()) ? tail.size() : 0;
}

bool ends_a_line(int descriptor, std::size_t size) {
  char last = '\n';
  return size == 0 || pread(descriptor, &last, 1, static_cast<off_t>(size - 1)) != 1 || last == '\n';
}

/// Returns whether the file begins with something other than a record. Readers accept or reject a file as a whole, so
/// they would also reject records added to it.
bool is_anothers(const std::string& path) {
  bool is_record = true;
  for_each_line(path, [&](const FileLine& line) {
    const bool is_cut = !line.too_long && !line.text.empty() && record_begin.starts_with(line.text);
    if (is_cut || line.text.starts_with(record_begin)) return false;
    const auto first = read_json(line.text);  // may still be a record, with its keys sorted by another tool
    is_record = first && first->is_object() && first->contains("axes") && first->contains("schema");
    return false;
  });
  return !is_record;
}

/// Writes all of the text. Returns 0, or the error that prevented it.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

/// Returns whether an open regular file still has a name in some folder.
bool has_a_name(int descriptor) {
  struct stat status{};
  return fstat(descriptor, &status) == 0 && status.st_nlink > 0;
}

std::string name_of(int descriptor) {
  std::error_code failure;
  const auto name = fs::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), failure);
  return failure ? "a file of another name" : name.string();
}

void make_folder_of(const std::string& path) {
  std::error_code failure;
  const auto folder = fs::path(path).parent_path();
  if (!folder.empty()) fs::create_directories(folder, failure);
  if (failure) throw unwritable(path, failure.value());
}

/// Returns all bytes of an open regular file; nullopt if they cannot be read, or are too many to keep in memory.
std::optional<std::string> content(int descriptor) {
  constexpr std::size_t most = std::size_t{1} << 30;
  const auto size = size_of(descriptor);
  if (!size || *size > most) return std::nullopt;
  std::string text(*size, '\0');
  for (std::size_t done = 0; done < text.size();) {
    const auto got = pread(descriptor, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (got <= 0) return std::nullopt;
    done += static_cast<std::size_t>(got);
  }
  return text;
}

}  // namespace

RecordFile::RecordFile(std::string path) : path_(std::move(path)) {
  open_file();
}

void RecordFile::open_file() {
  int descriptor = -1;
  if (std::error_code ignored; fs::is_fifo(path_, ignored)) {
    // If the pipe were opened for reading as well, this program would count as its reader, and a missing reader would
    // go unnoticed.
    descriptor = open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0 && errno == ENXIO)
      throw RecordError(
          fmt::format("the record {} cannot be written (nobody reads the pipe); start the reader first", path_));
    if (descriptor >= 0) fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
  } else {
    descriptor = open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    // A device may not permit reading.
    if (descriptor < 0 && errno != EISDIR)
      descriptor = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  }
  if (descriptor < 0) throw unwritable(path_, errno);
  current_ = {descriptor, {}};
  is_readable_ = (fcntl(descriptor, F_GETFL) & O_ACCMODE) == O_RDWR;
}

RecordFile::~RecordFile() {
  close(current_.descriptor);
  for (const auto& part : moved_) close(part.descriptor);
}

std::size_t RecordFile::discard_half_record() {
  const Alone alone(current_.descriptor);
  const auto size = size_of(current_.descriptor);
  return alone.locked() && size ? discard_half(current_.descriptor, *size) : 0;
}

void RecordFile::append(std::string_view line) {
  if (!current_.lines.empty() && (!is_at_path() || !holds(current_.lines.back()))) mend();
  write(std::string(line) + '\n');
}

void RecordFile::write(std::string text) {
  const int descriptor = current_.descriptor;
  const Alone alone(descriptor);
  auto size = size_of(descriptor);
  if (alone.locked() && size) *size -= discard_half(descriptor, *size);
  const bool begins_a_line = !size || ends_a_line(descriptor, *size);
  if (const int error = write_all(descriptor, begins_a_line ? text : "\n" + text); error != 0) {
    const bool untouched = size && (size_of(descriptor) == size || (alone.locked() && cut_to(descriptor, *size)));
    throw RecordLost(fmt::format(
        "the record {} could not be written ({}); {}; free some space and run again with "
        "--resume",
        path_, reason(error), untouched ? "its earlier contents are untouched" : "it may end with an incomplete line"));
  }
  // A pipe or a terminal cannot be flushed (EINVAL, EROFS), which is not a failure.
  if (fsync(descriptor) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP)
    throw RecordLost(fmt::format("the record {} could not be flushed to its device ({})", path_, reason(errno)));
  if (size && is_readable_) current_.lines.push_back({std::move(text), *size + (begins_a_line ? 0 : 1)});
}

// --- changes by others ---------------------------------------------------------------------------------

bool RecordFile::is_at_path() const {
  struct stat opened{}, named{};
  return fstat(current_.descriptor, &opened) == 0 && stat(path_.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

bool RecordFile::holds(const Line& line) const {
  std::string there(line.text.size(), '\0');
  return pread(current_.descriptor, there.data(), there.size(), static_cast<off_t>(line.at)) ==
             static_cast<ssize_t>(there.size()) &&
         there == line.text;
}

std::size_t RecordFile::line_count() const {
  std::size_t count = current_.lines.size();
  for (const auto& part : moved_) count += part.lines.size();
  return count;
}

void RecordFile::settle() {
  const auto whole = [this] {
    return is_at_path() && std::ranges::all_of(current_.lines, [this](const Line& line) { return holds(line); });
  };
  if (!current_.lines.empty() && !whole()) mend();
  for (auto& part : moved_) {
    if (part.lines.empty() || has_a_name(part.descriptor)) continue;
    write_missing(std::exchange(part.lines, {}));
    notices_.push_back(fmt::format(
        "the file to which the record {} was renamed was removed, so its records were written again", path_));
  }
}

std::vector<std::string> RecordFile::take_notices() {
  return std::exchange(notices_, {});
}

void RecordFile::mend() {
  const std::size_t count = line_count();
  try {
    if (is_at_path()) {
      write_missing(std::exchange(current_.lines, {}));
      notices_.push_back(fmt::format(
          "the record {} was truncated during the run; the records of this process were added again", path_));
    } else if (has_a_name(current_.descriptor)) {
      notices_.push_back(
          fmt::format("the record {} was moved during the run: {} of its records are in {}, and the later ones in {}",
                      path_, current_.lines.size(), name_of(current_.descriptor), path_));
      moved_.push_back(std::exchange(current_, {}));
      make_folder_of(path_);
      open_file();
    } else {
      replace_removed_file();
    }
  } catch (const RecordError& error) {
    throw RecordLost(fmt::format(
        "the record {} was removed or truncated during the run, and {} of its records could not be kept: {}", path_,
        count, error.what()));
  }
}

/// Writes the removed file again, from its open descriptor: a file without a name exists as long as it is open.
void RecordFile::replace_removed_file() {
  Part removed = std::exchange(current_, {});
  const auto close_removed = [&] { close(removed.descriptor); };
  try {
    make_folder_of(path_);
    open_file();
    const bool is_new = size_of(current_.descriptor) == std::size_t{0};
    const auto old = is_new ? content(removed.descriptor) : std::nullopt;
    if (old) {
      if (const int error = write_all(current_.descriptor, *old); error != 0) throw unwritable(path_, error);
      current_.lines = std::move(removed.lines);  // at the same offsets as before
      if (!std::ranges::all_of(current_.lines, [this](const Line& line) { return holds(line); }))
        write_missing(std::exchange(current_.lines, {}));
    } else {
      write_missing(removed.lines);
    }
  } catch (...) {
    close_removed();
    throw;
  }
  close_removed();
  notices_.push_back(fmt::format("the record {} was removed during the run; its records were written again", path_));
}

void RecordFile::write_missing(const std::vector<Line>& lines) {
  std::map<std::string_view, std::optional<std::size_t>> there;  // offset of each line that is still in the file
  for (const auto& line : lines) there[std::string_view(line.text).substr(0, line.text.size() - 1)] = std::nullopt;
  for_each_line(path_, [&](const FileLine& line) {
    if (const auto own = there.find(line.text); own != there.end()) own->second = line.at;
    return true;
  });
  for (const auto& line : lines) {
    const auto at = there[std::string_view(line.text).substr(0, line.text.size() - 1)];
    if (at)
      current_.lines.push_back({line.text, *at});
    else
      write(line.text);
  }
}

std::string default_record_path() {
  const char* folder_name = std::getenv("ISTHMUS_RESULTS");
  const fs::path folder = folder_name != nullptr && *folder_name != '\0' ? folder_name : "results";
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure)
    throw RecordError(fmt::format("the folder {} for records cannot be created ({}); set ISTHMUS_RESULTS or --record",
                                  folder.string(), failure.message()));
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char time[32];
  std::strftime(time, sizeof time, "%Y%m%dT%H%M%SZ", &parts);
  return (folder / fmt::format("{}-{}-{}.jsonl", time, node_name(), getpid())).string();
}

void check_record_path(const std::string& path) {
  auto suffix = fs::path(path).extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* packed : {".gz", ".bz2", ".xz", ".zst"}) {
    if (suffix == packed)
      throw RecordError(
          fmt::format("the record {} would be plain text under the name of a compressed file, which no reader accepts; "
                      "end its name with .jsonl and compress it later",
                      path));
  }
  if (path.empty()) throw RecordError("--record names no file; give it a name, or omit it");
  struct stat status{};
  if (stat(path.c_str(), &status) == 0) {
    if (S_ISFIFO(status.st_mode)) return;  // its reader would end when a writer that only checks closes the pipe
    const RecordFile probe(path);
    if (is_anothers(path))
      throw RecordError(
          fmt::format("the record {} begins with a line that is not a record, so readers would reject it; choose "
                      "another with --record",
                      path));
    return;
  }
  if (errno != ENOENT) throw unwritable(path, errno);
  // Another process may be creating the same file, so nothing is created here that would have to be removed again.
  if (!fs::path(path).has_filename()) throw unwritable(path, EISDIR);
  const auto folder = fs::path(path).parent_path();
  if (faccessat(AT_FDCWD, folder.empty() ? "." : folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    throw unwritable(path, errno);
}

void check_is_apart(const std::string& path, bool prints) {
  struct stat record{};
  // A terminal or /dev/null keeps no records that could be damaged.
  if (stat(path.c_str(), &record) != 0 || S_ISCHR(record.st_mode)) return;
  const auto is_stream = [&](int descriptor) {
    struct stat stream{};
    return fstat(descriptor, &stream) == 0 && stream.st_dev == record.st_dev && stream.st_ino == record.st_ino;
  };
  if (prints && is_stream(STDOUT_FILENO))
    throw RecordError(fmt::format(
        "the record {} is also standard output, so the text printed there would corrupt it; give it another "
        "name, or print nothing (--quiet without --table)",
        path));
  if (is_stream(STDERR_FILENO))
    throw RecordError(
        fmt::format("the record {} is also standard error, so messages would corrupt it; give it another name", path));
}

void for_each_record(const std::string& path, std::string_view text,
                     const std::function<void(nlohmann::json record)>& use) {
  for_each_line(path, [&](const FileLine& line) {
    if (line.text.find(text) == std::string_view::npos) return true;
    if (auto record = read_json(line.text); record && record->is_object()) use(std::move(*record));
    return true;
  });
}

void for_each_valid_record(const std::string& path, std::string_view text,
                           const std::function<void(const nlohmann::json& record)>& use) {
  for_each_record(path, text, [&](const nlohmann::json& record) {
    if (record_schema_check().violations(record).empty()) use(record);
  });
}

std::size_t broken_line(const std::string& path) {
  std::size_t number = 0, broken = 0;
  for_each_line(path, [&](const FileLine& line) {
    ++number;
    if (!read_json(line.text)) broken = number;
    return broken == 0;
  });
  return broken;
}

std::map<std::string, SettledCase> settled_cases(const std::string& path) {
  std::map<std::string, SettledCase> settled;
  for_each_valid_record(path, "", [&](const nlohmann::json& record) {
    if (is_settled(record))
      settled[case_identity(record)] = {sampling_words(record.at("run").at("command")), origin_of(record)};
  });
  return settled;
}

}  // namespace isthmus::harness
