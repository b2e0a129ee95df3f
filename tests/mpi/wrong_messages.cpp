// Makes the rank ISTHMUS_WRONG_RANK receive messages with one wrong byte, which verification must detect.

#include <cstdlib>

#include "harness/ranks/mpi/mpi_ranks.hpp"

namespace isthmus::mpi {
namespace {

using harness::Message;

class WrongMessages final : public harness::Ranks {
 public:
  WrongMessages() : wrong_(std::getenv("ISTHMUS_WRONG_RANK")) {}
  int rank() const noexcept override { return true_->rank(); }
  int size() const noexcept override { return true_->size(); }
  int local_rank() const noexcept override { return true_->local_rank(); }
  int local_size() const noexcept override { return true_->local_size(); }
  std::string library() const override { return true_->library(); }
  void barrier() override { true_->barrier(); }
  std::vector<std::string> gather(std::string_view mine) override { return true_->gather(mine); }
  void send(int to, const std::byte* from, std::size_t bytes) override { true_->send(to, from, bytes); }
  void receive(int from, std::byte* to, std::size_t bytes) override {
    true_->receive(from, to, bytes);
    invalidate(to, bytes);
  }
  void exchange(std::span<const Message> messages) override {
    true_->exchange(messages);
    for (const auto& each : messages) {
      if (!each.outgoing) invalidate(each.buffer, each.bytes);
    }
  }
  std::optional<std::string> refuses_gpu_memory() const override { return true_->refuses_gpu_memory(); }
  [[noreturn]] void abort(int exit_code) noexcept override {
    true_->abort(exit_code);
    std::_Exit(exit_code);
  }

 private:
  void invalidate(std::byte* message, std::size_t bytes) const {
    if (wrong_ != nullptr && rank() == std::atoi(wrong_)) message[bytes - 1] ^= std::byte{1};
  }

  std::unique_ptr<harness::Ranks> true_ = join();
  const char* wrong_;
};

std::unique_ptr<harness::Ranks> join_wrongly() {
  return std::make_unique<WrongMessages>();
}
const harness::RanksLibrary library(join_wrongly);

}  // namespace
}  // namespace isthmus::mpi
