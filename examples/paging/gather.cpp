// Example of a table in host memory that is eight times as large as its frames on the GPU. A kernel increments entries
// in scattered order: each warp visits the entries of its list and copies in the pages that it needs.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "device/kernel/kernel.hpp"
#include "memory/block.hpp"
#include "paging/array.hpp"
#include "paging/pager.hpp"

using namespace isthmus;

__global__ void count(paging::Array<std::uint32_t> table, const std::uint32_t* entries, std::size_t n) {
  auto writer = table.writer();  // pins one page for the warp, and moves on when the next entry is on another page
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  const std::size_t lane = threadIdx.x % static_cast<unsigned>(device::warp_size());
  for (std::size_t first = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x - lane; first < n; first += stride) {
    const std::size_t i = first + lane;  // all lanes take part, though lanes beyond the end visit nothing
    writer.visit(i < n ? entries[i] : table.size(), [](std::uint32_t* entry) { atomicAdd(entry, 1u); });
  }
}

int main() {
  constexpr std::size_t entries = std::size_t{1} << 20, visits = std::size_t{1} << 16, page = 4096;
  memory::Block table(memory::Kind::mapped, entries * sizeof(std::uint32_t));
  auto* counts = reinterpret_cast<std::uint32_t*>(table.data());
  std::fill_n(counts, entries, 0u);

  std::vector<std::uint32_t> list(visits);
  for (std::size_t i = 0; i < visits; ++i) list[i] = static_cast<std::uint32_t>(i * 2654435761u % entries);
  const memory::Block on_device(memory::Kind::device, visits * sizeof(std::uint32_t));
  device::copy(on_device.data(), list.data(), on_device.size());

  paging::Pager pager({.page_bytes = page, .frames = table.size() / page / 8});
  const paging::Region region = pager.open(table, "counts");
  device::Stream stream;
  pager.launch(stream, ISTHMUS_KERNEL(count), {.grid = 8, .block = 64}, {.pages = 1},
               paging::Array<std::uint32_t>(region), reinterpret_cast<const std::uint32_t*>(on_device.data()), visits);
  pager.flush(stream);
  pager.check(stream);

  std::size_t wrong = 0;
  for (const std::uint32_t entry : list) wrong += counts[entry] == 0 ? 1 : 0;
  std::size_t sum = 0;
  for (std::size_t i = 0; i < entries; ++i) sum += counts[i];
  const auto said = pager.statistics(stream);
  std::printf("%zu visits, %zu counted, %zu entries missed; %llu pages came, %llu had to go\n", visits, sum, wrong,
              static_cast<unsigned long long>(said.faults), static_cast<unsigned long long>(said.evictions));
  return sum == visits && wrong == 0 ? 0 : 1;
}
