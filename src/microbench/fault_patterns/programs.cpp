// faults/stream and faults/sgemm: two of the paper's programs, with their arrays in any placement.

#include "microbench/axes.hpp"
#include "microbench/fault_patterns/shared_region.hpp"
#include "microbench/launch_shape.hpp"
#include "microbench/products.hpp"
#include "workload/library.hpp"

namespace isthmus::microbench::fault_patterns {

namespace {

using namespace workload;

// for (i = 0; i < count; ++i) a[i] = b[i] + scalar * c[i];
__global__ void triad(float* a, const float* b, const float* c, float scalar, std::size_t count) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    a[i] = b[i] + scalar * c[i];
}

void require_placement(const Case& c, std::size_t bytes) {
  if (c.placement()->managed()) require_fitting(c.device(), bytes);
}

void stream(Case& c) {
  constexpr float kScalar = 3;
  const std::size_t n = c.extent("n");
  require_placement(c, 3 * sizeof(float) * n);
  const auto b_values = uniform(c.seed(), 0, -1, 1), c_values = uniform(c.seed(), 1, -1, 1);
  auto second = c.input<float>("b", n, b_values);
  auto third = c.input<float>("c", n, c_values);
  auto first = c.output<float>("a", n);
  c.verify(first, [=](std::size_t i) { return b_values(i) + kScalar * c_values(i); }, {.absolute = 4 * 0x1p-23});
  const double bytes = static_cast<double>(n) * sizeof(float);
  const auto shape = shape_for({.threads = 256}, n, c.device());
  c.measure(Control::queued, [=](Run& run) {
    run.launch(ISTHMUS_KERNEL(triad), shape, {.bytes_read = 2 * bytes, .bytes_written = bytes, .flops = bytes / 2},
               first.device(), second.device(), third.device(), kScalar, n);
  });
}

void sgemm(Case& c) {
  const std::size_t n = c.extent("n");
  require_placement(c, 3 * sizeof(float) * n * n);
  const auto blas = load_library<device::Blas>();
  const auto a_values = uniform(c.seed(), 0, -1, 1), b_values = uniform(c.seed(), 1, -1, 1);
  auto a = c.input<float>("a", n * n, a_values);
  auto b = c.input<float>("b", n * n, b_values);
  auto out = c.output<float>("c", n * n);
  const double length = static_cast<double>(n);
  c.measure(Control::queued, [=](Run& run) {
    run.call("sgemm",
             {.bytes_read = 8 * length * length,
              .bytes_written = 4 * length * length,
              .flops = 2 * length * length * length},
             [&](device::Stream& stream) {
               const auto m = static_cast<std::int64_t>(n);
               blas->sgemm(stream, m, m, m, a.device(), m, b.device(), m, out.device(), m);
             });
  });
  c.verify(
      out, [=](std::size_t i) { return gemm_element(i / n, i % n, n, n, a_values, b_values); },
      {.absolute = gemm_tolerance(n)}, "sampled double dot products");
}

Workload workload(const char* name, void (*function)(Case&), const char* summary, const char* help) {
  Workload w(std::string("faults/") + name, function);
  w.version(1)
      .summary(summary)
      .source("uvm-batches-taco2024, Tables 2 and 3")
      .tags({"faults", name})
      .placements(memory::all_placements())
      .stagings({})
      .axis(number_axis("n", help, 1024))
      .axis(driver_prefetch_axis());
  return w;
}

const Registration stream_registration(workload("stream", stream, "triad of floats, a = b + 3·c",
                                                "elements of an array")
                                           .size("tiny", {{"n", 16 * kKi}})
                                           .size("small", {{"n", 16 * kMi}})
                                           .size("medium", {{"n", 128 * kMi}})
                                           .size("large", {{"n", kGi}})
                                           .size("mega", {{"n", 4 * kGi}})
                                           .preset({.name = "paper-table3",
                                                    .help = "Table 3: the driver's prefetcher is off",
                                                    .settings = {{"n", 16 * kMi}, {"driver_prefetch", "off"}}}));
const Registration sgemm_registration(workload("sgemm", sgemm, "the vendor's C = A·B in fp32", "rows of each matrix")
                                          .size("tiny", {{"n", 128}})
                                          .size("small", {{"n", 2048}})
                                          .size("medium", {{"n", 8192}})
                                          .size("large", {{"n", 16384}})
                                          .size("mega", {{"n", 65536}})
                                          .preset({.name = "paper-table3",
                                                   .help = "Table 3: the driver's prefetcher is off",
                                                   .settings = {{"n", 4096}, {"driver_prefetch", "off"}}}));

}  // namespace
}  // namespace isthmus::microbench::fault_patterns
