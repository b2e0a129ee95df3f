#include "harness/record/record_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
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

/// Others that append to the same file wait. A file system without locks goes without: a line is one write.
class Alone {
 public:
  explicit Alone(int descriptor) : descriptor_(descriptor) {
    while (flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~Alone() { flock(descriptor_, LOCK_UN); }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;

 private:
  int descriptor_;
};

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

void RecordFile::append(std::string_view line) {
  const Alone alone(descriptor_);
  std::string text;
  struct stat status{};
  const bool regular = fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  if (regular && status.st_size > 0) {
    char last = '\n';
    if (pread(descriptor_, &last, 1, status.st_size - 1) == 1 && last != '\n') text += '\n';
  }
  text += line;
  text += '\n';
  ssize_t written = -1;
  do {
    written = write(descriptor_, text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  if (written < 0)
    throw RecordLost(
        fmt::format("the record {} could not be written ({}); what was in it before is untouched; free "
                    "some space and run again with --resume",
                    path_, reason(errno)));
  if (static_cast<std::size_t>(written) != text.size())
    throw RecordLost(
        fmt::format("the record {} took only {} of {} bytes of its last line; free some space and run again "
                    "with --resume",
                    path_, written, text.size()));
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
  struct stat status{};
  if (stat(path.c_str(), &status) == 0) {
    const RecordFile probe(path);
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

std::set<std::string> settled_cases(const std::string& path) {
  std::set<std::string> settled;
  for_each_record(path, "", [&](nlohmann::json read) {
    const auto record = upgraded(std::move(read));
    if (record_schema_check().violations(record).empty() && is_settled(record)) settled.insert(case_identity(record));
  });
  return settled;
}

}  // namespace isthmus::harness
