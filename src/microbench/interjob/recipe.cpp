#include "microbench/interjob/recipe.hpp"

#include <stdexcept>
#include <string>

#include "microbench/kernels/plain.hpp"

namespace isthmus::microbench::interjob {

namespace {

using workload::Uniform;

float* floats(void* pointer) {
  return static_cast<float*>(pointer);
}

/// Returns an n × n operand with padded rows. The operand of the next job begins one row later.
Operand matrix(std::size_t n, const Uniform& values, bool shared) {
  const std::size_t pitch = workload::row_pitch<float>(n);
  return {.bytes = n * pitch * sizeof(float),
          .read = true,
          .step = shared ? 0 : pitch * sizeof(float),
          .columns = n,
          .pitch = pitch,
          .values = values};
}
Operand vector(std::size_t elements, const Uniform& values, std::size_t step) {
  return {.bytes = elements * sizeof(float),
          .read = true,
          .step = step * sizeof(float),
          .columns = elements,
          .pitch = elements,
          .values = values};
}
Operand result(Operand of) {
  of.read = false;
  of.written = true;
  of.step = 0;
  return of;
}

}  // namespace

std::size_t Recipe::results() const {
  return output().bytes / sizeof(float) / output().pitch * output().columns;
}

std::size_t Recipe::device_bytes() const {
  std::size_t bytes = 0;
  for (const auto& operand : operands) bytes += operand.bytes;
  return bytes;
}

Recipe recipe(std::string_view name, std::size_t n, std::uint64_t seed) {
  const Uniform first = workload::uniform(seed, 0, -1, 1), second = workload::uniform(seed, 1, -1, 1);
  // Input values of a job, indexed by the job's elements. Those of a later job begin further on in the same array.
  const auto later = [](const Uniform& values, std::size_t by) {
    return [values, by](std::size_t i) { return values(i + by); };
  };
  const auto square = static_cast<double>(n) * static_cast<double>(n);
  Recipe r;
  if (name == "gemv") {
    r.operands = {matrix(n, first, false), vector(n, second, 0), result(vector(n, {}, 0))};
    r.result = 2;
    r.queue = [n](device::Stream& stream, std::span<void* const> on) {
      queue_gemv(stream, floats(on[0]), workload::row_pitch<float>(n), floats(on[1]), floats(on[2]), n, n);
    };
    r.expected = [=](std::size_t job, std::size_t i) { return gemv_element(i, n, later(first, job * n), second); };
    r.tolerance = gemv_tolerance(n);
    r.flops = 2 * square;
  } else if (name == "gemm") {
    r.operands = {matrix(n, first, false), matrix(n, second, true), result(matrix(n, {}, true))};
    r.result = 2;
    r.queue = [n](device::Stream& stream, std::span<void* const> on) {
      queue_gemm(stream, floats(on[0]), floats(on[1]), floats(on[2]), n, n, n);
    };
    r.expected = [=](std::size_t job, std::size_t i) {
      return gemm_element(i / n, i % n, n, n, later(first, job * n), second);
    };
    r.tolerance = gemm_tolerance(n);
    r.flops = 2 * square * static_cast<double>(n);
  } else if (name == "saxpy") {
    constexpr std::size_t step = 128;
    const std::size_t elements = n * n;
    r.operands = {vector(elements, first, step), vector(elements, second, step)};
    r.operands[1].written = true;
    r.result = 1;
    r.queue = [elements](device::Stream& stream, std::span<void* const> on) {
      queue_saxpy(stream, floats(on[0]), floats(on[1]), elements);
    };
    r.expected = [=](std::size_t job, std::size_t i) {
      return double{kSaxpyFactor} * first(i + job * step) + second(i + job * step);
    };
    r.tolerance = saxpy_tolerance();
    r.flops = 2 * square;
  } else if (name == "conv2d") {
    r.operands = {matrix(n, first, false), result(matrix(n, {}, true))};
    r.result = 1;
    r.queue = [n](device::Stream& stream, std::span<void* const> on) {
      queue_conv2d(stream, floats(on[0]), floats(on[1]), n, n);
    };
    r.expected = [=](std::size_t job, std::size_t i) {
      return conv2d_element(i / n, i % n, n, n, later(first, job * n));
    };
    r.tolerance = kConv2dTolerance;
    r.flops = 17 * square;
  } else {
    throw std::logic_error("there is no job " + std::string(name));
  }
  return r;
}

}  // namespace isthmus::microbench::interjob
