#include "paging/optimum.hpp"

#include <limits>
#include <queue>
#include <unordered_map>
#include <utility>

namespace isthmus::paging {

std::uint64_t optimal_fetches(std::span<const std::uint32_t> wanted, std::size_t frames) {
  constexpr auto kNever = std::numeric_limits<std::size_t>::max();
  // For each time, the next time at which the same page is needed again.
  std::vector<std::size_t> again(wanted.size());
  std::unordered_map<std::uint32_t, std::size_t> soonest;
  for (std::size_t time = wanted.size(); time-- > 0;) {
    const auto [found, is_new] = soonest.try_emplace(wanted[time], time);
    again[time] = is_new ? kNever : std::exchange(found->second, time);
  }
  if (soonest.size() <= frames) return soonest.size();            // each page is fetched once
  std::unordered_map<std::uint32_t, std::size_t> there;           // resident pages, and when each is needed again
  std::priority_queue<std::pair<std::size_t, std::uint32_t>> by;  // the same pages by time, among outdated entries
  std::uint64_t fetches = 0;
  for (std::size_t time = 0; time < wanted.size(); ++time) {
    const std::uint32_t page = wanted[time];
    if (!there.contains(page)) {
      ++fetches;
      while (there.size() == frames) {
        const auto [when, last] = by.top();
        by.pop();
        const auto found = there.find(last);
        if (found != there.end() && found->second == when) there.erase(found);
      }
    }
    there[page] = again[time];
    by.emplace(again[time], page);
  }
  return fetches;
}

std::vector<std::uint32_t> passes_over(std::size_t pages, unsigned passes) {
  std::vector<std::uint32_t> wanted(pages * passes);
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<std::uint32_t>(i % pages);
  return wanted;
}

}  // namespace isthmus::paging
