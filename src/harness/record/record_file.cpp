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
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "harness/record/host_facts.hpp"
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

/// Others that append to the same file wait. A file system without locks goes without.
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

  /// Whether nobody else who asks for a lock writes now.
  bool locked() const noexcept { return locked_; }

 private:
  int descriptor_;
  bool locked_ = false;
};

/// Bytes of a regular file that can be read; nullopt for a pipe or a device.
std::optional<std::size_t> size_of(int descriptor) {
  struct stat status{};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return static_cast<std::size_t>(status.st_size);
}

constexpr std::string_view record_begin = R"({"axes":)";    // keys are sorted
constexpr std::size_t longest_tail = std::size_t{1} << 24;  // twice what a reader takes for a record

/// What stands after the last end of a line; empty where that cannot be read, or is too long for a record.
std::string unfinished_line(int descriptor, std::size_t size) {
  constexpr std::size_t piece = std::size_t{1} << 16;
  std::string tail;
  for (std::size_t end = size; end > 0 && tail.size() < longest_tail;) {
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
  return !line.empty() && (line.starts_with(record_begin) || record_begin.starts_with(line)) &&
         !nlohmann::json::accept(line);
}

/// Cuts the file to its first `size` bytes and returns whether that was done.
bool cut_to(int descriptor, std::size_t size) {
  return ftruncate(descriptor, static_cast<off_t>(size)) == 0;
}

/// Takes away half a record at the end of a file of `size` bytes, and returns its bytes.
std::size_t take_back(int descriptor, std::size_t size) {
  const auto tail = unfinished_line(descriptor, size);
  return is_half_a_record(tail) && cut_to(descriptor, size - tail.size()) ? tail.size() : 0;
}

bool ends_a_line(int descriptor, std::size_t size) {
  char last = '\n';
  return size == 0 || pread(descriptor, &last, 1, static_cast<off_t>(size - 1)) != 1 || last == '\n';
}

/// Whether what stands in a file is not a record's: readers take a file whole, so they would take nothing that is
/// added.
bool is_anothers(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  std::ifstream stream(path);
  std::string begin(record_begin.size(), '\0');
  stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(stream.gcount()));
  if (begin.empty() || record_begin.starts_with(begin)) return false;
  stream.clear();
  stream.seekg(0);
  std::getline(stream, begin);
  const auto first = nlohmann::json::parse(begin, nullptr, false);  // a record whose keys another tool has sorted anew
  return !first.is_object() || !first.contains("axes") || !first.contains("schema");
}

/// Returns the error that kept it from writing all, or 0.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

RecordFile::RecordFile(std::string path) : path_(std::move(path)) {
  descriptor_ = open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  // A pipe or a device may refuse to be read.
  if (descriptor_ < 0 && errno != EISDIR)
    descriptor_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw unwritable(path_, errno);
}

RecordFile::~RecordFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::size_t RecordFile::take_back_half_a_record() {
  const Alone alone(descriptor_);
  const auto size = size_of(descriptor_);
  return alone.locked() && size ? take_back(descriptor_, *size) : 0;
}

void RecordFile::append(std::string_view line) {
  const Alone alone(descriptor_);
  auto size = size_of(descriptor_);
  if (alone.locked() && size) *size -= take_back(descriptor_, *size);
  const bool begins_a_line = !size || ends_a_line(descriptor_, *size);
  if (const int error = write_all(descriptor_, fmt::format("{}{}\n", begins_a_line ? "" : "\n", line)); error != 0) {
    const bool untouched = size && (size_of(descriptor_) == size || (alone.locked() && cut_to(descriptor_, *size)));
    throw RecordLost(fmt::format(
        "the record {} could not be written ({}); {}; free some space and run again with "
        "--resume",
        path_, reason(error), untouched ? "what was in it before is untouched" : "it may end with half of a line"));
  }
  // A pipe or a terminal cannot be flushed (EINVAL, EROFS), which is no failure.
  if (fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP)
    throw RecordLost(fmt::format("the record {} could not be flushed to its device ({})", path_, reason(errno)));
}

std::string default_record_path() {
  const char* folder_name = std::getenv("ISTHMUS_RESULTS");
  const fs::path folder = folder_name != nullptr && *folder_name != '\0' ? folder_name : "results";
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure)
    throw RecordError(fmt::format("the folder {} for records cannot be made ({}); set ISTHMUS_RESULTS or --record",
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
          fmt::format("the record {} would be plain text under the name of a packed file, which no reader "
                      "takes; end its name with .jsonl and pack it later",
                      path));
  }
  if (path.empty()) throw RecordError("--record names no file; give it a name, or leave it out");
  struct stat status{};
  if (stat(path.c_str(), &status) == 0) {
    const RecordFile probe(path);
    if (is_anothers(path))
      throw RecordError(
          fmt::format("the record {} begins with a line that is no record, so no reader would take what is added to "
                      "it; choose another with --record",
                      path));
    return;
  }
  if (errno != ENOENT) throw unwritable(path, errno);
  // Another process may be making the same file, so nothing is made here that would have to be taken away again.
  if (!fs::path(path).has_filename()) throw unwritable(path, EISDIR);
  const auto folder = fs::path(path).parent_path();
  if (faccessat(AT_FDCWD, folder.empty() ? "." : folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    throw unwritable(path, errno);
}

void for_each_record(const std::string& path, std::string_view text,
                     const std::function<void(nlohmann::json record)>& use) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return;  // a device may never end
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line);) {
    if (line.find(text) == std::string::npos) continue;
    auto record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_object()) use(std::move(record));
  }
}

std::size_t broken_line(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return 0;
  std::ifstream stream(path);
  std::size_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (!nlohmann::json::accept(line)) return number;
  }
  return 0;
}

std::set<std::string> settled_cases(const std::string& path) {
  std::set<std::string> settled;
  for_each_record(path, "", [&](nlohmann::json read) {
    const auto record = upgraded(std::move(read));
    if (record_schema_check().violations(record).empty() && is_settled(record)) settled.insert(case_identity(record));
  });
  return settled;
}

}  // namespace isthmus::harness
