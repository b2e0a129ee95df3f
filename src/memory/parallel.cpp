#include "memory/parallel.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace isthmus::memory {

unsigned host_threads() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

void parallel_for(std::size_t count, std::size_t grain, const std::function<void(std::size_t, std::size_t)>& body) {
  if (count == 0) return;
  const std::size_t parts = std::min<std::size_t>(host_threads(), count / std::max<std::size_t>(grain, 1));
  if (parts < 2) {
    body(0, count);
    return;
  }
  std::exception_ptr failure;
  std::mutex mutex;
  const auto run = [&](std::size_t part) {
    try {
      // Compute with 128 bits, because `count` may be any size_t.
      const auto edge = [&](std::size_t p) {
        return static_cast<std::size_t>(static_cast<unsigned __int128>(count) * p / parts);
      };
      body(edge(part), edge(part + 1));
    } catch (...) {
      const std::scoped_lock lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t part = 1; part < parts; ++part) threads.emplace_back(run, part);
    run(0);
  }
  if (failure) std::rethrow_exception(failure);
}

void fill_host(std::byte* begin, std::size_t bytes, std::byte value) {
  parallel_for(bytes, std::size_t{4} << 20, [&](std::size_t first, std::size_t last) {
    std::memset(begin + first, std::to_integer<int>(value), last - first);
  });
}

}  // namespace isthmus::memory
