#include "device/page_events.hpp"

namespace isthmus::device {

bool watch_pages(PageListener, void*) {
  return false;
}

void unwatch_pages() {}

}  // namespace isthmus::device
