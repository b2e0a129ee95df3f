#pragma once

// Calls of an emulated library, queued as device work.

#include <functional>
#include <utility>
#include <vector>

#include "device/host/emulated.hpp"
#include "emulator/library.hpp"

namespace isthmus::device {

inline void queue_library_call(const char* name, int device, Stream& stream, std::vector<emulator::Operand> operands,
                               std::function<void()> work) {
  translated([&] { emulator::queue_library_call(name, device, of(stream), std::move(operands), std::move(work)); });
}

}  // namespace isthmus::device
