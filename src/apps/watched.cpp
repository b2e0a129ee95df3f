// faults/fft, faults/gauss_seidel and faults/multigrid: programs of the paper's Table 2 whose page faults are watched,
// like those of the access patterns. Registered as apps/*, the same programs are measured for their speed.

#include "apps/watched.hpp"

#include "workload/driver_prefetch.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;

/// Returns `program` prepared for faults/*. `settings` are those of the paper's preset; they use only a few hundred
/// MiB, because range groups hold the prefetcher back for accesses of the host as well.
Workload watched(Workload program, AxisSettings settings) {
  settings.emplace_back(std::string(kDriverPrefetch), "off");
  program.source("uvm-batches-taco2024, Tables 2 and 3")
      .tags({"faults", program.name().substr(program.name().find('/') + 1)})
      .axis(driver_prefetch_axis())
      .preset({.name = "paper-table3", .help = "Table 3: the driver's prefetcher is off", .settings = settings});
  return program;
}

const Registration fft = watched(fft_program("faults/fft"), {{"n", 1 << 24}});
const Registration gauss_seidel = watched(gauss_seidel_program("faults/gauss_seidel"), {{"n", 256}, {"sweeps", 2}});
const Registration multigrid = watched(multigrid_program("faults/multigrid"), {{"n", 256}, {"cycles", 1}});

}  // namespace
}  // namespace isthmus::apps
