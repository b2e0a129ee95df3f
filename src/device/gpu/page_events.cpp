#include "device/api/page_events.hpp"

namespace isthmus::device {

bool watch_pages(PageListener, void*) {
  return false;
}

void unwatch_pages() {}

std::uint64_t create_page_group() {
  return 0;
}

bool destroy_page_group(std::uint64_t) {
  return false;
}

bool set_page_group(std::uint64_t, std::uintptr_t, std::size_t) {
  return false;
}

}  // namespace isthmus::device
