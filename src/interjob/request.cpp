#include "interjob/request.hpp"

#include <stdexcept>

#include "device/api/mapped_memory.hpp"

namespace isthmus::interjob {

std::string_view name(Source source) noexcept {
  return source ? memory::name(*source) : "chunked";
}

std::size_t device_bytes(const Request& request) noexcept {
  const bool counted = request.source && (on_device(*request.source) || is_managed(*request.source));
  return counted ? request.bytes : 0;
}

Request in_whole_units(Request request) {
  if (request.source == Kind::registered)
    throw std::invalid_argument("interjob: registered memory belongs to the caller; request pinned or pageable memory");
  if (request.source == Kind::vmm) request.bytes = device::mapped_bytes(request.bytes);
  return request;
}

void* allocate(const Request& request, device::Stream& stream) {
  if (!request.source) throw std::logic_error("chunked memory comes from a ChunkPool");
  return memory::allocate(*request.source, {.bytes = request.bytes, .stream = &stream});
}

void release(const Request& request, void* pointer, device::Stream& stream) {
  if (request.source) memory::release(*request.source, pointer, {.bytes = request.bytes, .stream = &stream});
}

}  // namespace isthmus::interjob
