#include "workload/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "workload/case_host.hpp"
#include "workload/team.hpp"

namespace isthmus::workload {

void Sampling::sample(Metric metric, const std::function<double()>& body) {
  sample(std::vector<Metric>{std::move(metric)}, [&body] { return std::vector<double>{body()}; });
}

void Sampling::sample(std::vector<Metric> metrics, const std::function<std::vector<double>()>& body) {
  sample(std::move(metrics), [] {}, body);
}

void Sampling::sample(std::vector<Metric> metrics, const std::function<void()>& prepare,
                      const std::function<std::vector<double>()>& body) {
  if (metrics.empty()) throw std::logic_error("sample() needs a metric");
  host_->sample(std::move(metrics), prepare, body);
}

void Sampling::limit(int most_samples, int most_warmups) {
  host_->limit(most_samples, most_warmups);
}

bool Sampling::interrupted() const {
  return host_->interrupted();
}

void Sampling::end_if_interrupted() const {
  if (interrupted()) throw Interrupted{};
}

void Sampling::batch(int operations) {
  if (operations < 1) throw std::logic_error("a batch must have at least one operation");
  host_->batch(operations);
}

void Sampling::invalidate(std::string code, std::string message) {
  host_->invalidate(std::move(code), std::move(message));
}

bool Sampling::latch() const {
  return host_->latch();
}

double Sampling::latch_timeout() const {
  host_->consult("--latch-timeout");
  return host_->latch_timeout();
}

double Sampling::least_seconds(std::string_view timer) const {
  return host_->emulated() ? 0 : host_->least_seconds(timer);
}

int Sampling::batch_for(std::string_view timer, int most, const std::function<double(int)>& seconds_of) const {
  const double enough = 2 * least_seconds(timer);  // twice as long, because samples vary
  if (!(enough > 0)) return 1;
  seconds_of(1);  // the first call is slower than later ones
  const auto shortest_of = [&](int times) {
    double shortest = seconds_of(times);
    for (int i = 0; i < 2 && shortest >= enough && shortest < 10 * enough; ++i)  // a pause could lengthen a call
      shortest = std::min(shortest, seconds_of(times));
    return shortest;
  };
  int times = 1;
  while (times < most) {
    end_if_interrupted();
    host_->end_if_over_budget("finding a batch");
    const double shortest = shortest_of(times);
    if (shortest >= enough) break;
    const double wanted = 1.25 * enough / std::max(shortest, 1e-9) * times;
    times = static_cast<int>(std::clamp(std::ceil(wanted), times + 1.0, static_cast<double>(most)));
  }
  return times;
}

int Sampling::largest_batch() const {
  return host_->largest_batch();
}

}  // namespace isthmus::workload
