#pragma once

// What takes up the requests of a Channel: the host's side of it.

#include <memory>

#include "memory/block.hpp"
#include "paging/channel.hpp"

namespace isthmus::paging {

struct Options;

/// Works from begin() to end(), between which kernels may ask it for pages.
class Server {
 public:
  virtual ~Server() = default;
  const Channel& channel() const noexcept { return channel_; }
  /// With no kernel of the client at work. No slot is taken, and nothing has been asked, when it returns. Waits
  /// for `setup`.
  void begin(device::Stream& setup);
  /// Waits until what was asked has been done. Does nothing where it does not work.
  void end();

 protected:
  /// For the device that is selected. `pulls`: pages that warps may fetch themselves meanwhile.
  Server(std::size_t slots, std::size_t pulls);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// Where the server looks for requests, by the addresses that the client's kernels use.
  void look_at(std::byte* requests, std::byte* numbers) {
    channel_.requests = reinterpret_cast<Request*>(requests);
    channel_.numbers = reinterpret_cast<std::uint32_t*>(numbers);
  }
  virtual void start() = 0;
  virtual void stop() = 0;
  /// No request is there.
  virtual void forget_requests() = 0;

 private:
  memory::Block words_;
  Channel channel_;
  bool works_ = false;
};

/// Null for Transport::pull. Throws device::Error, unsupported, where there is no such way.
std::unique_ptr<Server> server_for(const Options& options);

}  // namespace isthmus::paging
