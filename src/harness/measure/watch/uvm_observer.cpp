#include "harness/measure/watch/uvm_observer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>

namespace isthmus::harness {

namespace {

/// Number of samples that the tables contain. It is small, because one sample of 1 GiB has 25 thousand migrations.
constexpr std::size_t kTabled = 3;

using trace::uvm::Cause;
using trace::uvm::Figures;

struct Figure {
  const char* name;
  const char* unit;
  const char* timer;
  /// Function that returns the figure of a sample, or nullopt if it has no value there.
  std::optional<double> (*of)(const Figures&);
  bool of_moves = false;
  /// Figure of evictions, which is reported only if the GPU was short of memory in some sample.
  bool of_evictions = false;
};

template <auto Member>
std::optional<double> count(const Figures& figures) {
  return static_cast<double>(figures.*Member);
}
template <auto Member, double trace::uvm::Spread::* Part = &trace::uvm::Spread::mean>
std::optional<double> spread(const Figures& figures) {
  const auto& of = figures.*Member;
  return of.count > 0 ? std::optional(of.*Part) : std::nullopt;
}
template <Cause cause>
std::optional<double> bytes(const Figures& figures) {
  return static_cast<double>(figures.of(cause));
}
template <auto Member>
std::optional<double> time(const Figures& figures) {
  return figures.times ? std::optional<double>((*figures.times).*Member) : std::nullopt;
}
template <auto Member>
std::optional<double> latency(const Figures& figures) {
  return figures.times ? (*figures.times).*Member : std::nullopt;
}

/// Returns a count of evictions, which is 0 if nothing was evicted.
template <auto Member>
std::optional<double> evicted(const Figures& figures) {
  return static_cast<double>(figures.evictions.value_or(trace::uvm::Evictions{}).*Member);
}
std::optional<double> eviction_age(const Figures& figures) {
  return figures.evictions ? figures.evictions->age : std::nullopt;
}

using Times = Figures::Times;
using trace::uvm::Evictions;
using trace::uvm::Spread;
constexpr Figure kFigures[] = {
    {"uvm_faults", "1", "none", count<&Figures::faults>},
    {"uvm_pages", "1", "none", count<&Figures::pages>},
    {"uvm_batches", "1", "none", [](const Figures& f) { return std::optional(static_cast<double>(f.batches.size())); }},
    {"uvm_batch_faults", "1", "none", spread<&Figures::faults_of_batch>},
    {"uvm_batch_blocks", "1", "none", spread<&Figures::blocks_of_batch>},
    {"uvm_batch_clients", "1", "none", spread<&Figures::clients_of_batch>},
    {"uvm_batch_gpcs", "1", "none", spread<&Figures::gpcs_of_batch>},
    {"uvm_block_faults", "1", "none", spread<&Figures::faults_of_block>},
    {"uvm_block_faults_deviation", "1", "none", spread<&Figures::faults_of_block, &Spread::deviation>},
    {"uvm_block_faults_least", "1", "none", spread<&Figures::faults_of_block, &Spread::least>},
    {"uvm_block_faults_most", "1", "none", spread<&Figures::faults_of_block, &Spread::most>},
    {"uvm_replays", "1", "none", count<&Figures::replays>},
    {"uvm_fault_bytes", "B", "none", bytes<Cause::fault>, true},
    {"uvm_prefetch_bytes", "B", "none", bytes<Cause::prefetch>, true},
    {"uvm_eviction_bytes", "B", "none", bytes<Cause::eviction>, true},
    {"uvm_evictions", "1", "none", evicted<&Evictions::blocks>, true, true},
    {"uvm_eviction_age", "1", "none", eviction_age, true, true},
    {"uvm_returned_blocks", "1", "none", evicted<&Evictions::returned>, true, true},
    {"uvm_returned_bytes", "B", "none", evicted<&Evictions::returned_bytes>, true, true},
    {"uvm_discarded_bytes", "B", "none", evicted<&Evictions::discarded_bytes>, true, true},
    {"uvm_user_bytes", "B", "none", bytes<Cause::user>, true},
    {"uvm_cpu_faults", "1", "none", count<&Figures::cpu_faults>},
    {"uvm_throttlings", "1", "none", count<&Figures::throttlings>},
    {"uvm_thrashings", "1", "none", count<&Figures::thrashings>},
    {"uvm_remote_maps", "1", "none", count<&Figures::remote_maps>},
    {"uvm_service_time", "s", "clock", time<&Times::service>},
    {"uvm_between_time", "s", "clock", time<&Times::between>},
    {"uvm_transfer_time", "s", "event", time<&Times::transfer>, true},
    {"uvm_throttled_time", "s", "clock", time<&Times::throttled>},
    {"uvm_latency_p50", "s", "event", latency<&Times::latency_p50>},
    {"uvm_latency_p95", "s", "event", latency<&Times::latency_p95>},
};

/// Returns the name of a metric, such as "uvm_faults", or "uvm_2_faults" for the second call of sample().
std::string name_of(const Figure& figure, std::size_t group) {
  constexpr std::string_view kPrefix = "uvm_";
  const std::string_view name = figure.name;
  return group == 0 ? std::string(name) : fmt::format("uvm_{}_{}", group + 1, name.substr(kPrefix.size()));
}

bool is_of_a_sample(std::string_view reading) {
  return reading.empty() || reading == "sample";
}

}  // namespace

void UvmObserver::begin(const char* reading, Part part, std::size_t sample) {
  ++depth_;
  const std::string_view name = reading;
  if (sample_depth_ > 0) {
    has_kernel_ |= name == "kernel";
    return;
  }
  if (part != Part::samples || !is_of_a_sample(name)) return;
  sample_depth_ = depth_;
  reading_ = name;
  sample_ = sample;
  has_kernel_ = name == "sample";
  foreign_replays_ += source_.take().foreign_replays;  // discards events from before the sample
}

void UvmObserver::end() {
  if (sample_depth_ > 0 && depth_ == sample_depth_) {
    sample_depth_ = 0;
    try {
      if (has_kernel_) keep(source_.take());
    } catch (const std::exception& failure) {  // destructors call end(), so invalid() reports the failure later
      failure_ = failure.what();
    }
  }
  --depth_;
}

void UvmObserver::keep(trace::uvm::Taken taken) {
  // Passes of measure() before its samples have the same numbers, so the samples overwrite them.
  if (groups_.empty() || (reading_ == "sample" && sample_ == 0)) groups_.emplace_back();
  const auto [place, is_new] = groups_.back().try_emplace(sample_);
  if (!is_new) warnings_.clear();  // not fetched by invalid() yet, so they concern the overwritten sample
  auto& kept = place->second;
  kept.figures = trace::uvm::figures_of(taken.events);
  kept.dropped = taken.dropped;
  kept.faults.clear();
  if (watched_ == Watched::every_fault && sample_ < kTabled) {
    for (const auto& event : taken.events) {
      if (const auto* fault = std::get_if<trace::uvm::GpuFault>(&event)) kept.faults.push_back(*fault);
    }
    std::stable_sort(kept.faults.begin(), kept.faults.end(),
                     [](const auto& a, const auto& b) { return a.time < b.time; });
  }
  foreign_replays_ += kept.foreign_replays = taken.foreign_replays;
  if (kept.dropped > 0)
    warnings_.push_back(Warning{
        "uvm_dropped",
        fmt::format("the driver dropped {} events of a sample, so its counts are incomplete; choose a smaller size",
                    kept.dropped),
        {sample_}});
  for (const auto& problem : kept.figures.problems) warnings_.push_back(Warning{"uvm_clock", problem, {}});
}

std::vector<Warning> UvmObserver::invalid(std::size_t /*sample*/, bool /*last*/) {
  if (!failure_.empty()) throw std::runtime_error(std::exchange(failure_, {}));
  return std::exchange(warnings_, {});
}

std::vector<Series> UvmObserver::metrics() {
  if (!failure_.empty()) throw std::runtime_error(std::exchange(failure_, {}));
  std::vector<Series> all;
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const bool short_of_memory = std::any_of(groups_[group].begin(), groups_[group].end(), [](const auto& sample) {
      return sample.second.figures.evictions.has_value();
    });
    for (const auto& figure : kFigures) {
      if (figure.of_moves && watched_ == Watched::batches) continue;
      if (figure.of_evictions && !short_of_memory) continue;
      auto series = Series::of(name_of(figure, group), figure.timer, figure.unit);
      series.better = std::nullopt;
      series.stop = Stop::derived;
      series.limit_reason = "no limit applies to an observed sample";
      bool everywhere = !groups_[group].empty();
      for (const auto& [index, sample] : groups_[group]) {
        const auto value = figure.of(sample.figures);
        everywhere &= value.has_value();
        if (sample.dropped > 0) series.invalid.push_back(series.samples.size());
        series.samples.push_back(value.value_or(0));
      }
      if (everywhere) all.push_back(std::move(series));
    }
  }
  return all;
}

std::vector<Table> UvmObserver::tables() {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  Table batches{"uvm_batches",
                {"group", "sample", "gpu", "client_kind", "batch", "faults", "pages", "blocks", "clients", "gpcs",
                 "begin", "last_fault", "replay", "moves", "bytes", "transfer"},
                {}};
  Table moves{"uvm_migrations",
              {"group", "sample", "cause", "source", "destination", "address", "bytes", "begin", "seconds"},
              {}};
  Table faults{"uvm_faults",
               {"group", "sample", "gpu", "client_kind", "batch", "address", "access", "kind", "gpc", "client",
                "written", "taken_up"},
               {}};
  batches.values.resize(batches.columns.size());
  faults.values.resize(faults.columns.size());
  moves.values.resize(moves.columns.size());
  const auto add = [](Table& table, std::initializer_list<double> row) {
    auto column = table.values.begin();
    for (const double value : row) (column++)->push_back(value);
  };
  const auto moved = [this](double value) { return watched_ == Watched::batches ? kUnknown : value; };
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    for (const auto& [index, sample] : groups_[group]) {
      if (index >= kTabled) break;
      const auto of_group = static_cast<double>(group + 1), of_sample = static_cast<double>(index);
      const auto number = [](auto count) { return static_cast<double>(count); };
      for (const auto& each : sample.figures.batches)
        add(batches, {of_group, of_sample, number(each.gpu), number(each.client_kind), number(each.number),
                      number(each.faults), number(each.pages), number(each.blocks), number(each.clients),
                      number(each.gpcs), each.begin, each.last, each.replay.value_or(kUnknown),
                      moved(number(each.moves)), moved(number(each.bytes)), moved(each.transfer)});
      if (watched_ != Watched::moves_of_batches) {
        for (const auto& each : sample.figures.migrations)
          add(moves, {of_group, of_sample, number(each.cause), number(each.source), number(each.destination),
                      number(each.address), number(each.bytes), each.begin, each.seconds.value_or(kUnknown)});
      }
      std::uint64_t first_written = std::numeric_limits<std::uint64_t>::max();
      for (const auto& each : sample.faults) first_written = std::min(first_written, each.gpu_time);
      for (const auto& each : sample.faults)
        add(faults,
            {of_group, of_sample, number(each.gpu), number(each.client_kind), number(each.batch), number(each.address),
             number(each.access), number(each.kind), number(each.gpc), number(each.client),
             number(each.gpu_time - first_written) * 1e-9, number(each.time - sample.figures.began) * 1e-9});
    }
  }
  std::vector<Table> all;
  for (auto* table : {&batches, &moves, &faults}) {
    if (!table->values.front().empty()) all.push_back(std::move(*table));
  }
  return all;
}

std::map<std::string, std::string> UvmObserver::notes() {
  return {{"uvm_source", source_.name() + (watched_ == Watched::batches ? ", without what moved" : "")},
          {"uvm_foreign_replays", fmt::format("{} replays of other processes' faults were seen", foreign_replays_)}};
}

}  // namespace isthmus::harness
