#include "harness/ranks/mpi/mpi_ranks.hpp"

#include <fmt/format.h>
#include <mpi.h>
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <cstdlib>
#include <cstring>
#include <vector>

#include "device/api/device.hpp"
#include "harness/output.hpp"

namespace isthmus::mpi {

namespace {

using harness::Message;

constexpr int kTag = 1;

/// Ends all ranks with one sentence, because MPI guarantees nothing after an error.
void on_error(MPI_Comm* communicator, int* code, ...) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0, rank = -1;
  MPI_Error_string(*code, text, &length);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  harness::say(fmt::format("rank {}: MPI failed ({}), so the run ends here; results so far are on disk", rank,
                           std::string_view(text, static_cast<std::size_t>(length))));
  MPI_Abort(*communicator, 1);
}

class MpiRanks final : public harness::Ranks {
 public:
  MpiRanks() {
    // The harness calls MPI from one thread; threads that copy do not call it.
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_create_errhandler(on_error, &on_error_);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, on_error_);
    MPI_Comm_dup(MPI_COMM_WORLD, &all_);
    MPI_Comm_rank(all_, &rank_);
    MPI_Comm_size(all_, &size_);
    MPI_Comm node;
    MPI_Comm_split_type(all_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &local_rank_);
    MPI_Comm_size(node, &local_size_);
    MPI_Comm_free(&node);
  }
  ~MpiRanks() override {
    MPI_Comm_free(&all_);
    MPI_Errhandler_free(&on_error_);
    MPI_Finalize();
  }
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  int local_rank() const noexcept override { return local_rank_; }
  int local_size() const noexcept override { return local_size_; }
  std::string library() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    MPI_Get_library_version(text, &length);
    const std::string version(text, static_cast<std::size_t>(length));
    return version.substr(0, version.find_first_of(",\n"));  // "Open MPI v4.1.6", followed by its builder
  }

  void barrier() override { MPI_Barrier(all_); }

  std::vector<std::string> gather(std::string_view mine) override {
    const auto ranks = static_cast<std::size_t>(size_);
    const int length = static_cast<int>(mine.size());
    std::vector<int> lengths(ranks), offsets(ranks);
    MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, all_);
    int total = 0;
    for (std::size_t i = 0; i < ranks; ++i) {
      offsets[i] = total;
      total += lengths[i];
    }
    std::string text(static_cast<std::size_t>(total), '\0');
    MPI_Allgatherv(mine.data(), length, MPI_CHAR, text.data(), lengths.data(), offsets.data(), MPI_CHAR, all_);
    std::vector<std::string> all;
    for (std::size_t i = 0; i < ranks; ++i)
      all.push_back(text.substr(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(lengths[i])));
    return all;
  }

  void send(int to, const std::byte* from, std::size_t bytes) override {
    MPI_Send(from, count(bytes), MPI_BYTE, to, kTag, all_);
  }
  void receive(int from, std::byte* to, std::size_t bytes) override {
    MPI_Recv(to, count(bytes), MPI_BYTE, from, kTag, all_, MPI_STATUS_IGNORE);
  }
  void exchange(std::span<const Message> messages) override {
    requests_.resize(messages.size());
    std::size_t i = 0;
    // Receives are posted first, so that no message that arrives must be buffered.
    for (const auto& each : messages) {
      if (!each.outgoing)
        MPI_Irecv(each.buffer, count(each.bytes), MPI_BYTE, each.partner, kTag, all_, &requests_[i++]);
    }
    for (const auto& each : messages) {
      if (each.outgoing) MPI_Isend(each.buffer, count(each.bytes), MPI_BYTE, each.partner, kTag, all_, &requests_[i++]);
    }
    MPI_Waitall(static_cast<int>(i), requests_.data(), MPI_STATUSES_IGNORE);
  }

  std::optional<std::string> refuses_gpu_memory() const override {
    switch (device::backend()) {
      case device::Backend::emulator:
        return "MPI cannot access an emulated GPU's memory";
      case device::Backend::cuda:
#if defined(OMPI_HAVE_MPI_EXT_CUDA)
        if (MPIX_Query_cuda_support() == 1) return std::nullopt;
#endif
        return without("CUDA");
      case device::Backend::hip:
#if defined(OMPI_HAVE_MPI_EXT_ROCM)
        if (MPIX_Query_rocm_support() == 1) return std::nullopt;
#endif
        return without("ROCm");
    }
    return "whether this MPI reaches this build's GPUs is unknown";
  }

  [[noreturn]] void abort(int exit_code) noexcept override {
    MPI_Abort(all_, exit_code);
    std::_Exit(exit_code);
  }

 private:
  static int count(std::size_t bytes) { return static_cast<int>(bytes); }  // at most kLargestMessage

  /// Returns why GPU memory is refused; nullopt if it is not. An environment variable enables GPU memory in Cray MPICH,
  /// so that variable is read.
  std::optional<std::string> without(std::string_view what) const {
#ifdef OPEN_MPI
    return fmt::format("this {} was built without {} support", library(), what);
#else
    const char* enabled = std::getenv("MPICH_GPU_SUPPORT_ENABLED");
    if (enabled != nullptr && std::strcmp(enabled, "1") == 0) return std::nullopt;
    return fmt::format("this MPI does not report support for {} pointers (Cray MPICH: set MPICH_GPU_SUPPORT_ENABLED=1)",
                       what);
#endif
  }

  MPI_Comm all_ = MPI_COMM_NULL;
  MPI_Errhandler on_error_ = MPI_ERRHANDLER_NULL;
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  std::vector<MPI_Request> requests_;
};

}  // namespace

std::unique_ptr<harness::Ranks> join() {
  return std::make_unique<MpiRanks>();
}

}  // namespace isthmus::mpi
