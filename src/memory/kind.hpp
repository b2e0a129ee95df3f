#pragma once

// The kinds of memory: one list, with what each is, who reaches it, and the calls that give it and take it back.

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
  vmm,             ///< device memory; its addresses are reserved, and the memory is created and mapped there
  managed,         ///< managed: pages go where they are used
  static_managed,  ///< a managed variable (`static __managed__`)
  mapped,          ///< allocated page-locked, with an address for kernels
  pinned,          ///< allocated page-locked
  registered,      ///< malloc, touched, then page-locked
  write_combined,  ///< as mapped, but the CPU does not cache it
  pageable,        ///< malloc: kernels reach it by themselves or not at all (HMM, ATS, XNACK)
};

/// What the call that gives memory is told.
struct Request {
  std::size_t bytes = 0;
  device::Stream* stream = nullptr;  ///< of `pool`: usable by what is queued there from then on
  void* memory = nullptr;            ///< of `registered`: what is to be page-locked
};

struct KindFacts {
  Kind kind;
  std::string_view name, words;
  bool on_device;                    ///< the CPU reaches it only where both share their memory
  bool page_locked;                  ///< it lies on the host for good; kernels reach it over the link
  bool asks_device;                  ///< the device's runtime gives it
  device::PointerKind pointer_kind;  ///< what the driver calls it
  // For who times them; others call allocate() and release() below.
  void* (*give)(const Request&);
  void (*take_back)(void* pointer, const Request&);
};
std::span<const KindFacts> all_kinds() noexcept;
const KindFacts& facts(Kind) noexcept;
std::string_view name(Kind) noexcept;
/// Throws std::invalid_argument where no kind has the name.
Kind kind_named(std::string_view name);
/// Whether its pages may change place between CPU and device.
bool is_managed(Kind) noexcept;
bool on_device(Kind) noexcept;
bool page_locked(Kind) noexcept;

/// Who accesses memory: the CPU, or the device that it belongs to.
enum class Reader { cpu, gpu };
/// Why the device cannot give memory of the kind, or the reader cannot reach it there, as a sentence about the device;
/// nullopt where it can.
std::optional<std::string> obstacle(Kind, Reader, const device::DeviceInfo&);
/// The same of the kind alone, whoever reads it.
std::optional<std::string> obstacle(Kind, const device::DeviceInfo&);
/// Whether CPU and GPU may use it at the same time.
bool shared_at_once(Kind, const device::DeviceInfo&);

/// One call, of the selected device. `pageable` is plain malloc. Throws device::Error.
void* allocate(Kind, const Request&);
/// One call. Nothing may use the memory any more but, of `pool`, what was queued on the stream. Throws device::Error.
void release(Kind, void* pointer, const Request&);
/// What a system call gave, or device::Error where that is nothing.
void* given(void* pointer, const char* call, std::size_t bytes);

}  // namespace isthmus::memory
