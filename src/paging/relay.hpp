#pragma once

// Pages that a second GPU fetches over its own link and writes into the first one's memory.

#include <optional>

#include "device/api/peer_access.hpp"
#include "paging/server.hpp"

namespace isthmus::paging {

/// While its kernel works on the second GPU, nothing may wait for that device, and no memory of it be freed.
class Relay final : public Server {
 public:
  explicit Relay(const Options& options);
  ~Relay() override;

 private:
  Relay(const Options& options, std::size_t queues);
  void start() override;
  void stop() override;
  void forget_requests() override;

  int device_;
  device::PeerAccess access_;
  std::size_t queues_, depth_;
  unsigned threads_;  ///< of a block
  double deadline_;
  memory::Block requests_, numbers_, ended_;  ///< the second GPU's
  memory::Block host_ended_;
  std::optional<device::Stream> stream_;
};

}  // namespace isthmus::paging
