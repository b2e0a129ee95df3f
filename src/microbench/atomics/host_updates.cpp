#include "microbench/atomics/host_updates.hpp"

#include <atomic>

namespace isthmus::microbench::atomics {

namespace {

// for (k = start; k < start + count; ++k) ++bins[order.bin(k)];
template <class T>
[[gnu::always_inline]] inline void update_all(T* bins, Order order, std::uint64_t start, std::uint64_t count) {
  for (std::uint64_t k = start; k < start + count; ++k)
    std::atomic_ref<T>(bins[order.bin(k)]).fetch_add(T{1}, std::memory_order_relaxed);
}

}  // namespace

[[gnu::noinline]] void update_u32(std::uint32_t* bins, Order order, std::uint64_t start, std::uint64_t count) {
  update_all(bins, order, start, count);
}
[[gnu::noinline]] void update_u64(unsigned long long* bins, Order order, std::uint64_t start, std::uint64_t count) {
  update_all(bins, order, start, count);
}
[[gnu::noinline]] void update_f32(float* bins, Order order, std::uint64_t start, std::uint64_t count) {
  update_all(bins, order, start, count);
}
[[gnu::noinline]] void update_f64(double* bins, Order order, std::uint64_t start, std::uint64_t count) {
  update_all(bins, order, start, count);
}

}  // namespace isthmus::microbench::atomics
