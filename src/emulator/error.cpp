#include "emulator/error.hpp"

#include <utility>

namespace emulator {

Error::Error(ErrorKind kind, std::string call, std::string reason, std::string hint)
    : std::runtime_error(call + ": " + reason + (hint.empty() ? "" : "; ") + hint),
      kind_(kind),
      call_(std::move(call)),
      reason_(std::move(reason)),
      hint_(std::move(hint)) {}

}  // namespace emulator
