#pragma once

// Functions shared by the paging studies: words that identify their position, the shape of a launch, and the metrics.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memory/parallel.hpp"
#include "microbench/axes.hpp"
#include "microbench/paging/kernels.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench::paged {

using Word = unsigned long long;

inline Word first_word(const workload::Case& c) {
  return c.seed() * 0x9e3779b97f4a7c15ULL;
}
/// Words that a host thread processes at a time.
inline constexpr std::size_t kGrain = std::size_t{1} << 20;
inline void fill_with_words(const workload::Case& c, const memory::Block& block) {
  memory::parallel_for(block.size() / sizeof(Word), kGrain, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      const Word word = first_word(c) + i;
      std::memcpy(block.data() + i * sizeof word, &word, sizeof word);
    }
  });
}
/// Returns the number of wrong words at `from`. Word i there must be word `first` + i of fill_with_words(), plus
/// `raised(i)`.
template <class Raised>
std::uint64_t wrong_words(const workload::Case& c, const std::byte* from, std::uint64_t first, std::uint64_t words,
                          Raised raised) {
  std::atomic<std::uint64_t> wrong = 0;
  memory::parallel_for(words, kGrain, [&](std::size_t begin, std::size_t end) {
    std::uint64_t here = 0;
    for (std::size_t i = begin; i < end; ++i) {
      Word word = 0;
      std::memcpy(&word, from + i * sizeof word, sizeof word);
      here += word != first_word(c) + first + i + raised(i) ? 1 : 0;
    }
    wrong += here;
  });
  return wrong;
}
/// Returns the sum of words [first, last) of fill_with_words().
inline Word sum_of_words(const workload::Case& c, std::uint64_t first, std::uint64_t last) {
  const std::uint64_t n = last - first, a = n % 2 == 0 ? n / 2 : n,
                      b = n % 2 == 0 ? first + last - 1 : (first + last - 1) / 2;
  return first_word(c) * n + a * b;
}

inline std::size_t page_bytes_of(const workload::Case& c) {
  const std::size_t bytes = c.extent("page");
  if (!std::has_single_bit(bytes) || bytes < paging::kLeastPage || bytes > paging::kMostPage)
    throw workload::Skip("pages are powers of two from 4 KiB to 2 MiB", workload::SkipKind::not_applicable);
  return bytes;
}

/// Creates a workload with the settings that all workloads of this folder share, including the axes for the bytes of
/// the array in host memory and of a page.
inline workload::Workload paging_workload(const char* name, void (*run)(workload::Case&), const char* summary) {
  workload::Workload w(name, run);
  w.version(1)
      .summary(summary)
      .tags({"paging", "gpu"})
      .stagings({})
      .metrics({"time", "rate"})
      .axis(bytes_axis("bytes", "bytes of the array in the host's memory", 64 * kMi, 16))
      .axis(bytes_axis("page", "bytes of a page, a power of two from 4 KiB to 2 MiB", 4 * kKi, 4 * kKi)
                .with_size_sweep(powers(4 * kKi, 2 * kMi)))
      .sizes({"bytes"}, {kMi, 8 * kMi, 64 * kMi, 256 * kMi, kGi, 4 * kGi});
  return w;
}

/// Returns the preset of GPUVM's Figure 8: 12 GiB in order, for each page size. `more` selects the method.
inline workload::Preset gpuvm_figure_8(workload::AxisSettings more = {}) {
  more.emplace_back("bytes", 12 * kGi);
  return {.name = "paper-gpuvm-fig8",
          .help = "Figure 8 of gpuvm-2024: 12 GiB in order, in pages or copies of 4 KiB to 2 MiB",
          .settings = std::move(more),
          .sweep_axis = "page",
          .sweep = powers(4 * kKi, 2 * kMi)};
}

/// Returns the shape of a launch with as many blocks as the device runs at once, limited so that all warps can pin
/// their pages at once.
template <class Work>
device::LaunchShape shape_for(const Work& work, const device::DeviceInfo& info, std::size_t frames, std::size_t turns,
                              bool lanes) {
  const auto warp = static_cast<std::size_t>(info.warp_size);
  const std::size_t a_warp = lanes ? warp : 1;
  if (frames < a_warp)
    throw workload::Skip("there are fewer frames than lanes in a warp", workload::SkipKind::not_applicable);
  const std::size_t a_block = std::min<std::size_t>(kThreads / warp, frames / a_warp);
  const auto each = info_of(work, {.grid = 1, .block = kThreads}).blocks_per_multiprocessor.value_or(1);
  const auto resident = static_cast<std::size_t>(info.multiprocessors) * static_cast<std::size_t>(each);
  const std::size_t useful = (turns + a_block - 1) / a_block;
  return {.grid = static_cast<unsigned>(
              std::min({resident, frames / (a_block * a_warp), std::max<std::size_t>(useful, 1)})),
          .block = static_cast<unsigned>(a_block * warp)};
}

inline workload::Bound link_bound(const device::DeviceInfo& info) {
  std::string reason;
  const auto link = device::link(info.index, -1, &reason);
  if (!link) return {std::nullopt, reason};
  return {link->rate, link->text};
}

inline std::vector<workload::Metric> time_and_rate(const char* timer, double bytes, const std::string& way,
                                                   const workload::Bound& rate) {
  std::vector<workload::Metric> metrics{workload::time_metric("time", timer).moving(bytes, bytes, way),
                                        workload::rate_metric("rate", "B/s", timer, rate).moving(bytes, bytes, way)};
  metrics[0].bound = {rate.value ? std::optional(bytes / *rate.value) : std::nullopt, rate.source};
  return metrics;
}

}  // namespace isthmus::microbench::paged
