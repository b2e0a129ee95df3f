#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace isthmus::workload {

/// SHA-256 hash of bytes that are added in pieces. Throws std::runtime_error if this system does not support it.
class Sha256 {
 public:
  Sha256();
  void add(const void* data, std::size_t bytes);
  /// Returns the hash of all added bytes as 64 hexadecimal digits. No more bytes can be added afterwards.
  std::string digits();

 private:
  struct Free {
    void operator()(void* context) const noexcept;
  };
  std::unique_ptr<void, Free> context_;
};

}  // namespace isthmus::workload
