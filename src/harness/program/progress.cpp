#include "harness/program/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "harness/output.hpp"
#include "harness/plan/estimate.hpp"
#include "workload/clock.hpp"

namespace isthmus::harness {

void TimeLeft::measured(double seconds) {
  ++count_;
  all_ += seconds;
  if (!estimates_[next_]) return;
  taken_ += seconds;
  expected_ += *estimates_[next_];
}

std::optional<double> TimeLeft::seconds() const {
  const double ratio = expected_ > 0 ? taken_ / expected_ : 1;
  double sum = 0;
  for (std::size_t i = next_; i < estimates_.size(); ++i) {
    if (!estimates_[i] && count_ == 0) return std::nullopt;
    sum += estimates_[i] ? *estimates_[i] * ratio : all_ / static_cast<double>(count_);
  }
  return sum;
}

Progress::Progress(bool wanted, std::vector<std::optional<double>> estimates, double every)
    : left_(std::move(estimates)),
      wanted_(wanted),
      terminal_(isatty(STDERR_FILENO) == 1),
      every_(every),
      last_(now()) {}

void Progress::begin(std::size_t index, std::string_view label) {
  left_.begin(index);
  if (!wanted_ || (!terminal_ && now() - last_ < every_)) return;
  last_ = now();
  const auto seconds = left_.seconds();
  const auto text =
      fmt::format("[{}/{}] {}{}", index + 1, left_.cases(), label, seconds ? ", " + about(*seconds) + " left" : "");
  if (terminal_)
    print_diagnostic("\r\x1b[K" + text);
  else
    say(text);
}

void Progress::clear() const {
  if (wanted_ && terminal_) print_diagnostic("\r\x1b[K");
}

}  // namespace isthmus::harness
