#include "device/range.hpp"

namespace isthmus::device {

Range::Range(const char*) noexcept : open_(false) {}
Range::~Range() = default;

}  // namespace isthmus::device
