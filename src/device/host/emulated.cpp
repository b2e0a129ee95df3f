#include "device/host/emulated.hpp"

#include "emulator/emulator.hpp"
#include "memory/host_memory.hpp"

namespace isthmus::device {
namespace {

/// Dummy variable whose initialisation before main() configures the emulator before its first call.
[[maybe_unused]] const bool introduced = [] {
  emulator::introduce(
      {.name = "isthmus", .variable = "ISTHMUS_EMULATOR", .instead = "choose another placement", .host_memory = [] {
         return memory::machine_memory().bytes;
       }});
  return true;
}();

ErrorKind kind_of(emulator::ErrorKind kind) {
  switch (kind) {
    case emulator::ErrorKind::failure:
      return ErrorKind::failure;
    case emulator::ErrorKind::out_of_memory:
      return ErrorKind::out_of_memory;
    case emulator::ErrorKind::unsupported:
      return ErrorKind::unsupported;
    case emulator::ErrorKind::timeout:
      return ErrorKind::timeout;
  }
  return ErrorKind::failure;
}

}  // namespace

void rethrow(const emulator::Error& error) {
  throw Error(kind_of(error.kind()), error.call(), error.reason(), error.hint());
}

}  // namespace isthmus::device
