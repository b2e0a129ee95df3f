#pragma once

#include <string_view>

namespace isthmus::workload {

/// Method by which a kernel moves data from global to shared memory.
enum class Staging { none, direct, async, bulk };
std::string_view name(Staging) noexcept;

}  // namespace isthmus::workload
