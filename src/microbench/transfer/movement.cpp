#include "microbench/transfer/movement.hpp"

namespace isthmus::microbench::transfer {

namespace {

bool moves_pages(Initiator initiator) {
  switch (initiator) {
    case Initiator::fault:
    case Initiator::prefetch:
    case Initiator::prefetch_batch:
    case Initiator::discard:
      return true;
    default:
      return false;
  }
}

}  // namespace

EndBytes footprint(const End& from, const End& to, Initiator initiator, const Settings& settings) {
  return moves_pages(initiator) ? page_footprint(from, to, initiator, settings)
                                : copy_footprint(from, to, initiator, settings);
}

std::unique_ptr<Movement> make_movement(const End& from, const End& to, Initiator initiator, const Settings& settings,
                                        unsigned number) {
  return moves_pages(initiator) ? make_page_movement(from, to, initiator, settings, number)
                                : make_copy_movement(from, to, initiator, settings, number);
}

void verify(workload::Case& c, const std::vector<std::unique_ptr<Movement>>& movements) {
  c.verify(
      "every byte arrived",
      [&movements] {
        std::size_t wrong = 0;
        for (const auto& movement : movements) wrong += movement->check();
        return static_cast<double>(wrong);
      },
      0);
}

}  // namespace isthmus::microbench::transfer
