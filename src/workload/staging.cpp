#include "workload/staging.hpp"

namespace isthmus::workload {

std::string_view name(Staging staging) noexcept {
  switch (staging) {
    case Staging::none:
      return "none";
    case Staging::direct:
      return "direct";
    case Staging::async:
      return "async";
    case Staging::bulk:
      return "bulk";
  }
  return "";
}

}  // namespace isthmus::workload
