#pragma once

// The six transfer modes as programs have them: a staging picked at run time, and what the paper's programs register.

#include <functional>
#include <string>
#include <utility>

#include "apps/kernels.hpp"
#include "workload/choices.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {

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

/// One of the pipelining paper's programs after an `original` of its Table 2, with Figure 5's preset: super and mega,
/// which are the paper's, in the six modes. `settings` is what the original fixed.
inline workload::Workload paper_program(const std::string& name, std::function<void(workload::Case&)> function,
                                        const std::string& original, workload::AxisSettings settings = {}) {
  workload::Workload workload(name, std::move(function));
  workload.version(1)
      .source("pipelining-taco2025, Table 2 (" + original + ")")
      .tags({"app", "modes", "pipelining"})
      .placements(memory::all_placements())
      .preset({.name = "paper-fig5",
               .help = "pipelining-taco2025, Figure 5: super and mega in the six modes",
               .settings = std::move(settings),
               .sizes = {"super", "mega"},
               .sweep_axis = "",
               .sweep = {},
               .modes = {"baseline", "async", "uvm", "uvm_async", "pm", "pm_async"}});
  return workload;
}

/// Where `what` happens in each iteration, for originals that have the host in their loop.
inline workload::Axis loop_axis(const std::string& what) {
  return workload::how(
      workload::choice_axis("loop", what + ": on the device, or on the host as in the original", {"device", "host"}));
}

}  // namespace isthmus::apps
