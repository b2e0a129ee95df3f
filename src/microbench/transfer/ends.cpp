#include "microbench/transfer/ends.hpp"

#include <algorithm>
#include <array>

#include "device/api/device.hpp"
#include "microbench/require.hpp"

namespace isthmus::microbench::transfer {

namespace {

struct InitiatorFacts {
  Initiator initiator;
  std::string_view name, words;
};
constexpr std::array<InitiatorFacts, 16> kInitiators{{
    {Initiator::ce, "ce", "copy engine"},
    {Initiator::ce_nopeer, "ce-nopeer", "copy engine, peer access off"},
    {Initiator::ce_batch, "ce-batch", "copies batched in one call"},
    {Initiator::ce_strided, "ce-strided", "copy engine, rows of a box"},
    {Initiator::pack, "pack", "rows packed by a kernel, copied, unpacked"},
    {Initiator::runtime, "runtime", "the runtime's copy on the host"},
    {Initiator::cpu, "cpu", "memcpy by threads of the host"},
    {Initiator::sm_read, "sm-read", "kernel that reads the source"},
    {Initiator::sm_write, "sm-write", "kernel that writes the destination"},
    {Initiator::fault, "fault", "page faults"},
    {Initiator::prefetch, "prefetch", "explicit prefetch"},
    {Initiator::prefetch_batch, "prefetch-batch", "ranges prefetched in one call"},
    {Initiator::discard, "discard", "discard and prefetch"},
    {Initiator::chase, "chase", "latency of one access"},
    {Initiator::fault_latency, "fault-latency", "latency of one page fault"},
    {Initiator::small_copy, "small-copy", "latency of one small copy"},
}};

const InitiatorFacts& facts(Initiator initiator) {
  return kInitiators[static_cast<std::size_t>(initiator)];
}

constexpr bool in_order() {
  for (std::size_t i = 0; i < kInitiators.size(); ++i) {
    if (static_cast<std::size_t>(kInitiators[i].initiator) != i) return false;
  }
  return true;
}
static_assert(in_order(), "the table must be indexed by initiator");

}  // namespace

std::string End::name() const {
  if (all_gpus()) return "all";
  if (on_gpu()) return "gpu" + std::to_string(index);
  return on_node() ? "node" + std::to_string(index) : std::string(memory::name(kind));
}

std::string_view name(Initiator initiator) noexcept {
  return facts(initiator).name;
}

std::string Path::name() const {
  return from.name() + "-" + to.name() + "/" + std::string(transfer::name(initiator)) + (duplex ? "-duplex" : "");
}

std::string Path::summary() const {
  const std::string between =
      duplex ? from.name() + " and " + to.name() + ", both ways at once" : from.name() + " to " + to.name();
  return between + ": " + std::string(facts(initiator).words);
}

std::vector<int> Path::gpus(const workload::Machine& machine) const {
  std::vector<int> indices;
  const auto add = [&](int index) {
    if (std::find(indices.begin(), indices.end(), index) == indices.end()) indices.push_back(index);
  };
  for (const auto& end : {from, to}) {
    if (end.on_gpu()) add(end.index);
    for (int g = 0; end.all_gpus() && g < machine.gpus; ++g) add(g);
  }
  return indices;
}

std::vector<Path> paths(const workload::Machine& machine) {
  std::vector<Path> list;
  const auto one_way = [&](End from, End to, Initiator initiator) { list.push_back({from, to, initiator, false}); };
  const auto duplex = [&](End from, End to, Initiator initiator) { list.push_back({from, to, initiator, true}); };
  const auto each_way = [&](End near, End far, Initiator initiator) {
    one_way(near, far, initiator);
    one_way(far, near, initiator);
    duplex(near, far, initiator);
  };

  for (int g = 0; g < machine.gpus; ++g) {
    // Paths between host memory and this GPU.
    for (const auto host : {Kind::pageable, Kind::pinned, Kind::registered, Kind::write_combined, Kind::managed})
      each_way({host}, gpu(g), Initiator::ce);
    for (const auto initiator : {Initiator::ce_batch, Initiator::ce_strided, Initiator::pack}) {
      one_way({Kind::pinned}, gpu(g), initiator);
      one_way(gpu(g), {Kind::pinned}, initiator);
    }
    for (const auto host : {Kind::mapped, Kind::registered, Kind::write_combined}) {
      one_way({host}, gpu(g), Initiator::sm_read);
      one_way(gpu(g), {host}, Initiator::sm_write);
      if (host == Kind::mapped) duplex({host}, gpu(g), Initiator::sm_read);
    }
    for (const auto initiator : {Initiator::fault, Initiator::prefetch}) each_way({Kind::managed}, gpu(g), initiator);
    each_way({Kind::pageable}, gpu(g), Initiator::fault);
    for (const auto initiator : {Initiator::prefetch_batch, Initiator::discard}) {
      one_way({Kind::managed}, gpu(g), initiator);
      one_way(gpu(g), {Kind::managed}, initiator);
    }
    // Copies within this GPU, and to every other.
    for (const auto initiator : {Initiator::ce, Initiator::sm_read}) one_way(gpu(g), gpu(g), initiator);
    for (int h = 0; h < machine.gpus; ++h) {
      if (h == g) continue;
      for (const auto initiator :
           {Initiator::ce, Initiator::ce_nopeer, Initiator::ce_batch, Initiator::ce_strided, Initiator::pack,
            Initiator::sm_read, Initiator::sm_write, Initiator::fault, Initiator::prefetch, Initiator::prefetch_batch})
        one_way(gpu(g), gpu(h), initiator);
      if (h < g) continue;
      for (const auto initiator : {Initiator::ce, Initiator::ce_nopeer, Initiator::sm_read, Initiator::sm_write,
                                   Initiator::fault, Initiator::prefetch})
        duplex(gpu(g), gpu(h), initiator);
    }
  }

  if (machine.gpus > 1) {
    const End all{Kind::device};
    each_way({Kind::pinned}, all, Initiator::ce);
    one_way({Kind::mapped}, all, Initiator::sm_read);
    one_way(all, {Kind::mapped}, Initiator::sm_write);
    duplex({Kind::mapped}, all, Initiator::sm_read);
    for (int g = 0; g < machine.gpus; ++g) {
      for (const auto initiator : {Initiator::ce, Initiator::sm_read, Initiator::sm_write}) {
        one_way(gpu(g), all, initiator);
        one_way(all, gpu(g), initiator);
      }
    }
    for (const auto initiator : {Initiator::ce, Initiator::sm_read, Initiator::sm_write}) one_way(all, all, initiator);
  }

  // Copies within the host.
  constexpr std::array all_hosts{Kind::pageable, Kind::pinned, Kind::registered, Kind::managed};
  for (const auto from : all_hosts) {
    for (const auto to : all_hosts) one_way({from}, {to}, Initiator::runtime);
  }
  for (const int from : machine.memory_nodes) {
    for (const int to : machine.memory_nodes) one_way({Kind::pageable, from}, {Kind::pageable, to}, Initiator::cpu);
  }
  return list;
}

std::vector<Path> latency_paths(const workload::Machine& machine) {
  std::vector<Path> list;
  const auto add = [&](End from, End to, Initiator initiator) { list.push_back({from, to, initiator, false}); };
  for (int g = 0; g < machine.gpus; ++g) {
    add({Kind::mapped}, gpu(g), Initiator::chase);
    for (const auto shared : {Kind::managed, Kind::pageable}) {
      add({shared}, gpu(g), Initiator::fault_latency);
      add(gpu(g), {shared}, Initiator::fault_latency);
    }
    add({Kind::pinned}, gpu(g), Initiator::small_copy);
    add(gpu(g), {Kind::pinned}, Initiator::small_copy);
    for (int h = 0; h < machine.gpus; ++h) {
      add(gpu(g), gpu(h), Initiator::chase);
      add(gpu(g), gpu(h), Initiator::small_copy);
      if (h != g) add(gpu(g), gpu(h), Initiator::fault_latency);
    }
  }
  return list;
}

void require_ends(const Path& path) {
  for (const auto& end : {path.from, path.to}) {
    if (end.on_node()) require_node(end.index);
    if (end.on_gpu()) require_gpu(end.index);
    if (end.all_gpus() && device::count() < 2)
      throw workload::Skip("'all' means several GPUs, but this process sees " + std::to_string(device::count()) +
                           (device::count() == 1 ? " GPU" : " GPUs"));
  }
}

}  // namespace isthmus::microbench::transfer
