#pragma once

// A batch of jobs with their data on the host, run in any mode any number of times, every job's result looked at.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "interjob/pipeline.hpp"
#include "memory/crew.hpp"
#include "microbench/interjob/recipe.hpp"

namespace isthmus::microbench::interjob {

namespace pipeline = isthmus::interjob;

enum class Host {
  pinned,    ///< page-locked once for all batches
  per_job,   ///< page-locked for each job and filled by it
  pageable,  ///< never page-locked
};

class JobBatch {
 public:
  static constexpr std::size_t kQuickElements = 16;  ///< looked at of each result
  struct Wanted {
    std::vector<Recipe> recipes;  ///< job i is of recipe i modulo their number
    std::size_t jobs = 16;
    int depth = 3;
    Host host = Host::pinned;
    int numa_node = -1;
    std::uint64_t seed = 0;
  };
  /// What it will hold on the host, page-locked by jobs included.
  static std::size_t host_bytes(const Wanted& wanted);
  /// Of the largest job.
  static std::size_t device_bytes(const Wanted& wanted);

  explicit JobBatch(Wanted wanted);

  /// What a batch is run for.
  enum class For {
    time,    ///< a few elements of each result are looked at
    checks,  ///< many are
    calls,   ///< jobs take their memory and make their calls, but copy an element each and compute nothing
  };
  /// Runs the jobs, or the first `jobs` of them, with device memory of one source.
  pipeline::Result run(pipeline::Source source, const pipeline::Options& options, For what = For::time,
                       std::size_t jobs = std::size_t(-1));
  /// The largest error so far over what is allowed, of the jobs that did not fail; infinite where one came to no end.
  double worst() const noexcept { return worst_; }
  /// Elements looked at so far.
  std::size_t checked() const noexcept { return checked_; }

 private:
  struct Data;    // of a recipe, on the host
  struct Check {  // of a job
    std::vector<std::size_t> elements;
    std::vector<double> expected;
  };
  pipeline::Job job(std::size_t index, pipeline::Source source, For what);
  std::span<const std::size_t> elements(std::size_t index, bool thorough) const;
  void look(std::size_t index, const float* results, bool thorough);
  void fill(void* to, const std::byte* from, std::size_t bytes);

  Wanted wanted_;
  std::vector<std::shared_ptr<Data>> data_;  // one a recipe
  std::vector<Check> checks_;                // one a job
  std::unique_ptr<memory::Crew> crew_;       // fills what jobs page-lock
  double worst_ = 0;
  std::size_t checked_ = 0, ended_ = 0;
};

}  // namespace isthmus::microbench::interjob
