#pragma once

// Server in which a thread of the host fetches pages with the device's copy engines.

#include <exception>
#include <memory>
#include <vector>

#include "paging/server.hpp"

namespace isthmus::paging {

/// Server run by a thread that all proxies of a device share. The thread scans the slots of one queue after another.
/// For each queue, it queues the copies of all requests found with one call, followed by the answers, which the stream
/// writes into the client's memory. Throws device::Error (unsupported) if the device does not support such writes.
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
  /// Processes the requests; called on the thread. Returns false if there are none.
  bool take();

  memory::Block requests_, numbers_;
  std::shared_ptr<Thread> thread_;
  std::vector<Queue> queues_;
  std::exception_ptr met_;  ///< first exception on the thread
};

}  // namespace isthmus::paging
