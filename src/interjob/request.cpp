#include "interjob/request.hpp"

#include <stdexcept>

#include "device/mapped_memory.hpp"

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
    case Kind::vmm:
      return "vmm";
    case Kind::chunked:
      return "chunked";
  }
  return "";
}

std::size_t device_bytes(const Request& request) noexcept {
  return request.kind == Kind::pinned || request.kind == Kind::chunked ? 0 : request.bytes;
}

Request in_whole_units(Request request) {
  if (request.kind == Kind::vmm) request.bytes = device::mapped_bytes(request.bytes);
  return request;
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
    case Kind::vmm:
      return device::malloc_mapped(request.bytes);
    case Kind::chunked:
      break;
  }
  throw std::logic_error("chunked memory comes from a ChunkPool");
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
    case Kind::vmm:
      return device::free_mapped(pointer, request.bytes);
    case Kind::chunked:
      break;
  }
}

}  // namespace isthmus::interjob
