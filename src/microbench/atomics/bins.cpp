#include "microbench/atomics/bins.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "memory/parallel.hpp"

namespace isthmus::microbench::atomics {

Expected::Expected(const Order& order, const std::vector<Run>& runs) : order_(order) {
  const std::uint64_t bins = order.mask() + 1;
  std::uint64_t everywhere = 0;
  std::map<std::uint64_t, std::int64_t> changes{{0, 0}};
  for (const auto& run : runs) {
    total_ += run.count;
    everywhere += run.count / bins;
    const std::uint64_t rest = run.count % bins, begin = run.start % bins;
    if (rest == 0) continue;
    ++changes[begin];
    if (begin + rest < bins) {
      --changes[begin + rest];
    } else if (begin + rest > bins) {
      ++changes[0];
      --changes[begin + rest - bins];
    }
  }
  auto now = static_cast<std::int64_t>(everywhere);
  for (const auto& [place, change] : changes) {
    now += change;
    from_.push_back(place);
    counts_.push_back(static_cast<std::uint64_t>(now));
  }
}

std::uint64_t Expected::most() const noexcept {
  return *std::max_element(counts_.begin(), counts_.end());
}

std::uint64_t Expected::of_place(std::uint64_t place) const {
  const auto after = std::upper_bound(from_.begin(), from_.end(), place);
  return counts_[static_cast<std::size_t>(after - from_.begin()) - 1];
}

template <class T>
Comparison<T> compare(const Expected& expected, const T* bins, std::uint64_t first, std::size_t count) {
  Comparison<T> all;
  std::mutex mutex;
  memory::parallel_for(count, std::size_t{1} << 16, [&](std::size_t begin, std::size_t end) {
    Comparison<T> mine;
    for (std::size_t i = begin; i < end; ++i) {
      mine.wrong += bins[i] == static_cast<T>(expected.of_bin(first + i)) ? 0 : 1;
      mine.sum += static_cast<double>(bins[i]);
    }
    const std::scoped_lock lock(mutex);
    all.wrong += mine.wrong;
    all.sum += mine.sum;
  });
  return all;
}

template Comparison<std::uint32_t> compare(const Expected&, const std::uint32_t*, std::uint64_t, std::size_t);
template Comparison<unsigned long long> compare(const Expected&, const unsigned long long*, std::uint64_t, std::size_t);
template Comparison<float> compare(const Expected&, const float*, std::uint64_t, std::size_t);
template Comparison<double> compare(const Expected&, const double*, std::uint64_t, std::size_t);

}  // namespace isthmus::microbench::atomics
