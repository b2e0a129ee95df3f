// Complete workload: a verified gather with a stride, in every placement. Continued in docs/adding-a-workload.md.

#include "workload/workload.hpp"

namespace {

using namespace isthmus::workload;

// for (i = 0; i < n; ++i) out[i] = in[i * stride];
__global__ void gather(std::size_t n, std::size_t stride, const float* in, float* out) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i < n) out[i] = in[i * stride];
}

void strided_gather(Case& c) {
  const std::size_t n = c.extent("n"), stride = c.extent("stride");
  const auto values = uniform(c.seed(), 0, -1, 1);
  auto in = c.input<float>("in", n * stride, values);
  auto out = c.output<float>("out", n);
  c.verify(out, [=](std::size_t i) { return values(i * stride); }, {});  // copied, so the same bits
  c.measure(Control::queued, [=](Run& run) {
    const double bytes = 4.0 * static_cast<double>(n);
    run.launch(ISTHMUS_KERNEL(gather), {.grid = static_cast<unsigned>((n + 255) / 256), .block = 256},
               {.bytes_read = bytes, .bytes_written = bytes}, n, stride, in.device(), out.device());
  });
}

const Registration registration = Workload("example/strided_gather", strided_gather)
                                      .version(1)
                                      .summary("every n-th element of an array, gathered")
                                      .placements(isthmus::memory::all_placements())
                                      .stagings({Staging::none})
                                      .no_flops()
                                      .axis(number_axis("n", "elements that are gathered", 1 << 20))
                                      .axis(number_axis("stride", "elements from each of them to the next", 4))
                                      .sizes({"n"}, {1 << 12, 1 << 16, 1 << 20, 1 << 24});

}  // namespace
