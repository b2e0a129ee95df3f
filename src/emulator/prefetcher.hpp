#pragma once

// Density prefetcher of an NVIDIA driver: chooses pages of a block to migrate in addition to the pages that faulted.

#include <bitset>
#include <cstddef>

namespace emulator {

inline constexpr std::size_t block_pages = 512;  ///< number of pages of 4 KiB in a block of 2 MiB
using PagesOfBlock = std::bitset<block_pages>;

/// Returns the pages to prefetch: for each faulted page, the 64 KiB around it or, if there is one, the largest aligned
/// region around it, up to the whole block, of which more than 51% is resident or faulted. `valid` are the pages that
/// are part of an allocation; other pages neither count nor are prefetched. The result excludes pages that faulted or
/// are already resident.
PagesOfBlock prefetched_pages(const PagesOfBlock& there, const PagesOfBlock& faulted, const PagesOfBlock& valid);

}  // namespace emulator
