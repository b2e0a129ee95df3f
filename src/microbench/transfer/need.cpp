#include "microbench/transfer/need.hpp"

#include "device/device.hpp"

namespace isthmus::microbench::transfer {

using harness::Skip;

void need_ends(const Path& path) {
  for (const auto& end : {path.from, path.to}) {
    if (end.memory == Memory::node) need_node(end.index);
    if (end.memory != Memory::gpu && end.memory != Memory::all) continue;
    if (end.memory == Memory::gpu) need_gpu(end.index);
    const int gpus = device::count();
    if (end.memory == Memory::all && gpus < 2)
      throw Skip("'all' means several GPUs, and this process sees " + std::to_string(gpus) +
                 (gpus == 1 ? " GPU" : " GPUs"));
  }
}

}  // namespace isthmus::microbench::transfer
