#include "harness/record_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
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

#include "harness/host_facts.hpp"
#include "harness/record.hpp"
#include "harness/schema_check.hpp"

namespace isthmus::harness {

namespace {

namespace fs = std::filesystem;

std::string reason(int error) {
  return std::strerror(error);
}

}  // namespace

RecordFile::RecordFile(std::string path) : path_(std::move(path)) {
  descriptor_ = open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  // A pipe or a device may refuse to be read.
  if (descriptor_ < 0 && errno != EISDIR)
    descriptor_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0)
    throw RecordError(
        fmt::format("the record {} cannot be written ({}); choose another with --record", path_, reason(errno)));
}

RecordFile::~RecordFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void RecordFile::append(std::string_view line) {
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
    throw RecordError(fmt::format("the record {} could not be written ({}); what was in it before is untouched", path_,
                                  reason(errno)));
  if (static_cast<std::size_t>(written) != text.size())
    throw RecordError(
        fmt::format("the record {} took only {} of {} bytes of its last line; free some space and run again "
                    "with --resume",
                    path_, written, text.size()));
  // A pipe or a terminal cannot be flushed (EINVAL, EROFS), which is no failure.
  if (fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP)
    throw RecordError(fmt::format("the record {} could not be flushed to its device ({})", path_, reason(errno)));
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
  const bool existed = stat(path.c_str(), &status) == 0;
  {
    const RecordFile probe(path);
  }
  if (!existed) unlink(path.c_str());
}

std::set<std::string> settled_cases(const std::string& path) {
  std::set<std::string> settled;
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line);) {
    const auto record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_discarded() || !record.is_object()) continue;
    if (!record_schema_check().violations(record).empty()) continue;
    if (is_settled(record)) settled.insert(case_identity(record));
  }
  return settled;
}

}  // namespace isthmus::harness
