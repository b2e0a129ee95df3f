#pragma once

// Server in which a second GPU fetches pages over its own link and writes them into the first GPU's memory.

#include <optional>

#include "device/api/peer_access.hpp"
#include "paging/server.hpp"

namespace isthmus::paging {

/// Relay on a second GPU. While its kernel runs there, the program must neither wait for that device nor free any of
/// its memory.
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
  unsigned threads_;  ///< number of threads per block
  double deadline_;
  memory::Block requests_, numbers_, ended_;  ///< memory of the second GPU
  memory::Block host_ended_;
  std::optional<device::Stream> stream_;
};

}  // namespace isthmus::paging
