#include "paging/server.hpp"

#include "paging/pager.hpp"
#include "paging/proxy.hpp"
#include "paging/relay.hpp"

namespace isthmus::paging {

namespace {

constexpr std::size_t kOtherWords = 2;  // for Channel::next and Channel::pulled

}  // namespace

Server::Server(std::size_t slots, std::size_t pulls)
    : words_(memory::Kind::device, (2 * slots + kOtherWords) * sizeof(std::uint32_t)) {
  auto* words = reinterpret_cast<std::uint32_t*>(words_.data());
  channel_ = {.requests = nullptr,
              .numbers = nullptr,
              .taken = words,
              .served = words + slots,
              .next = words + 2 * slots,
              .pulled = words + 2 * slots + 1,
              .slots = static_cast<std::uint32_t>(slots),
              .pulls = static_cast<std::uint32_t>(pulls)};
}

void Server::begin(device::Stream& setup) {
  if (works_) return;
  device::fill_async(words_.data(), 0, words_.size(), setup);
  forget_requests();
  setup.synchronize();
  start();
  works_ = true;
}

void Server::end() {
  if (!works_) return;
  works_ = false;
  stop();
}

std::unique_ptr<Server> server_for(const Options& options) {
  switch (options.transport) {
    case Transport::pull:
      return nullptr;
    case Transport::relay:
    case Transport::pull_and_relay:
      return std::make_unique<Relay>(options);
    case Transport::proxy:
      return std::make_unique<Proxy>(options);
  }
  return nullptr;
}

}  // namespace isthmus::paging
