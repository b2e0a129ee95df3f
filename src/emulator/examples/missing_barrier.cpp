// Kernel with two kinds of barrier errors, and the emulator's reports of them. Exit code 0 means that both were found.

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "emulator/emulator.hpp"
#include "emulator/kernel.hpp"
#include "emulator/launch.hpp"

namespace {

constexpr unsigned threads = 256;

enum class Barrier { there, absent, in_a_branch };

/// Writes to each output the value that the neighbouring thread wrote to shared memory.
template <Barrier barrier>
__global__ void shift(const float* in, float* out) {
  auto* tile = emulator::dynamic_shared<float>();
  tile[threadIdx.x] = in[threadIdx.x];
  if constexpr (barrier == Barrier::there) __syncthreads();
  if constexpr (barrier == Barrier::in_a_branch) {
    if (threadIdx.x % 2 == 0) __syncthreads();
    __syncthreads();
  }
  out[threadIdx.x] = tile[(threadIdx.x + 1) % blockDim.x];
}

/// Runs the kernel, prints the result, and returns how many of the values are NaN.
int run(const char* what, emulator::Kernel<const float*, float*> kernel, const char* machine) {
  emulator::configure(emulator::parse(machine));
  constexpr std::size_t bytes = threads * sizeof(float);
  std::vector<float> values(threads, 1.0f);
  auto* in = static_cast<float*>(emulator::malloc_device(bytes));
  auto* out = static_cast<float*>(emulator::malloc_device(bytes));
  emulator::copy(in, values.data(), bytes);
  emulator::Stream stream;
  emulator::launch(stream, kernel, {.grid = 1, .block = threads, .shared_bytes = bytes}, in, out);
  int wrong = 0;
  try {
    stream.synchronize();
    emulator::copy(values.data(), out, bytes);
    for (const float value : values) wrong += std::isnan(value) ? 1 : 0;
    std::printf("%s, %s: %d of %u values were read before they were written\n", what, machine, wrong, threads);
  } catch (const emulator::Error& error) {
    wrong = static_cast<int>(threads);
    std::printf("%s, %s: %s\n", what, machine, error.what());
  }
  emulator::free_device(out);
  emulator::free_device(in);
  return wrong;
}

}  // namespace

int main() {
  bool found = true;
  for (const char* machine : {"order=natural", "order=reverse"}) {
    found = run("barrier there", EMULATOR_KERNEL(shift<Barrier::there>), machine) == 0 && found;
    found = run("barrier absent", EMULATOR_KERNEL(shift<Barrier::absent>), machine) != 0 && found;
    found = run("barrier in a branch", EMULATOR_KERNEL(shift<Barrier::in_a_branch>), machine) != 0 && found;
  }
  return found ? 0 : 1;
}
