#pragma once

#include <optional>
#include <stdexcept>
#include <string>

namespace isthmus::workload {

enum class SkipKind {
  unsupported,     ///< the device or system cannot; red at a site that says it can
  memory,          ///< the case needs more memory than there is
  not_applicable,  ///< this combination means nothing for the workload
};

/// What a case needs of a memory, in bytes, what was free of it, and how much of that a case may have.
struct Shortage {
  enum class Memory { host, device } memory;
  double needed, free, usable;
};

/// Thrown by a workload for a case that cannot run here; the record carries the reason.
struct Skip : std::runtime_error {
  explicit Skip(const std::string& reason, SkipKind kind_ = SkipKind::unsupported)
      : std::runtime_error(reason), kind(kind_) {}
  Skip(const std::string& reason, Shortage shortage_)
      : std::runtime_error(reason), kind(SkipKind::memory), shortage(shortage_) {}
  SkipKind kind;
  std::optional<Shortage> shortage;
};

/// Skips a case that means nothing for the workload; `why` says what is wrong and what to do.
inline void refuse_if(bool wrong, const char* why) {
  if (wrong) throw Skip(why, SkipKind::not_applicable);
}

}  // namespace isthmus::workload
