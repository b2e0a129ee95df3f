#include "workload/paged.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "paging/pager.hpp"
#include "paging/placement.hpp"
#include "workload/skip.hpp"

namespace isthmus::workload {

Axis eviction_axis() {
  return named_axis(kEvictionAxis, "which page is evicted", paging::kEvictionNames);
}

Axis transport_axis() {
  return named_axis(kTransportAxis, "what transfers a page: its warp, a second GPU, either, or threads of the host",
                    paging::kTransportNames);
}

Axis queues_axis() {
  return number_axis(kQueuesAxis, "blocks of a relay (0: at most 256) or request groups of a proxy (0: 4)", 0, 0);
}

std::vector<Axis> paging_axes() {
  const memory::PagingOptions usual;
  return {how(bytes_axis(kPageAxis, "bytes of a page, a power of two from 4 KiB to 2 MiB",
                         static_cast<std::int64_t>(usual.page_bytes), static_cast<std::int64_t>(paging::kLeastPage))),
          how(number_axis(kFramesAxis, "frames of each paged buffer, in percent of its pages",
                          static_cast<std::int64_t>(usual.frames))),
          how(eviction_axis()), how(transport_axis()), how(queues_axis())};
}

device::LaunchShape within_frames(device::LaunchShape shape, const device::DeviceInfo& info,
                                  std::initializer_list<paging::Region> regions) {
  const auto warp = static_cast<std::uint64_t>(info.warp_size);
  const std::uint64_t warps = (shape.block.size() + warp - 1) / warp;
  std::uint64_t blocks = shape.grid.size();
  for (const auto& region : regions) {
    if (region.frame_count < warps)
      throw Skip(fmt::format("a block of {} warps pins {} pages of a buffer at once, but this one has {} frames of {} "
                             "bytes for its {} bytes: set more {}, a smaller {} or a larger size",
                             warps, warps, region.frame_count, std::size_t{1} << region.page_shift, region.bytes,
                             kFramesAxis, kPageAxis),
                 SkipKind::not_applicable);
    blocks = std::min(blocks, region.frame_count / warps);
  }
  shape.grid = static_cast<unsigned>(blocks);
  return shape;
}

device::LaunchShape warp_a_page(const paging::Region& region, unsigned threads, const device::DeviceInfo& info,
                                std::initializer_list<paging::Region> regions) {
  const std::size_t pages = paging::pages_of(region.bytes, std::size_t{1} << region.page_shift);
  const std::size_t warps = threads / static_cast<unsigned>(info.warp_size);
  const auto blocks = static_cast<unsigned>((pages + warps - 1) / warps);
  return within_frames({.grid = blocks, .block = threads}, info, regions);
}

}  // namespace isthmus::workload
