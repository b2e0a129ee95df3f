// paging/copies: the alternative with which paging is compared. Host threads copy an array to the GPU page by page,
// each on its own stream (GPUVM's Figure 8, in which they request the pages from a network card).

#include <algorithm>
#include <utility>
#include <vector>

#include "microbench/axes.hpp"
#include "microbench/paging/common.hpp"
#include "microbench/require.hpp"
#include "workload/lanes.hpp"

namespace isthmus::microbench::paged {
namespace {

using namespace workload;

constexpr std::size_t kPiece = std::size_t{16} << 20;  // bytes copied back at a time for the check

/// Returns the number of words of a copy on the device that differ from the host's array.
double wrong_words_of(const Case& c, const memory::Block& copy) {
  const memory::Block piece(memory::Kind::pinned, std::min(kPiece, copy.size()));
  std::uint64_t wrong = 0;
  for (std::size_t offset = 0; offset < copy.size(); offset += kPiece) {
    const std::size_t bytes = std::min(kPiece, copy.size() - offset);
    device::copy(piece.data(), copy.data() + offset, bytes);
    wrong += wrong_words(c, piece.data(), offset / sizeof(Word), bytes / sizeof(Word), [](std::size_t) { return 0U; });
  }
  return static_cast<double>(wrong);
}

void run(Case& c) {
  const auto info = c.device();
  const std::size_t page = page_bytes_of(c), bytes = c.extent("bytes") / 16 * 16, threads = c.extent("threads");
  refuse_if(bytes == 0, "bytes must be at least 16");
  c.needs(bytes + std::min(kPiece, bytes), bytes);
  require_kind(memory::Kind::mapped, memory::Reader::gpu, info);

  const device::Selected on(info.index);
  const memory::Block array(memory::Kind::mapped, bytes, {.numa_node = c.numa_node()});
  fill_with_words(c, array);
  const memory::Block copy(memory::Kind::device, bytes);

  std::vector<Lane> list(threads);
  for (std::size_t thread = 0; thread < threads; ++thread) {
    list[thread] = {.device = info.index, .blocking = true};
    list[thread].queue = [&, thread](device::Stream& stream) {
      // Together, the threads go through the array in order.
      for (std::size_t offset = thread * page; offset < bytes; offset += threads * page)
        device::copy_async(copy.data() + offset, array.data() + offset, std::min(page, bytes - offset), stream);
      stream.synchronize();
    };
  }
  workload::Lanes lanes(c, std::move(list));
  device::Stream& stream = c.stream();
  c.verify("every word of the copy", [&] { return wrong_words_of(c, copy); }, 0);
  const auto moved = static_cast<double>(bytes);
  c.sampling().sample(
      time_and_rate(lanes.timer(), moved, "h2d", link_bound(info)),
      [&] {
        device::fill_async(copy.data(), 0xff, bytes, stream);
        stream.synchronize();
      },
      [&] {
        const double seconds = read(c, lanes).all;
        return std::vector{seconds, moved / seconds};
      });
}

const Registration registration =
    paging_workload("paging/copies", run, "an array is copied to the GPU page by page, by threads of the host")
        .source("gpuvm-2024, Figure 8: the alternative to paging in order (paging/pattern)")
        .estimate([](const CaseSpec& spec) { return 1e-3 + static_cast<double>(spec.integer("bytes")) / 5e9; })
        .axis(number_axis("threads", "host threads that issue copies, each on its own stream", 16))
        .preset(gpuvm_figure_8());

}  // namespace
}  // namespace isthmus::microbench::paged
