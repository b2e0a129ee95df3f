#include "device/telemetry/link.hpp"

#include <fmt/format.h>

#include <iterator>

namespace isthmus::device {

std::optional<double> pcie_rate(int generation, int width) noexcept {
  struct Line {
    double transfers;  // transfers per second and lane
    double coding;
  };
  constexpr Line kLines[] = {{2.5e9, 0.8},        {5e9, 0.8},          {8e9, 128.0 / 130},
                             {16e9, 128.0 / 130}, {32e9, 128.0 / 130}, {64e9, 242.0 / 256}};
  if (generation < 1 || generation > static_cast<int>(std::size(kLines)) || width < 1) return std::nullopt;
  const auto& line = kLines[generation - 1];
  return line.transfers * line.coding / 8 * width;
}

std::optional<Link> pcie_link(std::optional<int> generation, std::optional<int> width, std::string& reason) {
  if (!generation || !width) {
    reason = "the link's generation and width could not be read";
    return std::nullopt;
  }
  const auto rate = pcie_rate(*generation, *width);
  if (!rate) {
    reason = fmt::format("PCIe generation {} x{} is not known", *generation, *width);
    return std::nullopt;
  }
  return Link{"pcie", *width, *rate, fmt::format("PCIe {} x{}", *generation, *width)};
}

std::optional<Link> slower(const std::optional<Link>& one, const std::optional<Link>& other) {
  if (!one || !other) return std::nullopt;
  return one->rate <= other->rate ? one : other;
}

}  // namespace isthmus::device
