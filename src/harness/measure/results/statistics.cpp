#include "harness/measure/results/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace isthmus::harness {

namespace {

std::vector<double> sorted(std::span<const double> samples) {
  std::vector<double> values(samples.begin(), samples.end());
  std::sort(values.begin(), values.end());
  return values;
}

double quantile_of_sorted(const std::vector<double>& values, double probability) {
  const double position = probability * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  const double fraction = position - static_cast<double>(below);
  return values[below] + (values[above] - values[below]) * fraction;
}

/// Returns the next number of splitmix64, a small seeded generator. Unlike the standard distributions, it yields the
/// same numbers on every platform.
std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

double quantile(std::span<const double> samples, double probability) {
  return quantile_of_sorted(sorted(samples), probability);
}

double median(std::span<const double> samples) {
  return quantile(samples, 0.5);
}

double median_absolute_deviation(std::span<const double> samples) {
  const double middle = median(samples);
  std::vector<double> deviations;
  for (const double sample : samples) deviations.push_back(std::abs(sample - middle));
  return median(deviations);
}

std::pair<double, double> bootstrap_median_interval(std::span<const double> samples) {
  constexpr std::size_t kResamples = 2000;
  std::uint64_t state = 20261121;
  std::vector<double> medians(kResamples);
  std::vector<double> resample(samples.size());
  const std::size_t middle = samples.size() / 2;
  for (double& value : medians) {
    for (double& drawn : resample) drawn = samples[next_random(state) % samples.size()];
    std::nth_element(resample.begin(), resample.begin() + static_cast<std::ptrdiff_t>(middle), resample.end());
    value = resample[middle];
    if (samples.size() % 2 == 0)
      value = (value + *std::max_element(resample.begin(), resample.begin() + static_cast<std::ptrdiff_t>(middle))) / 2;
  }
  std::sort(medians.begin(), medians.end());
  return {quantile_of_sorted(medians, 0.025), quantile_of_sorted(medians, 0.975)};
}

std::optional<std::pair<double, double>> order_statistic_interval(std::span<const double> samples) {
  const std::size_t count = samples.size();
  // The k-th smallest and k-th largest miss the median with probability 2·P(B < k), B binomial(count, 1/2).
  const double whole = std::pow(0.5, static_cast<double>(count));
  double term = whole, tail = 0;
  std::size_t rank = 0;
  while (rank < count / 2 && 2 * (tail + term) <= 0.05) {
    tail += term;
    ++rank;
    term *= static_cast<double>(count - rank + 1) / static_cast<double>(rank);
  }
  if (rank == 0) return std::nullopt;
  const auto values = sorted(samples);
  return std::pair{values[rank - 1], values[count - rank]};
}

bool median_is_settled(std::span<const double> samples, double relative) {
  const auto interval = order_statistic_interval(samples);
  if (!interval) return false;
  const double middle = median(samples);
  const double width = relative * std::abs(middle);
  return interval->first >= middle - width && interval->second <= middle + width;
}

std::optional<double> autocorrelation(std::span<const double> samples) {
  if (samples.size() < 3) return std::nullopt;
  double mean = 0;
  for (const double sample : samples) mean += sample / static_cast<double>(samples.size());
  double variance = 0, covariance = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    variance += (samples[i] - mean) * (samples[i] - mean);
    if (i > 0) covariance += (samples[i] - mean) * (samples[i - 1] - mean);
  }
  if (!(variance > 0)) return std::nullopt;
  return std::clamp(covariance / variance, -1.0, 1.0);
}

double error_of_median(std::span<const double> samples, bool coarse, double tick) {
  constexpr double kBetweenReadings = 0.01;
  if (samples.size() < 2) return std::numeric_limits<double>::infinity();
  const auto [least, most] = std::ranges::minmax(samples);
  double scatter = (most - least) / 2;
  if (samples.size() >= 10 && !coarse) {
    const auto [low, high] = bootstrap_median_interval(samples);
    scatter = (high - low) / 2;
  }
  return std::max({scatter, kBetweenReadings * median(samples), tick});
}

}  // namespace isthmus::harness
