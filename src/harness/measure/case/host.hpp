#pragma once

#include <span>

#include "harness/measure/passes/case_state.hpp"
#include "harness/measure/passes/sampler.hpp"

namespace isthmus::harness {

/// Harness's side of a Case: implements the calls that a workload makes, on the state of one case.
class Host final : public CaseHost {
 public:
  explicit Host(CaseState& state) : state_(state) {}

  const CaseSpec& spec() const override { return state_.spec; }
  void consult(std::string_view setting) const override { state_.consult(setting); }
  std::uint64_t seed() const override { return state_.seed; }
  const device::DeviceInfo* device() const override { return state_.device_info ? &*state_.device_info : nullptr; }
  const InputFile& input_file() override;

  Declarations& declarations() override { return state_.declared; }
  const BufferAddresses& addresses() const override { return state_; }
  bool measured() const override { return state_.measured; }
  std::shared_ptr<const void> shared_input(const std::string& name, const MakeShared& make) override;
  void add(ElementCheck check) override;
  void add(OwnCheck check) override;
  void add(SameCheck check) override { state_.verifier.add(std::move(check)); }

  void kernel(device::KernelInfo info, const device::LaunchShape& shape) override;
  void fallback(std::string reason) override { state_.result.fallback = std::move(reason); }
  void note(const std::string& name, std::string text) override { state_.result.notes[name] = std::move(text); }
  void warn(std::string code, std::string message) override { state_.result.warn(std::move(code), std::move(message)); }

  void measure(Control control, std::function<void(Run&)> body, const PagedBuffers& buffers) override;
  void needs(std::size_t host_bytes, std::size_t device_bytes) override;
  void once(Metric metric, double value) override;
  device::Stream& stream() override;
  bool emulated() const override { return state_.emulated; }
  int numa_node() const override { return state_.result.numa_node; }
  Team& team() override { return state_.team; }

  void sample(std::vector<Metric> metrics, const std::function<void()>& prepare,
              const std::function<std::vector<double>()>& body) override;
  void limit(int most_samples, int most_warmups) override;
  bool interrupted() const override { return state_.team.interrupted(); }
  void end_if_over_budget(std::string_view done) const override { state_.end_if_over_budget(done); }
  void batch(int operations) override;
  void invalidate(std::string code, std::string message) override;
  bool latch() override { return state_.wants_latch(); }
  double latch_timeout() const override { return state_.sampling.latch_timeout; }
  double least_seconds(std::string_view timer) const override;
  int largest_batch() const override { return state_.sampling.largest_batch; }

 private:
  Taken take_sample(std::span<const Series> series, const std::function<void()>& prepare,
                    const std::function<std::vector<double>()>& body, Part part, std::size_t index);

  CaseState& state_;
};

}  // namespace isthmus::harness
