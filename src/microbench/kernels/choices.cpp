#include "microbench/kernels/choices.hpp"

#include <limits>

namespace isthmus::microbench {

using namespace workload;

Staging available_staging(Case& c) {
  if (c.staging() == Staging::bulk && !c.device().bulk_shared_copy) {
    c.fallback(c.device().async_shared_copy
                   ? "async: this device has no bulk copy into shared memory"
                   : "async through registers: this device cannot copy into shared memory asynchronously");
    return Staging::async;
  }
  if (c.staging() == Staging::async && !c.device().async_shared_copy) {
    c.fallback("async through registers: this device cannot copy into shared memory asynchronously");
  }
  return c.staging();
}

std::size_t shared_bytes_for(Case& c, std::size_t needed) {
  const std::size_t bytes = std::max(needed, static_cast<std::size_t>(c.integer("shared_bytes")));
  const std::size_t limit = c.device().shared_per_block;
  if (bytes > limit) {
    throw Skip("the tiles need " + std::to_string(bytes) + " bytes of shared memory per block, but this device has " +
               std::to_string(limit) + ": choose a smaller tile or depth");
  }
  return bytes;
}

unsigned automatic_blocks(Case& c, const device::KernelInfo& info, std::uint64_t pieces, unsigned waves) {
  constexpr std::uint64_t most = std::numeric_limits<int>::max();
  const auto asked = static_cast<std::uint64_t>(c.integer("blocks"));
  if (asked != 0) return static_cast<unsigned>(std::min(asked, most));
  std::uint64_t blocks = std::clamp<std::uint64_t>(pieces, 1, most);
  if (waves != 0) {
    const auto resident = static_cast<std::uint64_t>(std::max(info.blocks_per_multiprocessor.value_or(1), 1)) *
                          static_cast<std::uint64_t>(std::max(c.device().multiprocessors, 1));
    blocks = std::min(blocks, resident * waves);
  }
  return static_cast<unsigned>(blocks);
}

Workload micro_workload(const std::string& name, std::function<void(Case&)> function, std::string summary,
                        const std::string& table_name) {
  Workload w("microbench/" + name, std::move(function));
  w.version(1)
      .summary(std::move(summary))
      .source("pipelining-taco2025, section 3.2.1 and Table 2" + table_name)
      .tags({"micro", "modes"})
      .stagings({Staging::none, Staging::direct, Staging::async, Staging::bulk});
  return w;
}

void add_geometry_axes(Workload& workload, std::vector<AxisValue> allowed_threads) {
  auto threads = number_axis("threads", "threads per block", 256);
  threads.choices = std::move(allowed_threads);
  auto depth = number_axis("depth", "tile buffers of async and bulk staging (direct has one)", 3, 2);
  depth.choices = Depths::allowed();
  workload.placements(memory::all_placements())
      .axis(how(std::move(threads)))
      .axis(how(number_axis("blocks", "blocks of the grid; 0 chooses by the device and the work", 0, 0)))
      .axis(how(std::move(depth)))
      .axis(how(number_axis("shared_bytes",
                            "dynamic shared memory of a block in staged kernels; 0 is what tile and depth need", 0, 0)))
      .axis(how(number_axis("carveout", "shared memory's share of the L1 cache, percent; -1 leaves the driver's choice",
                            -1, -1)));
}

void add_vector_axes(Workload& workload, std::vector<AxisValue> tiles) {
  auto tile = number_axis("tile", "elements of a staged tile; shared_bytes, where given, chooses it instead", 4096);
  tile.choices = std::move(tiles);
  workload.axis(std::move(tile))
      .axis(number_axis(
          "iterations",
          "arithmetic passes over an element (default 1: moving data; the paper's presets use the original's 100)", 1))
      .axis(how(choice_axis("reuse",
                            "where an element lives between its iterations: register, or shared as in the original",
                            {"register", "shared"})));
}

void add_vector_sizes(Workload& workload, std::int64_t mega_gi) {
  constexpr std::int64_t ki = 1024, mi = ki * ki, gi = ki * mi;
  workload.sizes({"n"}, {256 * ki, 2 * mi, 16 * mi, 128 * mi, gi, mega_gi * gi});
}

void add_matrix_sizes(Workload& workload, const std::vector<std::string>& extents, std::int64_t super_ki,
                      std::int64_t mega_ki) {
  workload.sizes(extents, {512, 1024, 4096, 8192, super_ki * 1024, mega_ki * 1024});
}

std::size_t tile_elements(Case& c, std::size_t buffers, const std::vector<AxisValue>& allowed) {
  const auto shared_bytes = static_cast<std::size_t>(c.integer("shared_bytes"));
  if (shared_bytes == 0) return static_cast<std::size_t>(c.integer("tile"));
  const std::size_t fitting = shared_bytes / (buffers * sizeof(float));
  std::size_t tile = 0;
  for (const AxisValue& value : allowed) {
    const auto elements = static_cast<std::size_t>(std::get<std::int64_t>(value));
    if (elements <= fitting) tile = std::max(tile, elements);
  }
  if (tile == 0) {
    throw Skip("shared_bytes=" + std::to_string(shared_bytes) + " is too small for a tile: " + std::to_string(buffers) +
               " buffers of at least " + std::to_string(std::get<std::int64_t>(allowed.front()) * sizeof(float)) +
               " bytes are needed");
  }
  return tile;
}

void add_paper_preset(Workload& workload, AxisSettings settings) {
  settings.insert(settings.begin(), {{"threads", 256}, {"blocks", 64}, {"depth", 2}});
  workload.preset(
      {.name = "paper-fig4",
       .help = "Figure 4: super and mega in the six modes, in the paper's geometry (64 blocks of 256 threads)",
       .settings = std::move(settings),
       .sizes = {"super", "mega"},
       .sweep_axis = "",
       .sweep = {},
       .modes = {"baseline", "async", "uvm", "uvm_async", "pm", "pm_async"}});
}

}  // namespace isthmus::microbench
