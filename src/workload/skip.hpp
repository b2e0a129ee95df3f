#pragma once

#include <optional>
#include <stdexcept>
#include <string>

namespace isthmus::workload {

enum class SkipKind {
  unsupported,     ///< the device or system does not support it; counts as a failure at a site that declares support
  memory,          ///< the case needs more memory than is available
  not_applicable,  ///< this combination is meaningless for the workload
};

/// Memory that a case needs, memory that was free, and how much of the free memory a case may use, all in bytes.
struct InsufficientMemory {
  enum class Memory { host, device } memory;
  double needed, free, usable;
};

/// Exception thrown by a workload for a case that cannot run here; the record has the reason.
struct Skip : std::runtime_error {
  explicit Skip(const std::string& reason, SkipKind kind_ = SkipKind::unsupported)
      : std::runtime_error(reason), kind(kind_) {}
  Skip(const std::string& reason, InsufficientMemory insufficient_memory_)
      : std::runtime_error(reason), kind(SkipKind::memory), insufficient_memory(insufficient_memory_) {}
  SkipKind kind;
  std::optional<InsufficientMemory> insufficient_memory;
};

/// Skips a case that is meaningless for the workload; `why` says what is wrong and what to do.
inline void refuse_if(bool wrong, const char* why) {
  if (wrong) throw Skip(why, SkipKind::not_applicable);
}

}  // namespace isthmus::workload
