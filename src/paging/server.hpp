#pragma once

// Host side of a Channel: the server of its requests.

#include <memory>

#include "memory/block.hpp"
#include "paging/channel.hpp"

namespace isthmus::paging {

struct Options;

/// Server that runs from begin() to end(); in between, kernels may request pages.
class Server {
 public:
  virtual ~Server() = default;
  const Channel& channel() const noexcept { return channel_; }
  /// Starts the server; no kernel of the client may be running. Afterwards, no slot is taken and no page is requested.
  /// Waits for `setup`.
  void begin(device::Stream& setup);
  /// Waits until all requests have been served. Does nothing if the server is not running.
  void end();

 protected:
  /// Makes a server for the selected device. `pulls`: maximum number of pages that warps fetch themselves at the same
  /// time.
  Server(std::size_t slots, std::size_t pulls);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// Sets the addresses at which the server looks for requests, as the client's kernels use them.
  void look_at(std::byte* requests, std::byte* numbers) {
    channel_.requests = reinterpret_cast<Request*>(requests);
    channel_.numbers = reinterpret_cast<std::uint32_t*>(numbers);
  }
  virtual void start() = 0;
  virtual void stop() = 0;
  /// Discards all requests.
  virtual void forget_requests() = 0;

 private:
  memory::Block words_;
  Channel channel_;
  bool works_ = false;
};

/// Makes the server of a transport; returns null for Transport::pull. Throws device::Error (unsupported) if the
/// transport is unavailable.
std::unique_ptr<Server> server_for(const Options& options);

}  // namespace isthmus::paging
