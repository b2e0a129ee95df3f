#pragma once

// All memory that was allocated from or registered with the device layer, with its access rights. Device memory is in
// one reserved range of addresses. Each allocation is between guard pages, the slack around it is filled with a canary,
// and the addresses of freed allocations are not reused until the range is used up. The whole range is PROT_NONE: pages
// are opened when device work touches them and closed when that work ends. The cost of a launch therefore does not grow
// with the number of allocations, and host code that dereferences device memory causes a fault.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "emulator/device.hpp"
#include "emulator/devices.hpp"
#include "emulator/emulator.hpp"

namespace emulator {

enum class AllocationKind { device, pooled, pinned, registered, managed, mapped };
/// Returns the name of the call that makes such an allocation: "malloc_device", …
const char* maker(AllocationKind) noexcept;

/// Returns the byte with which memory is filled before it is written.
constexpr int poison_byte(Poison poison) {
  return poison == Poison::large ? 0x7b : 0xff;
}
/// Returns the canary byte of slack at this address. It is similar to poison, but no pair of bytes equals -1, so that a
/// stray write of -1 is detected when the memory is freed.
constexpr unsigned char canary_byte(Poison poison, std::uintptr_t address) {
  if (poison == Poison::large) return 0x7b;
  return address % 2 == 0 ? 0xf5 : 0xff;
}
void fill_canary(Poison poison, std::uintptr_t begin, std::uintptr_t end);
/// Returns the first address whose canary was overwritten, or `end`.
std::uintptr_t first_overwritten(Poison poison, std::uintptr_t begin, std::uintptr_t end);

class DeviceAccess;

struct Allocation {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  AllocationKind kind = AllocationKind::device;
  int device = -1;                         ///< selected device at allocation, or the stream's device; -1: no device
  unsigned long serial = 0;                ///< number in the sequence of all allocations of the process
  std::uintptr_t mapped = 0;               ///< first page
  std::size_t mapped_bytes = 0;            ///< number of bytes in pages, without the guard pages
  Poison poison = Poison::nan;             ///< poison used for the slack
  bool open = false;                       ///< device memory: its pages are accessible
  bool mapped_to_device = false;           ///< pinned and registered memory: kernels may use it
  bool accessible = true;                  ///< pooled memory: its stream has reached the allocation, but not the free
  bool free_queued = false;                ///< pooled memory: free_pooled was called
  bool excused = false;                    ///< an injected fault prevented it from being freed
  std::uint64_t physical = 0;              ///< mapped memory: handle of the memory behind the addresses
  std::uint32_t access = 0;                ///< mapped memory: one bit for each device that may use these addresses
  std::vector<std::int16_t> prefetched{};  ///< managed memory, for each page: device, -1 host, -2 never
};

/// Reason why a kernel cannot use a pointer, and advice to the user.
struct ArgumentProblem {
  std::string reason, hint;
};

class Memory {
 public:
  static Memory& instance();
  /// Returns the instance, for API calls. Installs the fault handler on a thread's first such call, so that memory
  /// faults on that thread are explained.
  static Memory& for_caller();
  /// Allocation or registration that has not been freed.
  struct Unfreed {
    const char* call;  ///< name of the call that made the allocation
    unsigned long serial;
    std::size_t bytes;
  };
  static std::vector<Unfreed> unfreed();
  /// Exclude memory from unfreed(): all memory in a range, or the memory with a handle.
  void excuse(const void* pointer, std::size_t bytes = 1);
  void excuse(const PhysicalMemory& memory);

  void* allocate(AllocationKind kind, std::size_t bytes, int device, bool mapped_to_device, const char* call);
  /// Frees an allocation. Throws if the pointer is not the start of a live allocation of this kind, or if a canary was
  /// overwritten.
  void release(void* pointer, AllocationKind kind, const char* call);
  void register_host(void* pointer, std::size_t bytes, bool mapped_to_device);
  void unregister_host(void* pointer);
  /// Change the state of pooled memory: pool_arrive() when its stream reaches the allocation, pool_leave() when its
  /// free is queued.
  void pool_arrive(void* pointer);
  void pool_leave(void* pointer, const char* call);
  /// Ends the allocation when the stream reaches the free. Returns a description of what overwrote the canary, if
  /// anything did.
  std::optional<std::string> pool_depart(void* pointer);

  // Virtual memory management. Memory is an unnamed file, so that it can be mapped at several addresses. Addresses that
  // are reserved but not mapped, or that no device may use, fault like addresses that were never allocated.
  static constexpr std::size_t granularity = std::size_t{64} << 10;
  void* reserve_addresses(std::size_t bytes, std::size_t alignment);
  void release_addresses(void* addresses, std::size_t bytes);
  PhysicalMemory create_memory(std::size_t bytes, int device);
  void release_memory(const PhysicalMemory& memory);
  void map_memory(void* address, const PhysicalMemory& memory);
  void unmap_memory(void* address, std::size_t bytes);
  void set_access(void* address, std::size_t bytes, int device, bool allowed);

  std::optional<Allocation> find(const void* pointer);
  MemoryInfo info(int device);
  /// Returns why a copy or fill of this range would be an error, or nullopt. Pageable memory is accepted.
  std::optional<std::string> range_problem(const void* pointer, std::size_t bytes, bool now);
  bool is_pageable(const void* pointer);
  /// Returns why a kernel of `device` cannot use this pointer, or nullopt.
  std::optional<ArgumentProblem> argument_problem(const void* pointer, int device);
  void set_prefetched(const void* pointer, std::size_t bytes, int where);
  std::optional<int> last_prefetch(const void* pointer, std::size_t bytes);

  /// Describes the memory at the address, for the SIGSEGV handler; "" if it is not in this class's memory.
  std::string explain(std::uintptr_t address);
  /// Opens the allocation at the address, for the SIGSEGV handler, if the calling thread may access it. Returns false
  /// if it may not.
  bool open_for_thread(std::uintptr_t address);
  bool in_arena(std::uintptr_t address) const noexcept { return address - arena_ < arena_bytes_; }

 private:
  friend class DeviceAccess;
  Memory();
  /// Memory without addresses.
  struct Physical {
    int file = -1;
    std::size_t bytes = 0;
    int device = 0;
    unsigned mappings = 0;
    bool released = false;
    bool excused = false;  ///< same as Allocation::excused
  };
  std::uintptr_t reserve(std::size_t bytes);
  /// Returns the mappings that make up the range, in order; throws if they do not cover it exactly.
  std::vector<Allocation*> whole_mappings(const char* call, std::uintptr_t address, std::size_t bytes);
  void drop_if_unused(std::map<std::uint64_t, Physical>::iterator memory);
  void* allocate_device(Allocation& made, const char* call);
  void* allocate_host(Allocation& made, const char* call);
  std::optional<std::string> overwritten_canary(const Allocation& allocation) const;
  void unmap(const Allocation& allocation);
  std::string explain_outside(std::uintptr_t address);
  void bury(std::map<std::uintptr_t, Allocation>::iterator dead);
  void protect(const Allocation& allocation, bool open);
  void open(Allocation& allocation, const DeviceAccess* access);
  void close(Allocation& allocation);
  void close_all(const DeviceAccess* access) noexcept;
  std::map<std::uintptr_t, Allocation>::iterator find_locked(std::uintptr_t address);
  [[noreturn]] void refuse_free(std::uintptr_t address, AllocationKind kind, const char* call);

  std::mutex mutex_;
  std::uintptr_t arena_ = 0;
  std::size_t arena_bytes_ = 0;
  std::uintptr_t next_ = 0;
  std::map<std::uintptr_t, Allocation> live_;
  std::map<std::uintptr_t, Allocation> freed_;
  std::map<std::uintptr_t, std::size_t> reserved_;  ///< size in bytes of each reserved range of addresses
  std::map<std::uint64_t, Physical> physical_;
  std::array<std::size_t, most_devices> used_{};
  unsigned long serial_ = 0;
  struct Opened {
    std::uintptr_t begin;
    const DeviceAccess* by;
  };
  std::vector<Opened> opened_;
};

/// Unit of device work. While it exists, its thread, and threads with a Loan of it, may access device memory.
class DeviceAccess {
 public:
  /// Begins the work. A kernel of `device` may access the memory that the device has access to; copies (-1) belong to
  /// no device and may access all memory.
  explicit DeviceAccess(int device = -1);
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
  int device() const noexcept { return device_; }
  /// Opens the allocation that the pointer refers to in advance, because a fault at the first access costs more.
  void expect(const void* pointer) const;
  /// Returns the access of the calling thread, or null.
  static const DeviceAccess* here() noexcept;

  /// Scope in which the calling thread uses the given access.
  class Loan {
   public:
    explicit Loan(const DeviceAccess* access);
    ~Loan();
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;

   private:
    const DeviceAccess* before_;
  };

 private:
  const int device_;
  const Loan loan_;
};

}  // namespace emulator
