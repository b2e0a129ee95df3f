#pragma once

#include <cstdint>

namespace emulator {

/// Gives the calling OS thread an alternate stack for the SIGSEGV handler, on its first call.
void use_alternate_stack();

class Block;
/// Ends the kernel that is running in this block's OS thread, unless the block is no longer in the given `turn`.
void interrupt(Block& block, std::uint64_t turn);

}  // namespace emulator
