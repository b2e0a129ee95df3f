// hwloc's archive asks udev about block devices, and udev has no archive. These stand in: hwloc then reads the same
// facts from /run/udev, or does without them. We do not ask it about block devices.

extern "C" {
void* udev_new() {
  return nullptr;
}
void* udev_unref(void*) {
  return nullptr;
}
void* udev_device_new_from_subsystem_sysname(void*, const char*, const char*) {
  return nullptr;
}
const char* udev_device_get_property_value(void*, const char*) {
  return nullptr;
}
void* udev_device_unref(void*) {
  return nullptr;
}
}
