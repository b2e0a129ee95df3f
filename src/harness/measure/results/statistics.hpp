#pragma once

// Statistics of the samples of one metric in one process (docs/method.md). All are functions of the samples alone:
// the bootstrap's seed is fixed, so the same samples always give the same interval.

#include <optional>
#include <span>
#include <utility>

namespace isthmus::harness {

/// Quantile by linear interpolation between order statistics; `samples` must not be empty.
double quantile(std::span<const double> samples, double probability);
double median(std::span<const double> samples);
/// Median absolute deviation from the median, not scaled.
double median_absolute_deviation(std::span<const double> samples);

/// Percentile bootstrap 95% interval of the median. It speaks of this process only.
std::pair<double, double> bootstrap_median_interval(std::span<const double> samples);
/// How far the median of another reading of the same thing may be off: half the interval of this one's, at least a
/// hundredth of it and a tick of its timer. Infinite for a single sample. isthmus/records/withheld.py has the same
/// rule.
double error_of_median(std::span<const double> samples, bool coarse, double tick);

/// Distribution-free interval of the median with at least 95% coverage between two order statistics; nullopt below six
/// samples, where no pair of them covers so much.
std::optional<std::pair<double, double>> order_statistic_interval(std::span<const double> samples);

/// The stopping rule: the order-statistic interval lies within `relative` of the median.
bool median_is_settled(std::span<const double> samples, double relative = 0.01);

/// Lag 1; nullopt below three samples or where they do not vary.
std::optional<double> autocorrelation(std::span<const double> samples);

}  // namespace isthmus::harness
