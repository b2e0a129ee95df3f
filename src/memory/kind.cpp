#include "memory/kind.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "device/api/mapped_memory.hpp"

namespace isthmus::memory {

namespace {

using device::PointerKind;

template <bool mapped, bool write_combined>
void* give_pinned(const Request& request) {
  return device::malloc_pinned(request.bytes, {.mapped = mapped, .write_combined = write_combined});
}
void free_pinned(void* pointer, const Request&) {
  device::free_pinned(pointer);
}
void* register_memory(const Request& request) {
  device::register_host(request.memory, request.bytes, {.mapped = true});
  return request.memory;
}

constexpr KindFacts kKinds[] = {
    // kind, name, name in words, device memory, page-locked, allocated by the device's runtime, kind reported by the
    // driver
    {Kind::device, "device", "device memory", true, false, true, PointerKind::device,
     [](const Request& request) { return device::malloc_device(request.bytes); },
     [](void* pointer, const Request&) { device::free_device(pointer); }},
    {Kind::pool, "pool", "device memory, stream-ordered", true, false, true, PointerKind::device,
     [](const Request& request) { return device::malloc_pooled(request.bytes, *request.stream); },
     [](void* pointer, const Request& request) { device::free_pooled(pointer, *request.stream); }},
    {Kind::vmm, "vmm", "device memory, its addresses reserved first", true, false, true, PointerKind::device,
     [](const Request& request) { return device::malloc_mapped(device::mapped_bytes(request.bytes)); },
     [](void* pointer, const Request& request) { device::free_mapped(pointer, device::mapped_bytes(request.bytes)); }},
    {Kind::managed, "managed", "managed memory", false, false, true, PointerKind::managed,
     [](const Request& request) { return device::malloc_managed(request.bytes); },
     [](void* pointer, const Request&) { device::free_managed(pointer); }},
    {Kind::static_managed, "static", "a managed variable", false, false, true, PointerKind::managed,
     [](const Request& request) { return device::malloc_static_managed(request.bytes); },
     [](void* pointer, const Request&) { device::free_static_managed(pointer); }},
    {Kind::mapped, "mapped", "host memory, page-locked, with an address for kernels", false, true, true,
     PointerKind::pinned, give_pinned<true, false>, free_pinned},
    {Kind::pinned, "pinned", "host memory, page-locked", false, true, true, PointerKind::pinned,
     give_pinned<false, false>, free_pinned},
    {Kind::registered, "registered", "host memory, page-locked after it was touched", false, true, true,
     PointerKind::pinned, register_memory, [](void* pointer, const Request&) { device::unregister_host(pointer); }},
    {Kind::write_combined, "write_combined", "host memory, page-locked, not cached by the CPU", false, true, true,
     PointerKind::pinned, give_pinned<true, true>, free_pinned},
    {Kind::pageable, "pageable", "malloc", false, false, false, PointerKind::unregistered,
     [](const Request& request) { return given(std::malloc(request.bytes), "malloc", request.bytes); },
     [](void* pointer, const Request&) { std::free(pointer); }},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < std::size(kKinds); ++i) {
    if (static_cast<std::size_t>(kKinds[i].kind) != i) return false;
  }
  return true;
}
static_assert(in_order(), "the table must be indexed by kind");

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
  if (kind == Kind::pageable && !info.pageable_access) return "cannot read pageable memory (no HMM, ATS or XNACK)";
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
Kind kind_named(std::string_view name) {
  const auto* const found = std::ranges::find(kKinds, name, &KindFacts::name);
  if (found == std::end(kKinds)) throw std::invalid_argument("there is no kind of memory named " + std::string(name));
  return found->kind;
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

std::optional<std::string> unsupported_reason(Kind kind, Reader reader, const device::DeviceInfo& info) {
  return sentence(info, lack(kind, reader, info));
}
std::optional<std::string> unsupported_reason(Kind kind, const device::DeviceInfo& info) {
  return sentence(info, lack(kind, info));
}

bool shared_at_once(Kind kind, const device::DeviceInfo& info) {
  return !lack(kind, Reader::cpu, info) && !lack(kind, Reader::gpu, info) &&
         (!is_managed(kind) || info.concurrent_managed);
}

void* given(void* pointer, const char* call, std::size_t bytes) {
  if (pointer != nullptr) return pointer;
  throw device::Error(device::ErrorKind::out_of_memory, call,
                      "the system does not have " + std::to_string(bytes) + " bytes of host memory",
                      "choose a smaller size");
}

void* allocate(Kind kind, const Request& request) {
  return facts(kind).give(request);
}

void release(Kind kind, void* pointer, const Request& request) {
  facts(kind).deallocate(pointer, request);
}

}  // namespace isthmus::memory
