#pragma once

// Observer of the driver's events in each sample (docs/uvm.md). `--observe uvm` reports page faults, batches and
// migrations; `uvm_faults` adds a table of every page fault; `uvm_brief` omits the table of migrations; `uvm_batches`
// does not observe migrations at all.

#include <map>
#include <string>
#include <vector>

#include "harness/measure/watch/observer.hpp"
#include "trace/uvm/figures.hpp"
#include "trace/uvm/source.hpp"

namespace isthmus::harness {

/// Observer of one case. It observes each pass of measure(), or each sample of sample(), and ignores everything else in
/// the case.
class UvmObserver final : public Observer {
 public:
  enum class Watched { batches, moves_of_batches, moves, every_fault };  ///< each value includes the previous one

  /// The source must outlive this object and deliver the events that `watched` needs.
  explicit UvmObserver(trace::uvm::Source& source, Watched watched = Watched::moves)
      : source_(source), watched_(watched) {}

  void begin(const char* reading, Part part, std::size_t sample) override;
  void end() override;
  std::vector<Warning> invalid(std::size_t sample, bool last) override;
  std::vector<Series> metrics() override;
  std::vector<Table> tables() override;
  std::map<std::string, std::string> notes() override;

 private:
  struct Sample {
    trace::uvm::Figures figures;
    std::uint64_t dropped = 0, foreign_replays = 0;
    std::vector<trace::uvm::GpuFault> faults;  ///< filled only for Watched::every_fault
  };
  /// Samples of one call of sample(), or of all passes of measure(), keyed by sample number.
  using Group = std::map<std::size_t, Sample>;

  void keep(trace::uvm::Taken taken);

  trace::uvm::Source& source_;
  const Watched watched_;
  std::size_t depth_ = 0, sample_depth_ = 0;  ///< nesting depth of pieces; 0: no sample is being taken
  std::string reading_;
  std::size_t sample_ = 0;
  bool has_kernel_ = false;  ///< the current sample includes a kernel, unlike other readings of measure()
  std::vector<Group> groups_;
  std::vector<Warning> warnings_;
  std::string failure_;
  std::uint64_t foreign_replays_ = 0;
};

}  // namespace isthmus::harness
