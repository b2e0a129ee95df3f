#include "workload/scratch_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "workload/skip.hpp"

namespace isthmus::workload {

std::string scratch_folder() {
  std::error_code none;
  auto folder = std::filesystem::temp_directory_path(none).string();
  if (none) throw Skip("the scratch folder (TMPDIR or /tmp) is not a folder; set TMPDIR to one");
  return folder;
}

int open_scratch_file() {
  const auto folder = scratch_folder();
  int file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) {  // the file system does not support unnamed files
    std::string name = folder + "/isthmus-XXXXXX";
    file = mkostemp(name.data(), O_CLOEXEC);
    if (file >= 0) unlink(name.c_str());
  }
  if (file < 0)
    throw Skip(fmt::format("no file can be created in {} ({}); set TMPDIR to a writable folder", folder,
                           std::strerror(errno)));
  return file;
}

bool lies_in_memory(int file) {
  struct statfs system{};
  return fstatfs(file, &system) == 0 && (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
}

void require_scratch_room(std::size_t bytes) {
  std::error_code unknown;
  const auto room = std::filesystem::space(scratch_folder(), unknown);
  if (unknown || room.available >= bytes) return;
  throw Skip(
      fmt::format(
          "the scratch folder {} has {} bytes left, but the input needs {}; set TMPDIR to a folder with more space",
          scratch_folder(), room.available, bytes),
      SkipKind::memory);
}

namespace {

[[noreturn]] void cannot_write() {
  throw std::runtime_error(fmt::format("a file in {} cannot be written ({}); set TMPDIR to another folder",
                                       scratch_folder(), std::strerror(errno)));
}

}  // namespace

void write_scratch_file(int file, std::span<const std::byte> bytes, std::size_t offset) {
  while (!bytes.empty()) {
    const auto written = pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
      throw Skip(fmt::format("the scratch folder {} has no space for {} bytes; set TMPDIR to a folder with more space",
                             scratch_folder(), offset + bytes.size()),
                 SkipKind::memory);
    if (written <= 0) cannot_write();
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::size_t>(written);
  }
}

void flush_scratch_file(int file) {
  if (fsync(file) != 0) cannot_write();
}

}  // namespace isthmus::workload
