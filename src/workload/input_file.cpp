#include "workload/input_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "workload/sha256.hpp"

namespace isthmus::workload {

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what, const std::string& instead) {
  throw std::runtime_error(fmt::format("the file {} cannot be read: {}; {}", path, what, instead));
}

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "it is a folder";
  if (S_ISFIFO(mode)) return "it is a FIFO";
  return S_ISCHR(mode) || S_ISBLK(mode) ? "it is a device" : "it is not a file";
}

}  // namespace

struct InputFile::Open {
  explicit Open(std::string path_)
      // Without O_NONBLOCK, opening a FIFO that has no writer would block.
      : path(std::move(path_)), descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Open() {
    if (descriptor >= 0) close(descriptor);
  }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

  std::string path;
  int descriptor;
  struct stat status{};
};

InputFile::InputFile(const std::string& path, std::size_t most_bytes) {
  const auto opened = std::make_shared<Open>(path);
  open_ = opened;
  if (opened->descriptor < 0 || fstat(opened->descriptor, &opened->status) != 0)
    fail(path, std::strerror(errno), "name a file that can be read");
  if (!S_ISREG(opened->status.st_mode)) fail(path, kind_of(opened->status.st_mode), "name a regular file");
  if (bytes() > most_bytes)
    fail(path, fmt::format("it has {} bytes, more than {}", bytes(), most_bytes), "name a smaller one");
}

const std::string& InputFile::path() const {
  return open_->path;
}

std::string InputFile::name() const {
  return std::filesystem::path(open_->path).filename().string();
}

std::size_t InputFile::bytes() const {
  return static_cast<std::size_t>(open_->status.st_size);
}

int InputFile::descriptor() const {
  return open_->descriptor;
}

void InputFile::read(std::size_t offset, void* into, std::size_t bytes) const {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got =
        pread(open_->descriptor, static_cast<std::byte*>(into) + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(open_->path, std::strerror(errno), "copy it to another disk");
    if (got == 0) fail(open_->path, "it was truncated meanwhile", "run again when nothing writes to it");
    done += static_cast<std::size_t>(got);
  }
}

std::string InputFile::text() const {
  std::string all(bytes(), '\0');
  read(0, all.data(), all.size());
  return all;
}

std::string InputFile::sha256(const std::function<bool()>& stop) const {
  using Identity = std::array<std::int64_t, 5>;  // identifies a file and its contents
  static std::mutex lock;
  static std::map<Identity, std::string> known;
  const std::scoped_lock hold(lock);
  struct stat now{};
  if (fstat(open_->descriptor, &now) != 0) fail(open_->path, std::strerror(errno), "name a file that can be read");
  const Identity identity{static_cast<std::int64_t>(now.st_dev), static_cast<std::int64_t>(now.st_ino), now.st_size,
                          now.st_mtim.tv_sec, now.st_mtim.tv_nsec};
  if (const auto found = known.find(identity); found != known.end()) return found->second;
  Sha256 hash;
  std::vector<char> block(std::min<std::size_t>(bytes(), std::size_t{1} << 22));
  for (std::size_t done = 0; done < bytes();) {
    if (stop && stop()) fail(open_->path, "reading it was interrupted", "run again");
    const std::size_t count = std::min(block.size(), bytes() - done);
    read(done, block.data(), count);
    hash.add(block.data(), count);
    done += count;
  }
  return known[identity] = hash.digits();
}

}  // namespace isthmus::workload
