#pragma once

#include <cstdint>

namespace emulator {

/// Gives the calling OS thread a stack for the SIGSEGV handler, once.
void use_alternate_stack();

class Block;
/// Ends the kernel that this block's thread runs, if it still is where the block's `turn` found it.
void interrupt(Block& block, std::uint64_t turn);

}  // namespace emulator
