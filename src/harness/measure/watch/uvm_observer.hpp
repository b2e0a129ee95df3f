#pragma once

// `--observe uvm`: the driver's page faults, batches and migrations of each sample; `--observe uvm_faults`: and a table
// of every fault; `--observe uvm_brief`: without the table of moves; `--observe uvm_batches`: without what moved
// (docs/uvm.md).

#include <map>
#include <string>
#include <vector>

#include "harness/measure/watch/observer.hpp"
#include "trace/uvm/figures.hpp"
#include "trace/uvm/source.hpp"

namespace isthmus::harness {

/// Of one case. The unit is one pass of measure(), or one sample of sample(); what else a case does is not looked at.
class UvmObserver final : public Observer {
 public:
  enum class Watched { batches, moves_of_batches, moves, every_fault };  ///< each has what the one before it has

  /// The source outlives it, and tells as much.
  explicit UvmObserver(trace::uvm::Source& source, Watched watched = Watched::moves)
      : source_(source), watched_(watched) {}

  void begin(const char* reading, Part part, std::size_t sample) override;
  void end() override;
  std::vector<Warning> spoilt(std::size_t sample, bool last) override;
  std::vector<Series> metrics() override;
  std::vector<Table> tables() override;
  std::map<std::string, std::string> notes() override;

 private:
  struct Sample {
    trace::uvm::Figures figures;
    std::uint64_t dropped = 0, foreign_replays = 0;
    std::vector<trace::uvm::GpuFault> faults;  ///< where every fault is asked for
  };
  /// The samples of one call of sample(), or of all passes of measure().
  using Group = std::map<std::size_t, Sample>;

  void keep(trace::uvm::Taken taken);

  trace::uvm::Source& source_;
  const Watched watched_;
  std::size_t depth_ = 0, sample_depth_ = 0;  ///< of pieces; 0: no sample is being taken
  std::string reading_;
  std::size_t sample_ = 0;
  bool has_kernel_ = false;  ///< a pass of measure(), not one of its other readings
  std::vector<Group> groups_;
  std::vector<Warning> warnings_;
  std::string failure_;
  std::uint64_t foreign_replays_ = 0;
};

}  // namespace isthmus::harness
