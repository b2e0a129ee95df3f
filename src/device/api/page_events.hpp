#pragma once

// Page events of managed memory on the emulated device (docs/uvm.md). For a GPU, src/trace/uvm reads them from the
// GPU's driver instead.

#include "emulator/page_events.hpp"

namespace isthmus::device {

using emulator::PageEvent;
using emulator::PageListener;

// These functions call the emulator's functions of the same names. They return false (or 0) if the device is not
// emulated.
bool watch_pages(PageListener listener, void* context);
void unwatch_pages();
std::uint64_t create_page_group();
bool destroy_page_group(std::uint64_t group);
bool set_page_group(std::uint64_t group, std::uintptr_t address, std::size_t bytes);

}  // namespace isthmus::device
