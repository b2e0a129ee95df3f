#pragma once

// Kinds of memory as values of an axis `memory`.

#include <string>
#include <string_view>
#include <vector>

#include "memory/block.hpp"

namespace isthmus::microbench {

using memory::Kind;
using memory::Reader;

/// Those that CPU and GPU may both reach, in the order of the axis.
std::vector<Kind> axis_kinds();
/// As records and the command line have it: memory::name(), but "wc" and "malloc".
std::string axis_name(Kind kind);
/// Throws std::invalid_argument for a name that none has.
Kind kind_named(std::string_view axis_name);
/// Throws workload::Skip where memory::obstacle() has a reason.
void need_kind(Kind kind, Reader reader, const device::DeviceInfo& info);

}  // namespace isthmus::microbench
