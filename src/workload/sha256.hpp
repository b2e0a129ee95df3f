#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace isthmus::workload {

/// SHA-256 of bytes that come in pieces. Throws std::runtime_error where this system refuses it.
class Sha256 {
 public:
  Sha256();
  void add(const void* data, std::size_t bytes);
  /// Of all that was added: 64 hexadecimal digits. Nothing can be added afterwards.
  std::string digits();

 private:
  struct Free {
    void operator()(void* context) const noexcept;
  };
  std::unique_ptr<void, Free> context_;
};

}  // namespace isthmus::workload
