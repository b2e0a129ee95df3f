// Properties of the emulated device, and launches.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "device/host/emulated.hpp"
#include "device/kernel/launch.hpp"
#include "emulator/devices.hpp"
#include "emulator/emulator.hpp"
#include "emulator/launch.hpp"

namespace isthmus::device {

Backend backend() noexcept {
  return Backend::emulator;
}

DeviceInfo info(int index) {
  return call("info", [&] {
    emulator::require_device(index, "info");
    const auto c = emulator::configuration();
    DeviceInfo d;
    d.index = index;
    d.name = "Isthmus emulator";
    d.uuid = fmt::format("EMU-00000000-0000-0000-0000-{:012}", index);
    d.arch = "emulated";
    d.driver = "none";
    d.runtime = "none";
    d.warp_size = static_cast<int>(c.warp_size);
    // A multiprocessor runs one block, no matter how large the block is. A persistent kernel's grid, multiprocessors ×
    // blocks_per_multiprocessor, is therefore the grid that a cooperative launch accepts.
    d.multiprocessors = static_cast<int>(c.resident_blocks);
    d.max_threads_per_block = d.max_threads_per_multiprocessor = emulator::threads_per_block;
    d.max_resident_blocks = static_cast<int>(c.resident_blocks);
    d.shared_per_block = c.shared_per_block;
    d.shared_per_multiprocessor = std::max(std::size_t{228} << 10, c.shared_per_block + 1024);
    d.l2_bytes = std::size_t{4} << 20;
    d.memory_bytes = c.memory_bytes;
    d.copy_engines = 2;
    d.integrated = c.integrated;
    d.managed = c.managed;
    d.concurrent_managed = c.managed && c.concurrent_managed;
    d.pageable_access = c.pageable_access;
    d.memory_pools = c.memory_pools;
    d.virtual_memory = c.virtual_memory;
    d.can_map_host = c.map_host;
    d.cooperative = c.cooperative;
    d.async_shared_copy = c.async_copy;
    d.bulk_shared_copy = c.bulk_copy;
    return d;
  });
}

int count() {
  return call("count", [] { return emulator::count(); });
}

void select(int index) {
  call("select", [&] { emulator::select(index); });
}

int selected() {
  return emulator::selected();
}

PeerInfo peer_info(int device, int peer) {
  return call("peer_info", [&] {
    const auto known = emulator::peer_info(device, peer);
    return PeerInfo{.access = known.access, .native_atomics = known.native_atomics};
  });
}

void enable_peer_access(int peer) {
  call("enable_peer_access", [&] { emulator::enable_peer_access(peer); });
}

void disable_peer_access(int peer) {
  call("disable_peer_access", [&] { emulator::disable_peer_access(peer); });
}

MemoryInfo memory_info() {
  return call("memory_info", [] {
    const auto [free, total] = emulator::memory_info();
    return MemoryInfo{free, total};
  });
}

Occupancy occupancy(int) noexcept {
  try {
    std::vector<unsigned> processes(emulator::configuration().others);
    std::iota(processes.begin(), processes.end(), 1u);
    return {.processes = std::move(processes), .mig = false};
  } catch (...) {
    return {};
  }
}

Telemetry telemetry(int) noexcept {
  return {};
}
void refresh(Telemetry&, int) noexcept {}
std::optional<std::size_t> driver_memory_used(int) noexcept {
  return std::nullopt;
}

std::optional<Link> link(int, int, std::string* reason) noexcept {
  if (reason != nullptr) *reason = "emulated";
  return std::nullopt;
}

void synchronize() {
  call("synchronize", [] { emulator::synchronize(); });
}

void set_work_deadline(double seconds_from_now) noexcept {
  emulator::set_work_deadline(seconds_from_now);
}

void load_kernels() {
  injection_point("load_kernels");
}

namespace detail {
namespace {

emulator::LaunchShape shape_of(const LaunchShape& shape) {
  return {.grid = {shape.grid.x, shape.grid.y, shape.grid.z},
          .block = {shape.block.x, shape.block.y, shape.block.z},
          .shared_bytes = shape.shared_bytes,
          .cooperative = shape.cooperative};
}

}  // namespace

void launch(Stream& stream, const BoundLaunch& bound, const LaunchShape& shape) {
  call("launch", [&] {
    emulator::launch(of(stream),
                     {.name = bound.name,
                      .arguments = bound.arguments,
                      .argument_count = bound.argument_count,
                      .pointer_arguments = bound.pointer_arguments,
                      .invoke = bound.invoke,
                      .closure = bound.closure,
                      .closure_bytes = bound.closure_bytes},
                     shape_of(shape));
  });
}

KernelInfo kernel_info(const char* name, const void*, const LaunchShape& shape) {
  return call("kernel_info", [&] {
    emulator::check_shape(name, shape_of(shape));
    KernelInfo known;
    known.name = name;
    known.blocks_per_multiprocessor = 1;
    known.occupancy = static_cast<double>(shape.block.size()) / emulator::threads_per_block;
    return known;
  });
}

}  // namespace detail

namespace {

emulator::Symbol symbol_of(const Symbol& symbol) {
  return {symbol.name, symbol.address, symbol.bytes};
}

}  // namespace

void copy_to_symbol(Symbol symbol, const void* source, std::size_t bytes, Stream& stream) {
  call("copy_to_symbol", [&] { emulator::copy_to_symbol(symbol_of(symbol), source, bytes, of(stream)); });
}

void copy_from_symbol(void* destination, Symbol symbol, std::size_t bytes, Stream& stream) {
  call("copy_from_symbol", [&] { emulator::copy_from_symbol(destination, symbol_of(symbol), bytes, of(stream)); });
}

}  // namespace isthmus::device
