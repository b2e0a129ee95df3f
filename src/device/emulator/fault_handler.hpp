#pragma once

namespace isthmus::device::emulator {

/// Gives the calling OS thread a stack for the SIGSEGV handler, once.
void use_alternate_stack();

}  // namespace isthmus::device::emulator
