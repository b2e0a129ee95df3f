#pragma once

// Everything that an author of a workload needs:
//
//   void saxpy(Case& c) {
//     const auto n = c.extent("n");
//     const auto x_values = uniform(c.seed(), 0, -1, 1), y_values = uniform(c.seed(), 1, -1, 1);
//     auto x = c.input<float>("x", n, x_values);
//     auto y = c.inout<float>("y", n, y_values);
//     c.verify(y, [=](std::size_t i) { return 2 * x_values(i) + y_values(i); }, {.relative = 1e-6});
//     c.measure(Control::queued, [&](Run& run) {
//       run.launch(ISTHMUS_KERNEL(saxpy_kernel), {.grid = 132, .block = 256},
//                  {.bytes_read = 8.0 * n, .bytes_written = 4.0 * n, .flops = 2.0 * n}, n, x.device(), y.device());
//     });
//   }
//   const Registration registration = Workload("microbench/saxpy", saxpy).version(1)…;
//
// Other headers: choices.hpp (template parameters of kernels), library.hpp (the vendor's libraries), worst.hpp (for
// checks), lanes.hpp (movements that run at the same time), team.hpp (several ranks), fresh_process.hpp.

#include "device/kernel/kernel.hpp"
#include "workload/axis.hpp"
#include "workload/case.hpp"
#include "workload/clock.hpp"
#include "workload/registration.hpp"
#include "workload/values.hpp"
