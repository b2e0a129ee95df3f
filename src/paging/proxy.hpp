#pragma once

// Pages that threads of the host fetch for the kernels, with the device's copy engines.

#include <memory>
#include <vector>

#include "paging/server.hpp"

namespace isthmus::paging {

/// A thread for each queue looks through its slots in turn, and queues the copies of all requests that it finds by one
/// call.
class Proxy final : public Server {
 public:
  explicit Proxy(const Options& options);
  ~Proxy() override;

 private:
  class Queue;
  Proxy(std::size_t slots, std::size_t depth);
  void start() override;
  void stop() override;
  void forget_requests() override;

  memory::Block requests_, served_;
  std::vector<device::Stream> streams_;
  std::vector<std::unique_ptr<Queue>> queues_;
};

}  // namespace isthmus::paging
