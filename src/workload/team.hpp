#pragma once

// Several processes that measure together: ranks, as MPI numbers them. docs/mpi.md has the rules.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::workload {

/// One message of an exchange; its buffer lies in any memory that the library takes.
struct Message {
  int partner = 0;
  bool outgoing = false;
  std::byte* buffer = nullptr;
  std::size_t bytes = 0;  ///< at most kLargestMessage
};
inline constexpr std::size_t kLargestMessage = 2147483647;  // MPI counts in int

/// The processes that were started together, as one of them sees them. A failure in the library itself leaves nothing
/// that could go on: the implementation says so and ends all ranks.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual int local_rank() const noexcept = 0;  ///< among the ranks of this node,
  virtual int local_size() const noexcept = 0;  ///< of which there are so many
  virtual std::string library() const = 0;      ///< "Open MPI 4.1.4"

  // Collective: all ranks call the same one.
  /// Returns when all ranks have called it.
  virtual void barrier() = 0;
  /// Every rank's text, in their order, at every rank.
  virtual std::vector<std::string> gather(std::string_view mine) = 0;

  // Messages, for what is measured. A rank that waits for one waits until its partner sends.
  virtual void send(int to, const std::byte* from, std::size_t bytes) = 0;
  virtual void receive(int from, std::byte* to, std::size_t bytes) = 0;
  /// All at once; returns when all of them are done. Messages of one sender arrive in their order.
  virtual void exchange(std::span<const Message> messages) = 0;
  /// Why buffers may not lie in memory of this build's GPUs; nullopt where they may.
  virtual std::optional<std::string> refuses_gpu_memory() const = 0;

  /// Ends the processes of all ranks, now.
  [[noreturn]] virtual void abort(int exit_code) noexcept = 0;
};

/// Another rank ended the case. No std::exception, so that no handler on the way takes it for a failure of this rank.
struct OtherRankEnded {};
/// The user asked for an end, and the case is at a place where it can. No std::exception either.
struct Interrupted {};

/// The ranks of one case, kept in step. All that they agree on goes through exchange(), in which a rank that has failed
/// takes part once more, when its case ends: so no rank waits for it, and the others learn of it at the exchange they
/// are at. Hence the rules of a workload: all ranks make the same exchanges in the same order, none in a check of
/// verify() (a rank on which one has failed checks no more), and between start() and the last message that a partner
/// waits for nothing is called that may throw.
class Team {
 public:
  /// `end_asked`: whether the user has asked this process for an end.
  Team(Ranks& ranks, bool (*end_asked)()) : ranks_(ranks), end_asked_(end_asked) {}
  int rank() const noexcept { return ranks_.rank(); }
  int size() const noexcept { return ranks_.size(); }
  std::size_t on_this_node() const noexcept { return static_cast<std::size_t>(ranks_.local_size()); }

  /// Every rank's text or value, in their order, at every rank. Throws OtherRankEnded, and std::logic_error where the
  /// ranks are at different steps.
  std::vector<std::string> exchange(std::string_view mine);
  std::vector<double> exchange(double mine);
  /// Whether it holds on any rank; what rank 0 says.
  bool any(bool mine);
  double first(double mine);
  /// Goes on when all ranks are ready, on all of them as close together as the library can.
  void start();
  Ranks& messages() noexcept { return ranks_; }

  /// Whether an end was asked for, as of the last exchange: the same on all ranks.
  bool interrupted() const noexcept;
  /// The case is over on this rank. Not again after OtherRankEnded.
  void end();

 private:
  enum class Step : char { exchange = '+', start = '|', end = '-' };
  std::vector<std::string> step(Step kind, std::string_view mine);

  Ranks& ranks_;
  bool (*end_asked_)();
  bool ended_ = false, interrupted_ = false;
};

}  // namespace isthmus::workload
