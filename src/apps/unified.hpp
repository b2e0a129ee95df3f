#pragma once

// What the MI300A paper's six programs have in common.

#include <utility>

#include "workload/workload.hpp"

namespace isthmus::apps {

/// Figure 11 at `large`; `settings` is what the original fixed. The placements are named beside it: pageable for
/// explicit copies, managed_demand for unified memory.
inline workload::Preset unified_preset(workload::AxisSettings settings = {}) {
  return {.name = "paper-mi300a",
          .help = "mi300a-upm-2025, Figure 11, of the original's form: with --placement pageable,managed_demand",
          .settings = std::move(settings),
          .sizes = {"large"}};
}

}  // namespace isthmus::apps
