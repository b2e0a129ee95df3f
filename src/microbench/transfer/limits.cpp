#include "microbench/transfer/limits.hpp"

#include <algorithm>
#include <map>

#include "device/device.hpp"

namespace isthmus::microbench::transfer {

Bound bound(const End& from, const End& to) {
  if (!from.on_gpu() && !to.on_gpu()) return {std::nullopt, "nobody tells the peak of the host's memory"};
  if (from == to) {
    const auto bandwidth = device::info(from.index).memory_bandwidth;
    if (!bandwidth) return {std::nullopt, "the device does not tell its memory bandwidth"};
    return {*bandwidth / 2, "peak device memory bandwidth, half of it to read and half to write"};
  }
  const int device = from.on_gpu() ? from.index : to.index;
  const int peer = from.on_gpu() && to.on_gpu() ? to.index : -1;
  std::string reason;
  struct L {
    double rate;
    std::string text;
  };
  std::optional<L> link;
  (void)device;
  (void)peer;
  reason = "links are not read yet";
  if (!link) return {std::nullopt, reason};
  return {link->rate, link->text};
}

Bound bound(const std::vector<std::pair<End, End>>& at_once) {
  // Of each GPU and way, the links that its partners share: the widest of them.
  std::map<int, double> leaving, arriving;
  std::string source;
  for (const auto& [from, to] : at_once) {
    const auto each = bound(from, to);
    if (!each.rate) return each;
    if (source.empty()) source = each.source;
    if (from.on_gpu()) leaving[from.index] = std::max(leaving[from.index], *each.rate);
    if (to.on_gpu()) arriving[to.index] = std::max(arriving[to.index], *each.rate);
  }
  const auto total = [&](const std::map<int, double>& ways, bool sending) {
    double sum = 0;
    for (const auto& [gpu, rate] : ways) sum += rate;
    // The host's own part: as much as the GPUs at the other ends of its transfers can take or give.
    for (const auto& [from, to] : at_once) {
      const End& end = sending ? from : to;
      const End& other = sending ? to : from;
      if (!end.on_gpu() && other.on_gpu()) sum += sending ? arriving.at(other.index) : leaving.at(other.index);
    }
    return sum;
  };
  const double most = std::min(total(leaving, true), total(arriving, false));
  return {most, at_once.size() == 1 ? source : source + ", " + std::to_string(at_once.size()) + " at once"};
}

}  // namespace isthmus::microbench::transfer
