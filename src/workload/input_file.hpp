#pragma once

// File that a case reads.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace isthmus::workload {

/// Regular file, open for reading. Copies of this object share the open file.
class InputFile {
 public:
  /// Opens the file. Throws std::runtime_error with one sentence if `path` is not a regular file (but a device, a FIFO
  /// or a folder), cannot be read, or has more than `most_bytes` bytes.
  InputFile(const std::string& path, std::size_t most_bytes);

  const std::string& path() const;
  std::string name() const;  ///< file name without folders
  std::size_t bytes() const;
  /// Reads exactly `bytes` bytes starting at `offset`; may be called by several threads. Throws std::runtime_error.
  void read(std::size_t offset, void* into, std::size_t bytes) const;
  int descriptor() const;
  /// Returns all contents.
  std::string text() const;
  /// Returns the hash of the contents as 64 hexadecimal digits; computes it only once as long as the file does not
  /// change. Calls `stop` every few megabytes and throws std::runtime_error once it returns true.
  std::string sha256(const std::function<bool()>& stop = {}) const;

 private:
  struct Open;
  std::shared_ptr<const Open> open_;
};

}  // namespace isthmus::workload
