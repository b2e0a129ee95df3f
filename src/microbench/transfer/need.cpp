#include "microbench/transfer/need.hpp"

#include "device/device.hpp"

namespace isthmus::microbench::transfer {

void need_ends(const Path& path) {
  for (const auto& end : {path.from, path.to}) {
    if (end.on_node()) need_node(end.index);
    if (end.on_gpu()) need_gpu(end.index);
    if (end.all_gpus() && device::count() < 2)
      throw workload::Skip("'all' means several GPUs, and this process sees " + std::to_string(device::count()) +
                           (device::count() == 1 ? " GPU" : " GPUs"));
  }
}

}  // namespace isthmus::microbench::transfer
