// Stubs for udev, which is not available as an archive. hwloc's archive queries udev about block devices, which we
// never request. Without udev, hwloc reads the same information from /run/udev or omits it.

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
