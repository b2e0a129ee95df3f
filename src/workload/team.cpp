#include "workload/team.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace isthmus::workload {

std::vector<std::string> Team::step(Step kind, std::string_view mine) {
  // Each rank's text begins with its kind of step and whether the user has asked this process to stop.
  std::string text{static_cast<char>(kind), end_asked_() ? '!' : '.'};
  text += mine;
  auto all = ranks_.gather(text);
  bool exchanges = false, starts = false;
  for (auto& each : all) {
    const auto other = static_cast<Step>(each.at(0));
    exchanges |= other == Step::exchange;
    starts |= other == Step::start;
    ended_ |= other == Step::end;
    interrupted_ |= each.at(1) == '!';
    each.erase(0, 2);
  }
  const bool astray = exchanges && starts;  // the same on every rank, so that the case ends on all
  if (kind != Step::end) {
    if (ended_) throw OtherRankEnded{};
    ended_ = astray;
    if (astray)
      throw std::logic_error(
          "the ranks are at different steps: they did not make the same exchanges in the same order");
  }
  return all;
}

std::vector<std::string> Team::exchange(std::string_view mine) {
  if (size() == 1) return {std::string(mine)};
  return step(Step::exchange, mine);
}

std::vector<double> Team::exchange(double mine) {
  std::string bytes(sizeof mine, '\0');
  std::memcpy(bytes.data(), &mine, sizeof mine);
  std::vector<double> values;
  for (const auto& each : exchange(std::string_view(bytes))) {
    if (each.size() != sizeof mine)
      throw std::logic_error(
          "the ranks exchange different things: they did not make the same exchanges in the same order");
    std::memcpy(&values.emplace_back(), each.data(), sizeof mine);
  }
  return values;
}

bool Team::any(bool mine) {
  const auto all = exchange(mine ? 1.0 : 0.0);
  return std::any_of(all.begin(), all.end(), [](double value) { return value != 0; });
}

double Team::first(double mine) {
  return exchange(mine).front();
}

void Team::start() {
  if (size() == 1) return;
  step(Step::start, {});  // afterwards, every rank is known to be present
  ranks_.barrier();
}

bool Team::interrupted() const noexcept {
  return size() == 1 ? end_asked_() : interrupted_;
}

void Team::end() {
  if (size() > 1 && !ended_) step(Step::end, {});
}

}  // namespace isthmus::workload
