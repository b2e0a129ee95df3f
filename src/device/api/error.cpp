#include <fmt/format.h>

#include "device/api/device.hpp"

namespace isthmus::device {

Error::Error(ErrorKind kind, std::string call, const std::string& reason, const std::string& hint)
    : std::runtime_error(hint.empty() ? fmt::format("{}: {}", call, reason)
                                      : fmt::format("{}: {}; {}", call, reason, hint)),
      kind_(kind),
      call_(std::move(call)) {}

std::string_view name(Backend backend) noexcept {
  switch (backend) {
    case Backend::cuda:
      return "cuda";
    case Backend::hip:
      return "hip";
    case Backend::emulator:
      return "emulator";
  }
  return "unknown";
}

std::string_view name(PointerKind kind) noexcept {
  switch (kind) {
    case PointerKind::unregistered:
      return "unregistered";
    case PointerKind::pinned:
      return "pinned";
    case PointerKind::device:
      return "device";
    case PointerKind::managed:
      return "managed";
  }
  return "unknown";
}

}  // namespace isthmus::device
