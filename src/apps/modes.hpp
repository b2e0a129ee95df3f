#pragma once

// Support for the six transfer modes in programs: choice of a staging at run time, and registration of the paper's
// programs.

#include <functional>
#include <string>
#include <utility>

#include "apps/kernels.hpp"
#include "workload/choices.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {

/// Calls use(Constant<staging>, Constant<depth>) with the case's staging, which is not `none`, and its number of tile
/// buffers. If the device does not support the staging, another one is used and noted in the record.
template <unsigned ring, class Use>
void with_staging(workload::Case& c, Use&& use) {
  using workload::Constant, workload::Staging;
  const auto& device = c.device();
  if (c.staging() == Staging::direct) return use(Constant<TileStaging::direct>{}, Constant<1u>{});
  if (!device.async_shared_copy)
    c.fallback("async through registers: this device cannot copy into shared memory asynchronously");
  else if (c.staging() == Staging::bulk && !device.bulk_shared_copy)
    c.fallback("async: this device has no bulk copy into shared memory");
  if (c.staging() == Staging::bulk && device.bulk_shared_copy)
    return use(Constant<TileStaging::bulk>{}, Constant<ring>{});
  use(Constant<TileStaging::async>{}, Constant<ring>{});
}

/// Returns the workload for one of the pipelining paper's programs; `original` names the program of Table 2 that it
/// follows. Its preset is Figure 5: the paper's sizes super and mega in the six modes. `settings` has the axis values
/// that the original fixed.
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

/// Returns the axis that chooses where `what`, a part of each iteration, runs: on the device, or on the host as in the
/// original program.
inline workload::Axis loop_axis(const std::string& what) {
  return workload::how(
      workload::choice_axis("loop", what + ": on the device, or on the host as in the original", {"device", "host"}));
}

}  // namespace isthmus::apps
