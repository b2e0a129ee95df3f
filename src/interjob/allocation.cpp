#include "interjob/allocation.hpp"

#include <stdexcept>

namespace isthmus::interjob {

std::string_view name(Kind kind) noexcept {
  switch (kind) {
    case Kind::device:
      return "device";
    case Kind::pool:
      return "pool";
    case Kind::pinned:
      return "pinned";
    case Kind::managed:
      return "managed";
  }
  return "";
}

std::size_t device_bytes(const Request& request) noexcept {
  return request.kind == Kind::pinned ? 0 : request.bytes;
}

void* allocate(const Request& request, device::Stream& stream) {
  switch (request.kind) {
    case Kind::device:
      return device::malloc_device(request.bytes);
    case Kind::pool:
      return device::malloc_pooled(request.bytes, stream);
    case Kind::pinned:
      return device::malloc_pinned(request.bytes);
    case Kind::managed:
      return device::malloc_managed(request.bytes);
  }
  throw std::logic_error("there is no such kind of memory");
}

void release(const Request& request, void* pointer, device::Stream& stream) {
  switch (request.kind) {
    case Kind::device:
      return device::free_device(pointer);
    case Kind::pool:
      return device::free_pooled(pointer, stream);
    case Kind::pinned:
      return device::free_pinned(pointer);
    case Kind::managed:
      return device::free_managed(pointer);
  }
}

}  // namespace isthmus::interjob
