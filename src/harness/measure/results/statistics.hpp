#pragma once

// Statistics of the samples of one metric in one process (docs/method.md). All are pure functions of the samples: the
// bootstrap's seed is fixed, so the same samples always give the same interval.

#include <optional>
#include <span>
#include <utility>

namespace isthmus::harness {

/// Returns a quantile by linear interpolation between order statistics; `samples` must not be empty.
double quantile(std::span<const double> samples, double probability);
double median(std::span<const double> samples);
/// Returns the median absolute deviation from the median, not scaled.
double median_absolute_deviation(std::span<const double> samples);

/// Returns the percentile bootstrap 95% interval of the median. It is valid for this process only.
std::pair<double, double> bootstrap_median_interval(std::span<const double> samples);
/// Returns how far the median of another reading of the same quantity may deviate: half the width of this median's
/// interval, but at least a hundredth of the median and one tick of the timer. Returns infinity for a single sample.
/// isthmus/records/withheld.py has the same rule.
double error_of_median(std::span<const double> samples, bool coarse, double tick);

/// Returns a distribution-free interval of the median with at least 95% coverage, between two order statistics; nullopt
/// for fewer than six samples, where no pair has that coverage.
std::optional<std::pair<double, double>> order_statistic_interval(std::span<const double> samples);

/// Implements the stopping rule: returns whether the order-statistic interval is within `relative` of the median.
bool median_is_settled(std::span<const double> samples, double relative = 0.01);

/// Returns the lag-1 autocorrelation; nullopt for fewer than three samples, or if they do not vary.
std::optional<double> autocorrelation(std::span<const double> samples);

}  // namespace isthmus::harness
