#pragma once

// Pages that a thread of the host fetches for the kernels, with the device's copy engines.

#include <memory>
#include <vector>

#include "paging/server.hpp"

namespace isthmus::paging {

/// A thread looks through the slots of each queue in turn, and queues the copies of all requests that it finds there by
/// one call.
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

  memory::Block requests_, served_;
  std::vector<device::Stream> streams_;
  std::unique_ptr<Thread> thread_;
};

}  // namespace isthmus::paging
