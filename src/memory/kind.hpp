#pragma once

// All kinds of memory: what each is, who can access it, and the calls that allocate and free it.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "device/api/device.hpp"

namespace isthmus::memory {

enum class Kind {
  device,          ///< device memory
  pool,            ///< device memory, stream-ordered
  vmm,             ///< device memory that is created separately and mapped at addresses reserved before
  managed,         ///< managed memory: pages move to the processor that uses them
  static_managed,  ///< a managed variable (`static __managed__`)
  mapped,          ///< allocated page-locked, with an address for kernels
  pinned,          ///< allocated page-locked
  registered,      ///< malloc, touched, then page-locked
  write_combined,  ///< mapped, but not cached by the CPU
  pageable,        ///< malloc; kernels can access it only with HMM, ATS or XNACK
};

/// Arguments of a call that allocates memory.
struct Request {
  std::size_t bytes = 0;
  device::Stream* stream = nullptr;  ///< stream for `pool`: work queued there afterwards may use the memory
  void* memory = nullptr;            ///< memory to page-lock, for `registered`
};

struct KindFacts {
  Kind kind;
  std::string_view name, words;
  bool on_device;                    ///< true for device memory; the CPU can access it only if both share memory
  bool page_locked;                  ///< true if it always stays on the host; kernels access it over the link
  bool asks_device;                  ///< true if the device's runtime allocates it
  device::PointerKind pointer_kind;  ///< kind that the driver reports
  // Calls for code that times them; other code uses allocate() and release() below.
  void* (*give)(const Request&);
  void (*deallocate)(void* pointer, const Request&);
};
std::span<const KindFacts> all_kinds() noexcept;
const KindFacts& facts(Kind) noexcept;
std::string_view name(Kind) noexcept;
/// Throws std::invalid_argument if no kind has the name.
Kind kind_named(std::string_view name);
/// Returns whether the memory's pages may move between CPU and device.
bool is_managed(Kind) noexcept;
bool on_device(Kind) noexcept;
bool page_locked(Kind) noexcept;

/// Processor that accesses memory: the CPU, or the device the memory belongs to.
enum class Reader { cpu, gpu };
/// Returns why the device cannot allocate memory of the kind, or why the reader cannot access such memory there, as a
/// sentence about the device; nullopt if both are possible.
std::optional<std::string> unsupported_reason(Kind, Reader, const device::DeviceInfo&);
/// Returns the reason that applies to every reader: why the device cannot allocate memory of the kind.
std::optional<std::string> unsupported_reason(Kind, const device::DeviceInfo&);
/// Returns whether CPU and GPU may use such memory at the same time.
bool shared_at_once(Kind, const device::DeviceInfo&);

/// Allocates memory on the selected device with a single call. `pageable` uses plain malloc. Throws device::Error.
void* allocate(Kind, const Request&);
/// Frees memory with a single call. The memory must no longer be in use, except that for `pool`, work already queued on
/// the stream may still use it. Throws device::Error.
void release(Kind, void* pointer, const Request&);
/// Returns the pointer that a system call returned; throws device::Error if it is null.
void* given(void* pointer, const char* call, std::size_t bytes);

}  // namespace isthmus::memory
