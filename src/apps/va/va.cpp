// The sum of two vectors: a program with the minimum of arithmetic per transferred byte.

#include <algorithm>

#include "paging/array.hpp"
#include "workload/paged.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;

constexpr unsigned threads = 256;
constexpr unsigned in_flight = 4;                       // vectors of 16 bytes per input and thread
constexpr std::size_t piece = threads * in_flight * 4;  // elements per block
constexpr std::size_t unit = std::size_t{1} << 16;      // elements per unit of `streamed`, in whole pieces

/// Groups of threads that add a piece together. A group has `size` threads; the calling thread is number `thread()`.
struct Block {
  static constexpr unsigned size = threads;
  __device__ static unsigned thread() { return threadIdx.x; }
};
struct Warp {
  unsigned size;
  __device__ static unsigned thread() { return static_cast<unsigned>(device::lane()); }
};

/// Adds the elements from `first` on: one piece, or fewer at the end of the vectors.
template <class Group>
__device__ __forceinline__ void add_piece(const Group& group, std::size_t first, std::size_t n,
                                          const float* __restrict__ a, const float* __restrict__ b,
                                          float* __restrict__ sum) {
  if (first + std::size_t{group.size} * (in_flight * 4) <= n) {
    const float4 *as = reinterpret_cast<const float4*>(a + first) + group.thread(),
                 *bs = reinterpret_cast<const float4*>(b + first) + group.thread();
    float4* sums = reinterpret_cast<float4*>(sum + first) + group.thread();
    float4 x[in_flight], y[in_flight];
#pragma unroll
    for (unsigned j = 0; j < in_flight; ++j) x[j] = as[j * group.size], y[j] = bs[j * group.size];
#pragma unroll
    for (unsigned j = 0; j < in_flight; ++j)
      sums[j * group.size] = make_float4(x[j].x + y[j].x, x[j].y + y[j].y, x[j].z + y[j].z, x[j].w + y[j].w);
  } else {
    for (std::size_t i = first + group.thread(); i < n; i += group.size) sum[i] = a[i] + b[i];
  }
}

// for (i = 0; i < n; ++i) sum[i] = a[i] + b[i];
__global__ void __launch_bounds__(threads)
    va(std::size_t n, const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ sum) {
  add_piece(Block{}, std::size_t{blockIdx.x} * piece, n, a, b, sum);
}

// Does the same as va with one page per warp; a page consists of whole pieces of a warp.
__global__ void __launch_bounds__(threads, 2)
    va_paged(paging::Array<float> a, paging::Array<float> b, paging::Array<float> sum) {
  const auto lanes = paging::Lanes::full_warp();
  const Warp warp{static_cast<unsigned>(device::warp_size())};
  const unsigned warps = threads / warp.size;
  auto writer = sum.writer(lanes);
  for (std::size_t page = blockIdx.x * warps + static_cast<unsigned>(device::warp_in_block());;
       page += std::size_t{gridDim.x} * warps) {
    const std::size_t begin = sum.first_of(static_cast<std::uint32_t>(page));
    if (begin >= sum.size()) break;
    const auto as = a.window(begin, lanes), bs = b.window(begin, lanes);
    writer.move_to(begin);
    const std::size_t n = writer.last() - begin;
    for (std::size_t first = 0; first < n; first += warp.size * in_flight * 4)
      add_piece(warp, first, n, as.data(), bs.data(), writer.data());
  }
}

void run(Case& c) {
  const std::size_t n = c.extent("n");
  if (n > piece * 0x7fffffffULL)
    throw Skip("a grid has at most 2^31 - 1 blocks: choose n below 2^43", SkipKind::not_applicable);
  const Uniform a_values = uniform(c.seed(), 0, -1, 1), b_values = uniform(c.seed(), 1, -1, 1);
  const memory::Split split{.unit_bytes = unit * sizeof(float), .halo = 0};
  auto a = c.input<float>("a", n, a_values, split);
  auto b = c.input<float>("b", n, b_values, split);
  auto sum = c.output<float>("sum", n, split);
  c.chunks((n + unit - 1) / unit);

  c.verify(sum, [=](std::size_t i) { return a_values(i) + b_values(i); }, {});  // one rounding, as on the device
  c.verify_same(sum);

  const bool pages = c.placement()->paged;
  const auto info = c.device();
  c.measure(
      Control::queued,
      [=](Run& run) {
        const std::size_t first = run.chunk().first * unit, count = std::min(run.chunk().count * unit, n - first);
        const double elements = static_cast<double>(count);
        const Traffic traffic{.bytes_read = 8 * elements, .bytes_written = 4 * elements, .flops = elements};
        if (pages) {
          const auto &as = run.paged(a), &bs = run.paged(b), &sums = run.paged(sum);
          return run.launch(ISTHMUS_KERNEL(va_paged), warp_a_page(sums, threads, info, {as, bs, sums}), traffic,
                            paging::Array<float>(as), paging::Array<float>(bs), paging::Array<float>(sums));
        }
        run.launch(ISTHMUS_KERNEL(va), {.grid = static_cast<unsigned>((count + piece - 1) / piece), .block = threads},
                   traffic, count, a.device() + first, b.device() + first, sum.device() + first);
      },
      paged(a, b, sum));
}

const Registration registration = Workload("apps/va", run)
                                      .version(1)
                                      .summary("sum of two vectors")
                                      .source("gpuvm-2024, transfer-bound set (VA)")
                                      .tags({"app", "gpuvm"})
                                      .placements(memory::all_placements())
                                      .paged()
                                      .stagings({Staging::none})
                                      .axis(number_axis("n", "elements of each vector", 1 << 24))
                                      .sizes({"n"}, {1 << 18, 1 << 21, 1 << 24, 1 << 27, 1 << 28, 1 << 30});

}  // namespace
}  // namespace isthmus::apps
