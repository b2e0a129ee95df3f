#include "microbench/atomics/device_updates.hpp"

namespace isthmus::microbench::atomics {

namespace {

// for (k = start; k < start + updates; ++k) ++bins[order.bin(k)];
//
// The updates of a block are one run, divided into chunks. After each chunk the block checks whether to stop.
template <class T, bool system_scope>
__global__ void update_bins(T* bins, Order order, std::uint64_t first_run, std::uint64_t chunks, unsigned per_thread,
                            std::uint32_t* flags, unsigned long long* chunks_done) {
  __shared__ unsigned stop;
  const std::uint64_t start = order.start(first_run + blockIdx.x);
  if (flags != nullptr && threadIdx.x == 0) device::store_release(&flags[0], 1u);  // the first block to start sets it
  std::uint64_t done = 0;
  while (done < chunks) {
    const std::uint64_t base = start + done * per_thread * blockDim.x + threadIdx.x;
    for (unsigned i = 0; i < per_thread; ++i) {
      T* bin = &bins[order.bin(base + std::uint64_t{i} * blockDim.x)];
      if constexpr (system_scope) {
        atomicAdd_system(bin, T(1));
      } else {
        atomicAdd(bin, T(1));
      }
    }
    ++done;
    if (flags == nullptr) continue;
    if (threadIdx.x == 0) stop = device::load_acquire(&flags[1]);
    __syncthreads();
    const bool stopped = stop != 0;
    __syncthreads();  // otherwise the next chunk could overwrite `stop` before all threads have read it
    if (stopped) break;
  }
  if (threadIdx.x == 0) chunks_done[blockIdx.x] = done;
}

// for (turn = 1; turn < 2 * rounds; turn += 2) { wait for line[0] == turn; line[0] = turn + 1; }
__global__ void answer(std::uint32_t* line, std::uint32_t rounds, double timeout, std::uint32_t* wrong) {
  const double begin = device::device_seconds();
  std::uint32_t found = 0;
  for (std::uint32_t turn = 1; turn < 2 * rounds; turn += 2) {
    for (std::uint32_t wait = 1; device::load_acquire(&line[0]) != turn; ++wait) {
      if (wait % 1024 == 0 && device::device_seconds() - begin > timeout) {
        *wrong = ~0u;
        return;
      }
      device::spin_wait();
    }
    if (device::load_acquire(&line[1]) != payload(turn)) ++found;
    device::store_release(&line[1], payload(turn + 1));
    device::store_release(&line[0], turn + 1);
  }
  *wrong = found;
}

}  // namespace

template <class T>
void queue_updates(device::Stream& stream, T* bins, const Order& order, const Work& work,
                   const device::LaunchShape& shape, unsigned long long* chunks_done) {
  const auto kernel = work.system_scope ? device::Kernel{"update_bins_system", update_bins<T, true>}
                                        : device::Kernel{"update_bins", update_bins<T, false>};
  launch(stream, kernel, shape, bins, order, work.first_run, work.chunks, work.per_thread, work.flags, chunks_done);
}

template void queue_updates(device::Stream&, std::uint32_t*, const Order&, const Work&, const device::LaunchShape&,
                            unsigned long long*);
template void queue_updates(device::Stream&, unsigned long long*, const Order&, const Work&, const device::LaunchShape&,
                            unsigned long long*);
template void queue_updates(device::Stream&, float*, const Order&, const Work&, const device::LaunchShape&,
                            unsigned long long*);
template void queue_updates(device::Stream&, double*, const Order&, const Work&, const device::LaunchShape&,
                            unsigned long long*);

void queue_ping_pong(device::Stream& stream, std::uint32_t* line, std::uint32_t rounds, double timeout,
                     std::uint32_t* wrong) {
  launch(stream, ISTHMUS_KERNEL(answer), {.grid = 1, .block = 1}, line, rounds, timeout, wrong);
}

}  // namespace isthmus::microbench::atomics
