#include "harness/measure/watch/limits.hpp"

#include <fmt/format.h>

namespace isthmus::harness {

namespace {

void limit_travel(CaseResult& result, std::string_view seconds_name, std::string_view rate_name,
                  const std::optional<Limit>& link, const std::string& reason) {
  if (auto* rate = result.find(rate_name)) {
    rate->limit = link;
    if (!link) rate->limit_reason = reason;
  }
  auto* seconds = result.find(seconds_name);
  if (seconds == nullptr) return;
  if (link && seconds->bytes_moved) {
    seconds->limit = Limit{*seconds->bytes_moved / link->value, link->source};
  } else {
    seconds->limit_reason = link ? "no bytes are counted" : reason;
  }
}

}  // namespace

void set_limits(CaseResult& result, bool emulated, const Monitor& monitor) {
  for (auto& metric : result.metrics) {
    if (!metric.limit && metric.limit_reason.empty())
      metric.limit_reason = emulated ? "emulated" : "no hardware limit is known for this metric";
  }
  if (emulated || !result.device || !result.spec.placement) return;

  std::optional<Limit> link;
  std::string link_reason = "the link's generation and width could not be read";
  if (monitor.pcie_generation && monitor.pcie_width) {
    if (const auto rate = device::pcie_rate(*monitor.pcie_generation, *monitor.pcie_width))
      link = Limit{*rate, fmt::format("PCIe {} x{}", *monitor.pcie_generation, *monitor.pcie_width)};
    else
      link_reason = fmt::format("PCIe generation {} is not known", *monitor.pcie_generation);
  }
  limit_travel(result, "in", "in_rate", link, link_reason);
  limit_travel(result, "out", "out_rate", link, link_reason);

  auto* kernel = result.find("kernel_rate");
  if (kernel == nullptr) return;
  const auto placement = *result.spec.placement;
  const bool data_on_device =
      (placement->two_memories() && !placement->paged) || placement->in == memory::Travel::prefetch;
  if (!data_on_device) {
    kernel->limit_reason = "data is transferred while the kernel runs, so several limits apply at once";
  } else if (result.device->memory_bandwidth) {
    kernel->limit = Limit{*result.device->memory_bandwidth, "peak device memory bandwidth"};
  } else {
    kernel->limit_reason = "the device does not report its memory bandwidth";
  }
}

std::optional<double> share(const Series& series, std::optional<double> median) {
  if (!series.limit || !median || !series.better || !(*median > 0)) return std::nullopt;
  return *series.better == Better::higher ? *median / series.limit->value : series.limit->value / *median;
}

}  // namespace isthmus::harness
