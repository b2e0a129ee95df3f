#include "memory/kind.hpp"

#include <cstdlib>

#include "device/mapped_memory.hpp"

namespace isthmus::memory {

namespace {

using device::PointerKind;

constexpr KindFacts kKinds[] = {
    // kind           name        in words                                         device locked  asks   to the driver
    {Kind::device, "device", "device memory", true, false, true, PointerKind::device},
    {Kind::pool, "pool", "device memory, stream-ordered", true, false, true, PointerKind::device},
    {Kind::vmm, "vmm", "device memory, its addresses reserved first", true, false, true, PointerKind::device},
    {Kind::managed, "managed", "managed memory", false, false, true, PointerKind::managed},
    {Kind::static_managed, "static", "a managed variable", false, false, true, PointerKind::managed},
    {Kind::mapped, "mapped", "host memory, page-locked, with an address for kernels", false, true, true,
     PointerKind::pinned},
    {Kind::pinned, "pinned", "host memory, page-locked", false, true, true, PointerKind::pinned},
    {Kind::registered, "registered", "host memory, page-locked after it was touched", false, true, true,
     PointerKind::pinned},
    {Kind::write_combined, "write_combined", "host memory, page-locked, not cached by the CPU", false, true, true,
     PointerKind::pinned},
    {Kind::pageable, "pageable", "malloc", false, false, false, PointerKind::unregistered},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < std::size(kKinds); ++i) {
    if (static_cast<std::size_t>(kKinds[i].kind) != i) return false;
  }
  return true;
}
static_assert(in_order(), "the table is indexed by kind");

std::optional<std::string_view> lack(Kind kind, const device::DeviceInfo& info) {
  if (is_managed(kind) && !info.managed) return "has no managed memory";
  if (kind == Kind::pool && !info.memory_pools) return "has no stream-ordered allocation";
  if (kind == Kind::vmm && !info.virtual_memory) return "cannot map device memory at reserved addresses";
  if ((kind == Kind::mapped || kind == Kind::write_combined) && !info.can_map_host) return "cannot map host memory";
  return std::nullopt;
}

std::optional<std::string_view> lack(Kind kind, Reader reader, const device::DeviceInfo& info) {
  if (const auto why = lack(kind, info)) return why;
  if (reader == Reader::cpu) {
    if (on_device(kind) && !info.integrated) return "does not share its memory with the CPU";
    return std::nullopt;
  }
  if (kind == Kind::pageable && !info.pageable_access) return "cannot read plain malloc memory (no HMM, ATS or XNACK)";
  if (page_locked(kind) && !info.can_map_host) return "cannot map host memory";
  return std::nullopt;
}

std::optional<std::string> sentence(const device::DeviceInfo& info, std::optional<std::string_view> why) {
  return why ? std::optional(info.name + " (" + info.arch + ") " + std::string(*why)) : std::nullopt;
}

}  // namespace

std::span<const KindFacts> all_kinds() noexcept {
  return kKinds;
}
const KindFacts& facts(Kind kind) noexcept {
  return kKinds[static_cast<std::size_t>(kind)];
}
std::string_view name(Kind kind) noexcept {
  return facts(kind).name;
}
bool is_managed(Kind kind) noexcept {
  return facts(kind).pointer_kind == PointerKind::managed;
}
bool on_device(Kind kind) noexcept {
  return facts(kind).on_device;
}
bool page_locked(Kind kind) noexcept {
  return facts(kind).page_locked;
}

std::optional<std::string> obstacle(Kind kind, Reader reader, const device::DeviceInfo& info) {
  return sentence(info, lack(kind, reader, info));
}
std::optional<std::string> obstacle(Kind kind, const device::DeviceInfo& info) {
  return sentence(info, lack(kind, info));
}

bool shared_at_once(Kind kind, const device::DeviceInfo& info) {
  return !lack(kind, Reader::cpu, info) && !lack(kind, Reader::gpu, info) &&
         (!is_managed(kind) || info.concurrent_managed);
}

void* given(void* pointer, const char* call, std::size_t bytes) {
  if (pointer != nullptr) return pointer;
  throw device::Error(device::ErrorKind::out_of_memory, call,
                      "the system has no " + std::to_string(bytes) + " bytes of host memory", "choose a smaller size");
}

void* allocate(Kind kind, const Request& request) {
  switch (kind) {
    case Kind::device:
      return device::malloc_device(request.bytes);
    case Kind::pool:
      return device::malloc_pooled(request.bytes, *request.stream);
    case Kind::vmm:
      return device::malloc_mapped(device::mapped_bytes(request.bytes));
    case Kind::managed:
      return device::malloc_managed(request.bytes);
    case Kind::static_managed:
      return device::malloc_static_managed(request.bytes);
    case Kind::mapped:
      return device::malloc_pinned(request.bytes, {.mapped = true});
    case Kind::pinned:
      return device::malloc_pinned(request.bytes);
    case Kind::registered:
      device::register_host(request.memory, request.bytes, {.mapped = true});
      return request.memory;
    case Kind::write_combined:
      return device::malloc_pinned(request.bytes, {.mapped = true, .write_combined = true});
    case Kind::pageable:
      break;
  }
  return given(std::malloc(request.bytes), "malloc", request.bytes);
}

void release(Kind kind, void* pointer, const Request& request) {
  switch (kind) {
    case Kind::device:
      return device::free_device(pointer);
    case Kind::pool:
      return device::free_pooled(pointer, *request.stream);
    case Kind::vmm:
      return device::free_mapped(pointer, device::mapped_bytes(request.bytes));
    case Kind::managed:
      return device::free_managed(pointer);
    case Kind::static_managed:
      return device::free_static_managed(pointer);
    case Kind::mapped:
    case Kind::pinned:
    case Kind::write_combined:
      return device::free_pinned(pointer);
    case Kind::registered:
      return device::unregister_host(pointer);
    case Kind::pageable:
      return std::free(pointer);
  }
}

}  // namespace isthmus::memory
