#include "microbench/transfer/limits.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "device/api/device.hpp"

namespace isthmus::microbench::transfer {

Bound bound(const End& from, const End& to) {
  if (!from.on_gpu() && !to.on_gpu()) return "the host's peak memory bandwidth is unknown";
  if (from == to) {
    const auto bandwidth = device::info(from.index).memory_bandwidth;
    if (!bandwidth) return "the device does not report its memory bandwidth";
    return {*bandwidth / 2, "peak device memory bandwidth, half of it to read and half to write"};
  }
  const int device = from.on_gpu() ? from.index : to.index;
  const int peer = from.on_gpu() && to.on_gpu() ? to.index : -1;
  std::string reason;
  const auto link = device::link(device, peer, &reason);
  if (!link) return {std::nullopt, reason};
  return {link->rate, link->text};
}

double combined_rate(const std::vector<Flow>& flows) {
  std::map<int, double> leaving, arriving;
  for (const auto& [from, to, rate] : flows) {
    if (from.on_gpu()) leaving[from.index] = std::max(leaving[from.index], rate);
    if (to.on_gpu()) arriving[to.index] = std::max(arriving[to.index], rate);
  }
  double sent = 0, received = 0;
  for (const auto& [gpu, rate] : leaving) sent += rate;
  for (const auto& [gpu, rate] : arriving) received += rate;
  std::set<int> fed, drained;  // GPUs that receive from the host, GPUs that send to it
  for (const auto& [from, to, rate] : flows) {
    if (!from.on_gpu() && fed.insert(to.index).second) sent += arriving.at(to.index);
    if (!to.on_gpu() && drained.insert(from.index).second) received += leaving.at(from.index);
  }
  return std::min(sent, received);
}

Bound combined_bound(const std::vector<Leg>& legs, const std::vector<Bound>& bounds) {
  if (legs.size() == 1) return bounds.front();
  std::vector<Flow> flows;
  for (std::size_t i = 0; i < legs.size(); ++i) {
    if (!bounds[i].value) return bounds[i];
    flows.push_back({legs[i].from, legs[i].to, *bounds[i].value});
  }
  return {combined_rate(flows), bounds.front().source + ", " + std::to_string(legs.size()) + " transfers at once"};
}

}  // namespace isthmus::microbench::transfer
