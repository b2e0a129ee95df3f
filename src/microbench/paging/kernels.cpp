#include "microbench/paging/kernels.hpp"

#include <utility>

#include "device/kernel/warp_in_grid.hpp"
#include "microbench/paging/pairs.hpp"
#include "paging/array.hpp"

namespace isthmus::microbench::paged {
namespace {

using paging::Access, paging::Array, paging::Holds, paging::Lanes, paging::ReadOnlyArray;

// for (t = 0; t < touched; ++t) for (word of page order[t]) sum += word;
__global__ void __launch_bounds__(kThreads, kBlocksEach)
    sum_scattered(Array<Pair> a, Scattered order, std::uint64_t touched, unsigned long long* sum,
                  unsigned long long* next) {
  unsigned long long part = 0;
  auto reader = a.reader(Lanes::full_warp());
  for (std::uint64_t t = take_next(next); t < touched; t = take_next(next)) {
    reader.move_to(a.first_of(static_cast<std::uint32_t>(order[t])));
    part += sum_of(reader.data(), reader.last() - reader.first());
  }
  atomicAdd(sum, part);
}

// for (t = 0; t < touched; ++t) for (word of page order[t]) ++word;
__global__ void __launch_bounds__(kThreads, kBlocksEach)
    raise_scattered(Array<Pair> a, Scattered order, std::uint64_t touched, unsigned long long*,
                    unsigned long long* next) {
  auto writer = a.writer(Lanes::full_warp());
  for (std::uint64_t t = take_next(next); t < touched; t = take_next(next)) {
    writer.move_to(a.first_of(static_cast<std::uint32_t>(order[t])));
    Pair* page = writer.data();
    for_each_batch(writer.last() - writer.first(), [&]<unsigned Batch>(std::size_t j, unsigned width) {
      Pair pair[Batch];
#pragma unroll
      for (unsigned k = 0; k < Batch; ++k) pair[k] = page[j + k * width];
#pragma unroll
      for (unsigned k = 0; k < Batch; ++k) ++pair[k].x, ++pair[k].y, page[j + k * width] = pair[k];
    });
  }
}

// for (i = 0; i < n; ++i) sum += a[i];  the baseline of the sweeps that follow
__global__ void __launch_bounds__(kThreads, kBlocksEach)
    sweep_pointer(const Pair* __restrict__ a, std::size_t size, std::size_t page, unsigned long long* sum) {
  unsigned long long part = 0;
  for (std::size_t first = device::warp_in_grid() * page; first < size; first += device::warps_in_grid() * page)
    part += sum_of(a + first, size - first < page ? size - first : page);
  atomicAdd(sum, part);
}

template <class Pages>
__global__ void __launch_bounds__(kThreads, kBlocksEach)
    sweep_windows(Pages a, std::size_t page, unsigned long long* sum) {
  unsigned long long part = 0;
  for (std::size_t first = device::warp_in_grid() * page; first < a.size(); first += device::warps_in_grid() * page) {
    const auto window = a.window(first, Lanes::full_warp());
    part += sum_of(window.data(), window.last() - window.first());
  }
  atomicAdd(sum, part);
}

template <class Pages>
__global__ void __launch_bounds__(kThreads, kBlocksEach - 1)
    sweep_reader(Pages a, std::size_t page, unsigned long long* sum) {
  unsigned long long part = 0;
  const auto width = static_cast<unsigned>(device::warp_size());
  auto reader = a.reader(Lanes::full_warp());
  for (std::size_t first = device::warp_in_grid() * page; first < a.size(); first += device::warps_in_grid() * page) {
    const std::size_t last = first + page < a.size() ? first + page : a.size();
    for (std::size_t i = first; i < last; i += width) {
      const Pair pair = reader.read(i + static_cast<unsigned>(device::lane()));
      part += pair.x + pair.y;
    }
  }
  atomicAdd(sum, part);
}

template <class Pages>
__global__ void __launch_bounds__(kThreads, kBlocksEach - 1)
    sweep_elements(Pages a, std::size_t page, unsigned long long* sum) {
  unsigned long long part = 0;
  const auto width = static_cast<unsigned>(device::warp_size());
  for (std::size_t first = device::warp_in_grid() * page; first < a.size(); first += device::warps_in_grid() * page) {
    const std::size_t last = first + page < a.size() ? first + page : a.size();
    for (std::size_t i = first + static_cast<unsigned>(device::lane()); i < last; i += width) {
      const Pair pair = a[i];
      part += pair.x + pair.y;
    }
  }
  atomicAdd(sum, part);
}

auto kernel_of(const Visit& work) {
  return work.access == Access::write ? ISTHMUS_KERNEL(raise_scattered) : ISTHMUS_KERNEL(sum_scattered);
}

/// Calls `action` with the sweep's kernel, the references that a warp or lane of it holds, and its first arguments.
template <class Action>
auto with_kernel(const Sweep& work, Action action) {
  const Array<Pair> counted(work.region);
  const ReadOnlyArray<Pair> uncounted(paging::ReadOnlyRegion{work.region});
  const Holds lane{1, Holds::By::lane};
  switch (work.through) {
    case Through::window:
      return action(ISTHMUS_KERNEL(sweep_windows<Array<Pair>>), Holds{}, counted);
    case Through::read_only_window:
      return action(ISTHMUS_KERNEL(sweep_windows<ReadOnlyArray<Pair>>), Holds{}, uncounted);
    case Through::reader:
      return action(ISTHMUS_KERNEL(sweep_reader<Array<Pair>>), Holds{}, counted);
    case Through::read_only_reader:
      return action(ISTHMUS_KERNEL(sweep_reader<ReadOnlyArray<Pair>>), Holds{}, uncounted);
    case Through::element:
      return action(ISTHMUS_KERNEL(sweep_elements<Array<Pair>>), lane, counted);
    case Through::read_only_element:
      return action(ISTHMUS_KERNEL(sweep_elements<ReadOnlyArray<Pair>>), lane, uncounted);
    case Through::pointer:
      break;
  }
  return action(ISTHMUS_KERNEL(sweep_pointer), Holds{}, reinterpret_cast<const Pair*>(work.memory),
                work.region.bytes / sizeof(Pair));
}

}  // namespace

device::KernelInfo info_of(const Visit& work, const device::LaunchShape& shape) {
  return device::kernel_info(kernel_of(work), shape);
}

void queue(device::Stream& stream, paging::Pager& pager, const device::LaunchShape& shape, const Visit& work,
           unsigned long long* sum, unsigned long long* next) {
  device::fill_async(next, 0, sizeof *next, stream);
  pager.launch(stream, kernel_of(work), shape, {}, Array<Pair>(work.region), work.order, work.touched, sum, next);
}

device::KernelInfo info_of(const Sweep& work, const device::LaunchShape& shape) {
  return with_kernel(work, [&](auto kernel, const Holds&, auto&&...) { return device::kernel_info(kernel, shape); });
}

void queue(device::Stream& stream, paging::Pager& pager, const device::LaunchShape& shape, const Sweep& work,
           unsigned long long* sum) {
  const std::size_t page = (std::size_t{1} << work.region.page_shift) / sizeof(Pair);
  with_kernel(work, [&](auto kernel, const Holds& holds, auto&&... first) {
    pager.launch(stream, kernel, shape, holds, first..., page, sum);
  });
}

}  // namespace isthmus::microbench::paged
