#pragma once

// What the emulated device does with the pages of managed memory (docs/uvm.md). A GPU's own driver is asked instead:
// src/trace/uvm.

#include "emulator/page_events.hpp"

namespace isthmus::device {

using emulator::PageEvent;
using emulator::PageListener;

// The emulator's functions of these names. All false (or 0) where the device is no emulated one.
bool watch_pages(PageListener listener, void* context);
void unwatch_pages();
std::uint64_t create_page_group();
bool destroy_page_group(std::uint64_t group);
bool set_page_group(std::uint64_t group, std::uintptr_t address, std::size_t bytes);

}  // namespace isthmus::device
