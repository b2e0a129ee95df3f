#include "device/api/device.hpp"

namespace isthmus::device {

Selected::Selected(int index) : before_(selected()) {
  select(index);
}

Selected::~Selected() {
  try {
    select(before_);
  } catch (const Error&) {
    // a device that is lost says so at its next call
  }
}

}  // namespace isthmus::device
