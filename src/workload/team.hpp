#pragma once

// Several processes that measure together; they are called ranks and numbered as in MPI. docs/mpi.md has the rules.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::workload {

/// One message of an exchange; its buffer may be in any memory that the library accepts.
struct Message {
  int partner = 0;
  bool outgoing = false;
  std::byte* buffer = nullptr;
  std::size_t bytes = 0;  ///< maximum: kLargestMessage
};
inline constexpr std::size_t kLargestMessage = 2147483647;  // MPI counts in int

/// All processes that were started together, as seen by one of them. After a failure in the library, no process can
/// continue: the implementation reports the failure and ends all ranks.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual int local_rank() const noexcept = 0;  ///< number of this rank among the ranks of this node
  virtual int local_size() const noexcept = 0;  ///< number of ranks on this node
  virtual std::string library() const = 0;      ///< "Open MPI 4.1.4"

  // Collective calls: all ranks make the same call.
  /// Blocks until all ranks have called it.
  virtual void barrier() = 0;
  /// Returns the texts of all ranks, in rank order, on every rank.
  virtual std::vector<std::string> gather(std::string_view mine) = 0;

  // Messages, for measurements. A rank that receives a message waits until its partner sends it.
  virtual void send(int to, const std::byte* from, std::size_t bytes) = 0;
  virtual void receive(int from, std::byte* to, std::size_t bytes) = 0;
  /// Starts all messages at the same time and returns when all are done. Messages from the same sender arrive in order.
  virtual void exchange(std::span<const Message> messages) = 0;
  /// Returns why buffers must not be in memory of this build's GPUs; nullopt if they may be.
  virtual std::optional<std::string> refuses_gpu_memory() const = 0;

  /// Ends the processes of all ranks immediately.
  [[noreturn]] virtual void abort(int exit_code) noexcept = 0;
};

/// Exception thrown when another rank has ended the case. It is not a std::exception, so that no handler in between
/// mistakes it for a failure of this rank.
struct OtherRankEnded {};
/// Exception thrown when the user has asked to stop and the case has reached a point where it can. Not a std::exception
/// either.
struct Interrupted {};

/// Ranks of one case, kept in step. Everything they agree on goes through exchange(). When a case ends on a rank that
/// has failed, that rank takes part in one more exchange, so that no other rank waits for it and all learn of the
/// failure at their current exchange. This leads to the rules for a workload: all ranks make the same exchanges in the
/// same order; a check of verify() makes no exchange, because a rank with a failed check runs no further checks; and
/// nothing that may throw is called between start() and the last message that a partner waits for.
class Team {
 public:
  /// Makes the team; `end_asked` returns whether the user has asked this process to stop.
  Team(Ranks& ranks, bool (*end_asked)()) : ranks_(ranks), end_asked_(end_asked) {}
  int rank() const noexcept { return ranks_.rank(); }
  int size() const noexcept { return ranks_.size(); }
  std::size_t on_this_node() const noexcept { return static_cast<std::size_t>(ranks_.local_size()); }

  /// Return the texts or values of all ranks, in rank order, on every rank. Throw OtherRankEnded if another rank has
  /// ended the case, std::logic_error if the ranks are at different steps.
  std::vector<std::string> exchange(std::string_view mine);
  std::vector<double> exchange(double mine);
  /// Combine the ranks' values: any() returns whether `mine` is true on any rank, first() returns `mine` of rank 0.
  bool any(bool mine);
  double first(double mine);
  /// Waits until all ranks are ready, and returns on all of them as close together as the library allows.
  void start();
  Ranks& messages() noexcept { return ranks_; }

  /// Returns whether the user had asked any rank to stop by the last exchange; the result is the same on all ranks.
  bool interrupted() const noexcept;
  /// Ends the case on this rank. Does nothing after OtherRankEnded.
  void end();

 private:
  enum class Step : char { exchange = '+', start = '|', end = '-' };
  std::vector<std::string> step(Step kind, std::string_view mine);

  Ranks& ranks_;
  bool (*end_asked_)();
  bool ended_ = false, interrupted_ = false;
};

}  // namespace isthmus::workload
