#include "harness/measure/results/statistics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace isthmus::harness {
namespace {

TEST(Statistics, KnownAnswers) {
  const std::vector<double> odd{3, 1, 2}, even{4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(median(odd), 2);
  EXPECT_DOUBLE_EQ(median(even), 2.5);
  EXPECT_DOUBLE_EQ(median(std::vector<double>{7}), 7);
  EXPECT_DOUBLE_EQ(median_absolute_deviation(std::vector<double>{1, 1, 2, 2, 4, 6, 9}), 1);
  // Expected values are from numpy.quantile([1, 2, 3, 4, 5], 0.05) and 0.95.
  const std::vector<double> five{1, 2, 3, 4, 5};
  EXPECT_DOUBLE_EQ(quantile(five, 0.05), 1.2);
  EXPECT_DOUBLE_EQ(quantile(five, 0.95), 4.8);
  EXPECT_DOUBLE_EQ(quantile(five, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(five, 1), 5);
}

TEST(Statistics, QuantilesDoNotDependOnOrder) {
  std::mt19937 random(2);
  std::vector<double> values(101);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(values.begin(), values.end(), random);
    EXPECT_DOUBLE_EQ(quantile(values, 0.05), 5);
    EXPECT_DOUBLE_EQ(median(values), 50);
  }
}

TEST(Statistics, OrderStatisticRanksAreThoseOfTheBinomial) {
  const auto ranks = [](std::size_t count) {
    std::vector<double> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<double>(i + 1);
    return order_statistic_interval(values);
  };
  for (const std::size_t count : {0, 1, 2, 5}) EXPECT_FALSE(ranks(count)) << count;
  // Table of the sign test: for each number of samples, the largest k with 2 P(B < k) <= 0.05.
  const std::pair<std::size_t, double> table[] = {{6, 1}, {8, 1}, {9, 2}, {10, 2}, {11, 2}, {12, 3}, {20, 6}, {30, 10}};
  for (const auto& [count, rank] : table) {
    const auto interval = ranks(count);
    ASSERT_TRUE(interval) << count;
    EXPECT_EQ(interval->first, rank) << count;
    EXPECT_EQ(interval->second, static_cast<double>(count) + 1 - rank) << count;
  }
}

TEST(Statistics, OrderStatisticIntervalCoversTheMedian) {
  std::mt19937 random(3);
  std::lognormal_distribution<double> distribution(0, 1);  // with median 1
  for (const int count : {6, 10, 30}) {
    int covered = 0;
    constexpr int kTrials = 4000;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<double> samples(static_cast<std::size_t>(count));
      for (double& sample : samples) sample = distribution(random);
      const auto interval = *order_statistic_interval(samples);
      covered += interval.first <= 1 && 1 <= interval.second ? 1 : 0;
    }
    EXPECT_GE(covered, 0.94 * kTrials) << count;  // the Monte Carlo error is 0.4%
  }
}

TEST(Statistics, BootstrapIsSeededAndCovers) {
  std::mt19937 random(4);
  std::normal_distribution<double> distribution(10, 1);
  int covered = 0;
  constexpr int kTrials = 300;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> samples(30);
    for (double& sample : samples) sample = distribution(random);
    const auto interval = bootstrap_median_interval(samples);
    EXPECT_EQ(interval, bootstrap_median_interval(samples));
    EXPECT_LE(interval.first, median(samples));
    EXPECT_GE(interval.second, median(samples));
    covered += interval.first <= 10 && 10 <= interval.second ? 1 : 0;
  }
  EXPECT_GE(covered, 0.88 * kTrials);
}

TEST(Statistics, SettlesOnlyWhenTheIntervalIsNarrow) {
  EXPECT_FALSE(median_is_settled(std::vector<double>{1, 1, 1, 1, 1}));  // five samples are too few, even if equal
  EXPECT_TRUE(median_is_settled(std::vector<double>{1, 1, 1, 1, 1, 1}));
  EXPECT_TRUE(median_is_settled(std::vector<double>{0.995, 1, 1, 1, 1, 1.005}));
  EXPECT_FALSE(median_is_settled(std::vector<double>{0.98, 1, 1, 1, 1, 1}));
  EXPECT_FALSE(median_is_settled(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

TEST(Statistics, AutocorrelationKnownAnswers) {
  EXPECT_FALSE(autocorrelation(std::vector<double>{1, 2}));
  EXPECT_FALSE(autocorrelation(std::vector<double>{3, 3, 3, 3}));
  std::vector<double> alternating, ramp;
  for (int i = 0; i < 100; ++i) {
    alternating.push_back(i % 2 == 0 ? 1 : -1);
    ramp.push_back(i);
  }
  EXPECT_NEAR(*autocorrelation(alternating), -0.99, 1e-12);
  EXPECT_GT(*autocorrelation(ramp), 0.95);
  std::mt19937 random(5);
  std::normal_distribution<double> distribution(0, 1);
  std::vector<double> noise(10000);
  for (double& sample : noise) sample = distribution(random);
  EXPECT_NEAR(*autocorrelation(noise), 0, 0.03);
}

TEST(ErrorOfMedian, IsAtLeastAHundredthAndATick) {
  EXPECT_TRUE(std::isinf(error_of_median(std::vector{1.0}, false, 0)));
  EXPECT_DOUBLE_EQ(error_of_median(std::vector{1.0, 1.0, 1.0}, false, 0), 0.01);
  EXPECT_DOUBLE_EQ(error_of_median(std::vector{0.8, 1.0, 1.4}, false, 0), 0.3);
  EXPECT_DOUBLE_EQ(error_of_median(std::vector{1e-6, 1e-6}, false, 5e-7), 5e-7);
  std::vector<double> many(30, 1.0);
  many.back() = 100;
  EXPECT_DOUBLE_EQ(error_of_median(many, false, 0), 0.01) << "one sample far off moves no median";
  EXPECT_DOUBLE_EQ(error_of_median(many, true, 0), 49.5) << "a coarse one has no interval of its own";
}

}  // namespace
}  // namespace isthmus::harness
