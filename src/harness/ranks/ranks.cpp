#include "harness/ranks/ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "harness/plan/request.hpp"
#include "harness/ranks/interrupt.hpp"

namespace isthmus::harness {

namespace {

std::optional<int> environment_number(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  int number = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, failure] = std::from_chars(text, end, number);
  return failure == std::errc{} && stop == end ? std::optional(number) : std::nullopt;
}

class Alone final : public Ranks {
 public:
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  int local_rank() const noexcept override { return 0; }
  int local_size() const noexcept override { return 1; }
  std::string library() const override { return {}; }
  void barrier() override {}
  std::vector<std::string> gather(std::string_view mine) override { return {std::string(mine)}; }
  void send(int, const std::byte*, std::size_t) override { no_partner(); }
  void receive(int, std::byte*, std::size_t) override { no_partner(); }
  void exchange(std::span<const Message> messages) override {
    if (!messages.empty()) no_partner();
  }
  std::optional<std::string> refuses_gpu_memory() const override { return "there is no other rank"; }
  [[noreturn]] void abort(int exit_code) noexcept override { std::_Exit(exit_code); }

 private:
  [[noreturn]] static void no_partner() { throw std::logic_error("a single process has no partner to send to"); }
};

std::unique_ptr<Ranks> (*&library())() {
  static std::unique_ptr<Ranks> (*join)() = nullptr;
  return join;
}

}  // namespace

Launched launched() {
  struct Names {
    const char *rank, *size;
  };
  // Slurm's variables come last: a launcher that runs under srun sets its own variables in addition, and mpirun starts
  // its daemons with srun.
  constexpr Names kLaunchers[] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},  // Open MPI
      {"PMI_RANK", "PMI_SIZE"},                          // MPICH, Intel MPI, Cray MPICH, srun --mpi=pmi2
      {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},    // MVAPICH2
      {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},      // jsrun
      {"FLUX_TASK_RANK", "FLUX_JOB_SIZE"},               // flux run
      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},          // srun
  };
  for (const auto& names : kLaunchers) {
    const auto rank = environment_number(names.rank), size = environment_number(names.size);
    if (rank && size && *rank >= 0 && *rank < *size) return {*rank, *size};
  }
  return {};
}

Ranks& alone() {
  static Alone ranks;
  return ranks;
}

RanksLibrary::RanksLibrary(std::unique_ptr<Ranks> (*join)()) {
  library() = join;
}

bool has_ranks_library() {
  return library() != nullptr;
}

std::unique_ptr<Ranks> join_ranks() {
  const int started = launched().size;
  if (started == 1) return nullptr;
  if (!has_ranks_library())
    throw InputError(
        fmt::format("{} ranks of a build without MPI were started, which would all write the same records; start one, "
                    "or configure with -DISTHMUS_MPI=ON",
                    started));
  auto ranks = library()();
  if (ranks->size() != started)
    throw InputError(
        fmt::format("the launcher started {} ranks, but {} finds {} of them; use the launcher of that library (mpirun, "
                    "srun --mpi=pmix)",
                    started, ranks->library(), ranks->size()));
  return ranks;
}

}  // namespace isthmus::harness
