#include "microbench/stream/checks.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>

#include "memory/block.hpp"
#include "memory/parallel.hpp"

namespace isthmus::microbench::stream {

namespace {

constexpr std::size_t kGrain = std::size_t{1} << 16;
constexpr std::size_t kBounce = std::size_t{2} << 20;  // elements copied through the host at a time

std::size_t compare(Operation operation, std::uint64_t seed, const double* out, std::size_t first, std::size_t count) {
  std::atomic<std::size_t> wrong = 0;
  memory::parallel_for(count, kGrain, [&](std::size_t begin, std::size_t end) {
    std::size_t found = 0;
    for (std::size_t i = begin; i < end; ++i) found += out[i] == expected(operation, seed, first + i) ? 0 : 1;
    wrong += found;
  });
  return wrong;
}

}  // namespace

std::size_t wrong_results(Operation operation, std::uint64_t seed, const double* out, std::size_t count, Reach reach) {
  if (reach == Reach::host) return compare(operation, seed, out, 0, count);
  const std::size_t most = std::min(count, kBounce);
  const auto bounce = std::make_unique_for_overwrite<double[]>(most);
  std::optional<memory::Block> near;
  if (reach == Reach::through_device) near.emplace(memory::Kind::device, most * sizeof(double));
  std::size_t wrong = 0;
  for (std::size_t done = 0; done < count; done += kBounce) {
    const std::size_t part = std::min(kBounce, count - done), bytes = part * sizeof(double);
    if (near) device::copy(near->data(), out + done, bytes);
    device::copy(bounce.get(), near ? static_cast<const void*>(near->data()) : out + done, bytes);
    wrong += compare(operation, seed, bounce.get(), done, part);
  }
  return wrong;
}

double expected_sum(std::uint64_t seed, std::size_t count) {
  std::atomic<std::uint64_t> total = 0;
  memory::parallel_for(count, kGrain, [&](std::size_t begin, std::size_t end) {
    std::uint64_t mine = 0;
    for (std::size_t i = begin; i < end; ++i) mine += static_cast<std::uint64_t>(input(seed, 0, i));
    total += mine;
  });
  return static_cast<double>(total.load());
}

}  // namespace isthmus::microbench::stream
