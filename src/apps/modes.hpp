#pragma once

// The six transfer modes as programs have them: a staging picked at run time, and the paper's preset.

#include <utility>

#include "device/staging.hpp"
#include "workload/choices.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {

using device::TileStaging;

/// Calls use(Constant<staging>, Constant<depth>) for a staging that is not `none`: the device's way to it, and so many
/// tile buffers. What runs instead of what was asked goes into the record.
template <unsigned ring, class Use>
void with_staging(workload::Case& c, Use&& use) {
  using workload::Constant, workload::Staging;
  const auto& device = c.device();
  if (c.staging() == Staging::direct) return use(Constant<TileStaging::direct>{}, Constant<1u>{});
  if (!device.async_shared_copy)
    c.fallback("async through registers: this device copies nothing into shared memory by itself");
  else if (c.staging() == Staging::bulk && !device.bulk_shared_copy)
    c.fallback("async: this device has no bulk copy into shared memory");
  if (c.staging() == Staging::bulk && device.bulk_shared_copy)
    return use(Constant<TileStaging::bulk>{}, Constant<ring>{});
  use(Constant<TileStaging::async>{}, Constant<ring>{});
}

/// Figure 5: super and mega in the six modes; `settings` is what the original fixed.
inline void add_paper_preset(workload::Workload& workload, workload::AxisSettings settings = {}) {
  workload.preset({.name = "paper-fig5",
                   .help = "pipelining-taco2025, Figure 5: super and mega in the six modes",
                   .settings = std::move(settings),
                   .sizes = {"super", "mega"},
                   .sweep_axis = "",
                   .sweep = {},
                   .modes = {"baseline", "async", "uvm", "uvm_async", "pm", "pm_async"}});
}

}  // namespace isthmus::apps
