#include "microbench/kinds.hpp"

#include <stdexcept>

#include "workload/workload.hpp"

namespace isthmus::microbench {

std::vector<Kind> axis_kinds() {
  std::vector<Kind> kinds;
  for (const auto& row : memory::all_kinds()) {
    if (row.kind != Kind::vmm) kinds.push_back(row.kind);
  }
  return kinds;
}

std::string axis_name(Kind kind) {
  if (kind == Kind::write_combined) return "wc";
  return kind == Kind::pageable ? "malloc" : std::string(name(kind));
}

Kind kind_named(std::string_view wanted) {
  for (const auto kind : axis_kinds()) {
    if (axis_name(kind) == wanted) return kind;
  }
  throw std::invalid_argument("there is no kind of memory that is called " + std::string(wanted));
}

void need_kind(Kind kind, Reader reader, const device::DeviceInfo& info) {
  if (const auto why = memory::obstacle(kind, reader, info)) throw workload::Skip(*why);
}

}  // namespace isthmus::microbench
