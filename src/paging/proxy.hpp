#pragma once

// Pages that a thread of the host fetches for the kernels, with the device's copy engines.

#include <exception>
#include <memory>
#include <vector>

#include "paging/server.hpp"

namespace isthmus::paging {

/// A thread, which all proxies of a device share, looks through the slots of each queue in turn. It queues the copies
/// of all requests that it finds there by one call, and behind them the answers, which the stream writes into the
/// client's memory. Throws device::Error, unsupported, where the device cannot do that.
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
  /// By the thread: takes up what is asked. False where nothing is.
  bool take();

  memory::Block requests_, numbers_;
  std::shared_ptr<Thread> thread_;
  std::vector<Queue> queues_;
  std::exception_ptr met_;  ///< by the thread
};

}  // namespace isthmus::paging
