#include "device/api/device.hpp"

namespace isthmus::device {

Selected::Selected(int index) : before_(selected()) {
  select(index);
}

Selected::~Selected() {
  try {
    select(before_);
  } catch (const Error&) {
    // If the device is lost, the next call on it reports that.
  }
}

}  // namespace isthmus::device
