#pragma once

// Which pages an NVIDIA driver brings unasked when some of a block fault: its density prefetcher.

#include <bitset>
#include <cstddef>

namespace emulator {

inline constexpr std::size_t block_pages = 512;  ///< of 4 KiB: 2 MiB
using PagesOfBlock = std::bitset<block_pages>;

/// Each faulted page grows to its 64 KiB. Then, from 64 KiB up to the block, the largest aligned piece around it is
/// brought of which more than 51% is there or faulted. `valid` are the pages that are memory at all; nothing else
/// counts or comes. Pages that faulted or are there already are not in the answer.
PagesOfBlock prefetched_pages(const PagesOfBlock& there, const PagesOfBlock& faulted, const PagesOfBlock& valid);

}  // namespace emulator
