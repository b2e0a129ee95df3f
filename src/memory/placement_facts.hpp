#pragma once

// What each placement is made of: the one table that everything else in this room reads.

#include "memory/placement.hpp"

namespace isthmus::memory {

/// How the memory that the host sees comes about.
enum class HostWay { plain, pinned, pinned_mapped, managed, device };
/// How the memory that kernels see comes about; `same` is the host's address, `mapped` another address of it.
enum class DeviceWay { plain, pool, mapped, same };

struct PlacementFacts {
  Placement placement;
  std::string_view name;
  HostWay host;
  DeviceWay device;
  Travel in, out;
  bool advice = false;  ///< read-mostly inputs; outputs prefer the device, which keeps them mapped
};

const PlacementFacts& facts(Placement) noexcept;

}  // namespace isthmus::memory
