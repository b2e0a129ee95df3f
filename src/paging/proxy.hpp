#pragma once

// Pages that a thread of the host fetches for the kernels, with the device's copy engines.

#include <memory>
#include <vector>

#include "paging/server.hpp"

namespace isthmus::paging {

/// A thread looks through the slots of each queue in turn. It queues the copies of all requests that it finds there by
/// one call, and behind them the answers, which the stream writes into the client's memory. Throws device::Error,
/// unsupported, where the device cannot do that.
class Proxy final : public Server {
 public:
  explicit Proxy(const Options& options);
  ~Proxy() override;

 private:
  class Queue;
  class Thread;
  Proxy(std::size_t slots, std::size_t depth);
  void start() override;
  void stop() override;
  void forget_requests() override;

  memory::Block requests_, numbers_;
  std::vector<device::Stream> streams_;
  std::unique_ptr<Thread> thread_;
};

}  // namespace isthmus::paging
