// Training of a network with one hidden layer of 16 units: the forward pass over all input weights, the errors, and the
// update of the weights.

#include <algorithm>
#include <cmath>
#include <vector>

#include "apps/checks.hpp"
#include "apps/inputs.hpp"
#include "apps/modes.hpp"
#include "apps/unified.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;

constexpr unsigned hidden = 16, threads = 256;
constexpr unsigned lanes = hidden / 4;                      // threads per input; each has four of its weights
constexpr unsigned rows = threads / lanes, in_flight = 4;   // inputs per block at once; weights in flight per thread
constexpr unsigned tile_rows = rows * in_flight, ring = 3;  // inputs per staged tile
constexpr double eta = 0.3, target = 0.1;
constexpr float momentum = 0.3f;

/// Amount that an epoch adds to the weight of each hidden unit, for an input of 1.
struct Steps {
  float of[hidden];
};

/// Returns a hidden unit's step, computed in double from the units' sums, on the device or on the host.
__host__ __device__ inline float learn(unsigned unit, const double* sums, const float* second_weights) {
  double output = second_weights[hidden];  // the bias
  for (unsigned j = 0; j < hidden; ++j) output = fma(double{second_weights[j]}, 1 / (1 + exp(-sums[j])), output);
  output = 1 / (1 + exp(-output));
  const double delta = output * (1 - output) * (target - output), own = 1 / (1 + exp(-sums[unit]));
  return static_cast<float>(eta * own * (1 - own) * delta * double{second_weights[unit]});
}

/// Kernel body that sums weights times inputs; each block computes one part of the sums.
struct Forward {
  float* parts;
  Four sum;
  __device__ void begin() { sum = {}; }
  __device__ void use(std::size_t, const float4& w, float x) { sum = multiply_add(w, x, sum); }
  __device__ void end() {
    __shared__ Four sums[threads / 32][lanes];
    for (int bits = device::warp_size() / 2; bits >= static_cast<int>(lanes); bits /= 2) {
      sum.x += exchanged(sum.x, bits);
      sum.y += exchanged(sum.y, bits);
      sum.z += exchanged(sum.z, bits);
      sum.w += exchanged(sum.w, bits);
    }
    if (device::lane() < static_cast<int>(lanes)) sums[device::warp_in_block()][device::lane()] = sum;
    __syncthreads();
    if (threadIdx.x >= hidden) return;
    float total = 0;
    for (unsigned warp = 0; warp < threads / static_cast<unsigned>(device::warp_size()); ++warp)
      total += reinterpret_cast<const float*>(sums[warp])[threadIdx.x];
    parts[blockIdx.x * hidden + threadIdx.x] = total;
  }
};

/// Kernel body that updates the weights and keeps the changes for the next epoch.
struct Adjust {
  float4 *weights, *change;
  const Steps* steps;
  bool first;  // first epoch: `change` has no values yet
  Four step;
  __device__ void begin() { step = reinterpret_cast<const Four*>(steps->of)[threadIdx.x % lanes]; }
  __device__ void use(std::size_t i, const float4& w, float x) {
    const float4 was = first ? make_float4(0, 0, 0, 0) : change[i];
    const float4 now = change[i] = multiply_add(was, momentum, times(step, x));
    weights[i] = sum_of(w, now);
  }
  __device__ void end() {}
};

// Forward:  for (i = 0; i < n; ++i)
//             for (j = 0; j < hidden; ++j) sum[j] += w[i][j] * x[i];
// Adjust:   for (i = 0; i < n; ++i)
//             for (j = 0; j < hidden; ++j) w[i][j] += change[i][j] = momentum * change[i][j] + step[j] * x[i];
template <class Body>
__global__ void __launch_bounds__(threads) backprop_plain(std::size_t n, const float4* w, const float* x, Body body) {
  body.begin();
  const std::size_t row = threadIdx.x / lanes, lane = threadIdx.x % lanes;
  for (std::size_t first = std::size_t{blockIdx.x} * tile_rows; first < n;
       first += std::size_t{gridDim.x} * tile_rows) {
    float4 weights[in_flight];
    float inputs[in_flight];
#pragma unroll
    for (unsigned j = 0; j < in_flight; ++j) {
      const std::size_t i = first + j * rows + row;
      weights[j] = i < n ? w[i * lanes + lane] : make_float4(0, 0, 0, 0);
      inputs[j] = i < n ? x[i] : 0;
    }
#pragma unroll
    for (unsigned j = 0; j < in_flight; ++j) {
      const std::size_t i = first + j * rows + row;
      if (i < n) body.use(i * lanes + lane, weights[j], inputs[j]);
    }
  }
  body.end();
}

// Does the same as backprop_plain, with weights and inputs copied into shared memory.
template <TileStaging staging, unsigned depth, class Body>
__global__ void __launch_bounds__(threads) backprop_staged(std::size_t n, const float4* w, const float* x, Body body) {
  __shared__ BulkBarrier arrived[device::pipeline_barriers<staging, depth>];
  float* tiles = device::dynamic_shared<float>();
  constexpr unsigned tile_floats = tile_rows * (hidden + 1);
  device::TilePipeline<staging, depth, threads> pipeline(arrived);
  const TilesOfBlock<tile_rows> mine{n};
  body.begin();
  pipeline.run(
      mine.count(),
      [&](auto& copier, unsigned stage, std::uint64_t tile) {
        float* to = tiles + stage * tile_floats;
        copier.run(to, reinterpret_cast<const float*>(w) + mine.first(tile) * hidden, mine.length(tile) * hidden);
        copier.run(to + tile_rows * hidden, x + mine.first(tile), mine.length(tile));
      },
      [&](unsigned stage, std::uint64_t tile) {
        const float* from = tiles + stage * tile_floats;
        for (unsigned k = threadIdx.x; k < mine.length(tile) * lanes; k += threads)
          body.use(mine.first(tile) * lanes + k, reinterpret_cast<const float4*>(from)[k],
                   from[tile_rows * hidden + k / lanes]);
      });
  body.end();
}

// Adds up the blocks' parts of each hidden unit's sum and computes the steps.
__global__ void __launch_bounds__(threads) backprop_learn(unsigned blocks, const float* __restrict__ parts,
                                                          const float* __restrict__ second_weights, Steps* steps) {
  __shared__ double sums[threads / hidden][hidden];
  const unsigned unit = threadIdx.x % hidden, slice = threadIdx.x / hidden;
  double sum = 0;
  for (unsigned block = slice; block < blocks; block += threads / hidden) sum += parts[block * hidden + unit];
  sums[slice][unit] = sum;
  __syncthreads();
  for (unsigned half = threads / hidden / 2; half > 0; half /= 2) {
    if (slice < half) sums[slice][unit] += sums[slice + half][unit];
    __syncthreads();
  }
  if (slice == 0) steps->of[unit] = learn(unit, sums[0], second_weights);
}
__global__ void backprop_keep(Steps steps, Steps* to) {
  to->of[threadIdx.x] = steps.of[threadIdx.x];
}

/// Inputs and weights of the network. They are odd whole numbers, with the weights scaled by a power of two, so that
/// sums are exact in fp32 in any order (NOTES.md).
struct Network {
  std::uint64_t seed;
  std::size_t n;  // inputs, including the bias before them
  float scale() const { return std::exp2(-std::round(std::log2(5 * std::sqrt(static_cast<float>(n))))); }
  float odd(std::uint64_t stream, std::size_t i) const { return OddNumbers{seed, stream}(i); }
  float input(std::size_t i) const { return i == 0 ? 1 : odd(0, i); }
  float weight(std::size_t i) const { return odd(1, i) * scale(); }
  float second(std::size_t i) const { return odd(2, i) * 0.25f; }
};

/// Returns the total added to each weight in all epochs, for an input of 1. An epoch adds a multiple of the input to a
/// weight, so the sums of later epochs follow from those of the first.
std::vector<double> all_steps(const Network& network, std::size_t epochs) {
  const auto start = sums_of<double, hidden + 1>(network.n, 1 << 16, [&](std::size_t i, auto& sums) {
    const double x = network.input(i);
    for (unsigned j = 0; j < hidden; ++j) sums[j] += x * network.odd(1, i * hidden + j);
    sums[hidden] += x * x;
  });
  std::vector<double> total(hidden), change(hidden);
  for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
    double own[hidden], output = network.second(hidden);  // written independently of learn()
    for (unsigned j = 0; j < hidden; ++j) {
      own[j] = 0.5 + 0.5 * std::tanh((start[j] * network.scale() + total[j] * start[hidden]) / 2);
      output += network.second(j) * own[j];
    }
    output = 0.5 + 0.5 * std::tanh(output / 2);
    const double delta = output * (1 - output) * (0.1 - output);
    for (unsigned j = 0; j < hidden; ++j)
      total[j] += change[j] = 0.3 * change[j] + 0.3 * own[j] * (1 - own[j]) * delta * network.second(j);
  }
  return total;
}

void backprop(Case& c) {
  const std::size_t epochs = c.extent("epochs"), inputs = c.extent("inputs");
  refuse_if(inputs >> 36 != 0, "sums over so many inputs are not exact: choose fewer than 2^36");
  const Network network{c.seed(), inputs + 1};
  auto x = c.input<float>("inputs", network.n, [=](std::size_t i) { return network.input(i); });
  auto w = c.inout<float>("weights", network.n * hidden, [=](std::size_t i) { return network.weight(i); });
  auto second = c.input<float>("second weights", hidden + 1, [=](std::size_t i) { return network.second(i); });
  auto change = c.scratch<float>("change", w.size());
  auto steps = c.scratch<Steps>("steps", 1);
  const auto blocks = static_cast<unsigned>(std::min<std::size_t>(
      (network.n + tile_rows - 1) / tile_rows, 8 * static_cast<unsigned>(c.device().multiprocessors)));
  auto parts = c.scratch<float>("parts", blocks * hidden);

  const auto right =
      c.shared<std::vector<double>>("steps", hidden * sizeof(double), [=] { return all_steps(network, epochs); });
  c.verify(
      w, [=](std::size_t i) { return network.weight(i) + (*right)[i % hidden] * network.input(i / hidden); },
      {.absolute = 0x1p-22 * static_cast<double>(epochs), .relative = 0x1p-20}, "the gradient, in double");
  if (epochs == 1) c.verify_same(w);
  c.repeats(epochs);

  const bool on_host = c.choice("loop") == "host";
  const auto measure = [&](auto forward, auto adjust, std::size_t shared_bytes) {
    c.measure(on_host ? Control::waits : Control::queued, [=](Run& run) {
      auto *weights = reinterpret_cast<float4*>(w.device()), *changes = reinterpret_cast<float4*>(change.device());
      const auto pass = [&](auto kernel, const Traffic& traffic, auto body) {
        run.launch(kernel, {.grid = blocks, .block = threads, .shared_bytes = shared_bytes}, traffic, network.n,
                   weights, x.device(), body);
      };
      const double all = static_cast<double>(network.n), read = 4 * all * (hidden + 1), products = 2 * all * hidden;
      pass(forward, {.bytes_read = read, .flops = products}, Forward{.parts = parts.device(), .sum = {}});
      if (on_host) {
        const auto each = run.read(parts, 0, blocks * hidden), outer = run.read(second, 0, hidden + 1);
        double sums[hidden] = {};
        for (std::size_t i = 0; i < each.size(); ++i) sums[i % hidden] += each[i];
        Steps found{};
        for (unsigned j = 0; j < hidden; ++j) found.of[j] = learn(j, sums, outer.data());
        run.launch(ISTHMUS_KERNEL(backprop_keep), {.block = hidden}, {}, found, steps.device());
      } else {
        run.launch(ISTHMUS_KERNEL(backprop_learn), {.block = threads}, {}, blocks, parts.device(), second.device(),
                   steps.device());
      }
      const bool first = run.repeat() == 0;
      const double before = first ? 0 : 4 * all * hidden;
      pass(adjust, {.bytes_read = read + before, .bytes_written = 8 * all * hidden, .flops = 2 * products},
           Adjust{weights, changes, steps.device(), first, {}});
    });
  };
  if (c.staging() == Staging::none)
    return measure(Kernel{"forward", backprop_plain<Forward>}, Kernel{"adjust", backprop_plain<Adjust>}, 0);
  with_staging<ring>(c, [&](auto how, auto depth) {
    measure(Kernel{"forward", backprop_staged<how(), depth(), Forward>},
            Kernel{"adjust", backprop_staged<how(), depth(), Adjust>},
            depth() * tile_rows * (hidden + 1) * sizeof(float));
  });
}

const Registration registration = with_data(
    paper_program("apps/backprop", backprop, "Rodinia's backprop", {{"loop", "host"}})
        .tags({"app", "modes", "pipelining", "mi300a"})
        .summary("training of a network with one hidden layer of 16: forward, errors, adjustment of the weights")
        .stagings({Staging::none, Staging::direct, Staging::async, Staging::bulk})
        .axis(number_axis("inputs", "units of the input layer", 1 << 20))
        .axis(number_axis("epochs", "steps of learning", 1))
        .axis(loop_axis("where errors are computed from the sums"))
        .preset(unified_preset({{"loop", "host"}}))
        .sizes({"inputs"}, {1 << 14, 1 << 17, 1 << 20, 1 << 23, 1 << 25, 1 << 26}));

}  // namespace
}  // namespace isthmus::apps
