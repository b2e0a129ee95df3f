#pragma once

// Batch of jobs with their data on the host. It can run in any mode any number of times, and every job's result is
// checked.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "interjob/pipeline.hpp"
#include "memory/thread_pool.hpp"
#include "microbench/interjob/recipe.hpp"

namespace isthmus::microbench::interjob {

namespace pipeline = isthmus::interjob;

enum class Host {
  pinned,    ///< page-locked once for all batches
  per_job,   ///< page-locked and filled by each job
  pageable,  ///< never page-locked
};

class JobBatch {
 public:
  static constexpr std::size_t kQuickElements = 16;  ///< elements checked per result
  struct Wanted {
    std::vector<Recipe> recipes;  ///< job i uses recipe i % recipes.size()
    std::size_t jobs = 16;
    int depth = 3;
    Host host = Host::pinned;
    int numa_node = -1;
    std::uint64_t seed = 0;
  };
  /// Returns the host memory of a batch in bytes, including memory that jobs page-lock.
  static std::size_t host_bytes(const Wanted& wanted);
  /// Returns the device memory of the largest job, in bytes.
  static std::size_t device_bytes(const Wanted& wanted);

  explicit JobBatch(Wanted wanted);

  /// Purpose for which a batch runs.
  enum class For {
    time,    ///< a few elements of each result are checked
    checks,  ///< many elements of each result are checked
    calls,   ///< jobs allocate their memory and make their calls, but copy one element each and compute nothing
  };
  /// Runs the jobs, or the first `jobs` of them, with device memory from `source`.
  pipeline::Result run(pipeline::Source source, const pipeline::Options& options, For what = For::time,
                       std::size_t jobs = std::size_t(-1));
  /// Returns the largest error so far relative to the tolerance, among jobs that did not fail; infinite if a job
  /// neither ended nor failed.
  double worst() const noexcept { return worst_; }
  /// Returns the number of elements checked so far.
  std::size_t checked() const noexcept { return checked_; }

 private:
  struct Data;    // data of a recipe, on the host
  struct Check {  // elements of a job's result that are checked
    std::vector<std::size_t> elements;
    std::vector<double> expected;
  };
  pipeline::Job job(std::size_t index, pipeline::Source source, For what);
  std::span<const std::size_t> elements(std::size_t index, bool thorough) const;
  void look(std::size_t index, const float* results, bool thorough);
  void fill(void* to, const std::byte* from, std::size_t bytes);

  Wanted wanted_;
  std::vector<std::shared_ptr<Data>> data_;   // one per recipe
  std::vector<Check> checks_;                 // one per job
  std::unique_ptr<memory::ThreadPool> pool_;  // fills memory that jobs page-lock
  double worst_ = 0;
  std::size_t checked_ = 0, ended_ = 0;
};

}  // namespace isthmus::microbench::interjob
