#pragma once

// A file that a case reads.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace isthmus::workload {

/// A regular file, open to be read. Copies share it.
class InputFile {
 public:
  /// Throws std::runtime_error, one sentence, for what is no file (a device, a FIFO, a folder), cannot be read, or has
  /// more than `most_bytes`.
  InputFile(const std::string& path, std::size_t most_bytes);

  const std::string& path() const;
  std::string name() const;  ///< without its folders
  std::size_t bytes() const;
  /// Reads exactly so many bytes from `offset` on; may be called by several threads. Throws std::runtime_error.
  void read(std::size_t offset, void* into, std::size_t bytes) const;
  int descriptor() const;
  /// All of it.
  std::string text() const;
  /// Hash of it all, 64 hexadecimal digits; taken once, as long as the file is as it was. `stop` is asked every few
  /// megabytes: once it says so, std::runtime_error is thrown.
  std::string sha256(const std::function<bool()>& stop = {}) const;

 private:
  struct Open;
  std::shared_ptr<const Open> open_;
};

}  // namespace isthmus::workload
