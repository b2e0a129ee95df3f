#include "harness/measure/passes/case_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "harness/measure/passes/measurement.hpp"
#include "harness/plan/estimate.hpp"
#include "memory/host_memory.hpp"
#include "memory/parallel.hpp"

namespace isthmus::harness {

CaseState::CaseState(const CaseSpec& spec_, std::optional<device::DeviceInfo> device_, std::uint64_t seed_,
                     const SamplingOptions& sampling_, CaseResult& result_, Team& team_)
    : spec(spec_),
      device_info(std::move(device_)),
      seed(seed_),
      sampling(sampling_),
      result(result_),
      team(team_),
      monitor(device_info ? std::optional(device_info->index) : std::nullopt),
      observers{&monitor, &ranges, &account} {}

CaseState::~CaseState() = default;

namespace {

/// Returns a made-up address for address arithmetic before anything is allocated. It is far from all other addresses.
std::byte* made_up_address(std::size_t buffer) {
  return reinterpret_cast<std::byte*>((buffer + 1) << 44);
}

}  // namespace

std::byte* CaseState::device(std::size_t buffer) const {
  if (const auto& asked = declared.buffers.at(buffer).spec; asked.role == memory::Role::host_source)
    throw std::logic_error("buffer " + asked.name + " is on the host only: copy parts of it into a scratch buffer");
  if (rehearsing) return made_up_address(buffer);
  std::byte* address = set ? set->device(buffer) : nullptr;
  if (set && set->view(buffer) != nullptr)
    throw std::logic_error("buffer " + declared.buffers.at(buffer).spec.name +
                           " is paged, so it has no address for kernels: pass them Run::paged()");
  if (address == nullptr)
    throw std::logic_error("buffer " + declared.buffers.at(buffer).spec.name +
                           " has no address before measure(): request it inside the body");
  return address;
}

std::byte* CaseState::host(std::size_t buffer) const {
  if (rehearsing)
    throw std::logic_error("a queued body requests the host's copy of buffer " + declared.buffers.at(buffer).spec.name +
                           ": read it in a check, or measure with Control::waits");
  std::byte* address = set ? set->host(buffer) : nullptr;
  if (address == nullptr)
    throw std::logic_error("buffer " + declared.buffers.at(buffer).spec.name +
                           (declared.buffers.at(buffer).spec.role == memory::Role::scratch
                                ? " is on the device only, so the host has no copy"
                                : " has no address before measure(): request it inside the body or a check"));
  return address;
}

void CaseState::refuse_known(const std::string& metric) const {
  if (result.find(metric) != nullptr)
    throw std::logic_error("two metrics are named " + metric + ": readers of the record could not tell them apart");
}

bool CaseState::wants_latch() {
  consult("--no-latch");
  if (!sampling.latch) result.warn("no_latch", "no latch held the stream (--no-latch): times include submission");
  return sampling.latch;
}

namespace {

/// Returns the seconds that the timer measured for one operation; nullopt if the value does not determine them.
std::optional<double> seconds_of(const Series& metric, double value) {
  if (metric.unit == "s") return value;
  if (metric.unit == "1/s" && value > 0) return 1 / value;
  if (metric.unit == "B/s" && value > 0 && metric.bytes_moved) return *metric.bytes_moved / value;
  return std::nullopt;
}

}  // namespace

void CaseState::judge_ticks(Series& metric) {
  if (metric.samples.empty() || metric.tick <= 0 || emulated) return;
  std::optional<double> shortest;
  for (const double value : metric.valid()) {
    const auto seconds = seconds_of(metric, value);
    if (seconds) shortest = std::min(shortest.value_or(*seconds), *seconds);
  }
  metric.coarse = shortest && *shortest * metric.batch < sampling.least_ticks * metric.tick;
  if (metric.coarse)
    result.warn("timer_coarse", fmt::format("{} is shorter than {} ticks of its timer, so its interval is not reported",
                                            metric.name, sampling.least_ticks));
}

void CaseState::end_if_over_budget(std::string_view done) const {
  if (!sampling.budget || footprint_only || elapsed() <= *sampling.budget) return;
  const bool has_samples =
      std::ranges::any_of(result.metrics, [](const Series& series) { return !series.samples.empty(); });
  if (has_samples) return;
  throw BudgetSpent(
      fmt::format("the budget of {:g} s ended after {} ({:.3g} s), before the first sample; raise --budget, or choose "
                  "a smaller size",
                  *sampling.budget, done, elapsed()));
}

namespace {

/// Estimates the seconds of a case that takes one sample and no warm-ups; nullopt if the bytes are not enough to tell.
std::optional<double> shortest(const CaseSpec& spec, SamplingOptions sampling, std::size_t host_bytes,
                               std::size_t device_bytes) {
  sampling.samples = 1;
  sampling.warmups = 0;
  sampling.budget.reset();
  CaseFootprint footprint;
  footprint.host_bytes = host_bytes;
  footprint.device_bytes = device_bytes;
  return estimate_seconds(spec, sampling, footprint);
}

}  // namespace

void CaseState::check_footprint(std::size_t host_bytes, std::size_t device_bytes) const {
  using Memory = InsufficientMemory::Memory;
  const auto refuse_more = [](Memory memory, std::size_t bytes, std::size_t there, double usable, const auto& words) {
    const InsufficientMemory insufficient_memory = {memory, static_cast<double>(bytes), static_cast<double>(there),
                                                    usable};
    if (insufficient_memory.needed > usable)
      throw Skip(fmt::format("needs {} of {} memory, {}", memory::format_bytes(insufficient_memory.needed),
                             memory == Memory::host ? "host" : "device",
                             words(memory::format_bytes(insufficient_memory.free))),
                 insufficient_memory);
  };
  const std::size_t host = memory::host_memory().bytes;
  // A little memory is left for the program, because page tables and staging buffers are needed in addition to the
  // buffers.
  refuse_more(Memory::host, host_bytes, host, 0.95 * static_cast<double>(host),
              [](const std::string& free) { return free + " are available"; });
  constexpr double kDoubt = 2, kUsualOverhead = 0.1;  // factor and seconds by which an estimate may be wrong
  if (const auto& budget = sampling.budget) {
    const auto seconds = shortest(spec, sampling, host_bytes, device_bytes);
    if (seconds && *seconds > kDoubt * *budget + kUsualOverhead)
      throw BudgetSpent(fmt::format(
          "one sample of {} of host and {} of device memory takes about {:.2g} s, and the budget is {:g} s; "
          "raise --budget, or choose a smaller size",
          memory::format_bytes(static_cast<double>(host_bytes)),
          memory::format_bytes(static_cast<double>(device_bytes)), *seconds, *budget));
  }
  if (!device_info) return;
  const auto card = device::memory_info();
  const auto latch = static_cast<double>(device::SpinLatch::kDeviceBytes);  // not allocated yet
  refuse_more(Memory::device, device_bytes, card.free, static_cast<double>(card.free) - latch,
              [&](const std::string& free) {
                return fmt::format("{} of {} are free", free, memory::format_bytes(static_cast<double>(card.total)));
              });
}

void CaseState::for_stretches(const DeclaredBuffer& buffer,
                              const std::function<void(std::size_t, std::size_t, std::size_t)>& use) {
  constexpr std::size_t kGrain = std::size_t{1} << 16;
  const auto& shape = buffer.shape;
  if (shape.columns == shape.pitch) {
    memory::parallel_for(buffer.elements(), kGrain,
                         [&](std::size_t first, std::size_t last) { use(first * buffer.element_bytes, first, last); });
    return;
  }
  memory::parallel_for(
      shape.rows, std::max<std::size_t>(1, kGrain / shape.pitch), [&](std::size_t first, std::size_t last) {
        for (std::size_t row = first; row < last; ++row)
          use(row * shape.pitch * buffer.element_bytes, row * shape.columns, (row + 1) * shape.columns);
      });
}

void CaseState::fill(std::size_t index) {
  const auto& buffer = declared.buffers[index];
  if (!buffer.fill) return;
  std::byte* host = set->host(index);
  if (buffer.whole) return buffer.fill(host, 0, buffer.elements());
  for_stretches(buffer, [&](std::size_t offset, std::size_t first, std::size_t last) {
    buffer.fill(host + offset, first, last);
    clear_padding(buffer, host + offset);
  });
}

void CaseState::clear_padding(const DeclaredBuffer& buffer, std::byte* row) {
  const auto& [rows, columns, pitch] = buffer.shape;
  if (columns < pitch) std::memset(row + columns * buffer.element_bytes, 0, (pitch - columns) * buffer.element_bytes);
}

}  // namespace isthmus::harness
