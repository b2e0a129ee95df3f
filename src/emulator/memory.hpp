#pragma once

// All memory that the device layer gave out or was told of, and who may touch it when.
// Device memory lies in one reserved range of addresses. A block lies between guard pages, the slack around it is
// filled with a canary, and a freed block's addresses are not given out again until the range is used up. The whole
// range is PROT_NONE: what device work touches is opened as it is touched and closed when that work ends, so the cost
// of a launch does not grow with the number of allocations, and a host that dereferences device memory is caught.

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
/// "malloc_device", …: the call that makes one.
const char* maker(AllocationKind) noexcept;

/// Of memory that nobody wrote.
constexpr int poison_byte(Poison poison) {
  return poison == Poison::large ? 0x7b : 0xff;
}
/// Of slack at this address. As poison, and in pairs that -1 does not look like: a write of it must be seen at the
/// free.
constexpr unsigned char canary_byte(Poison poison, std::uintptr_t address) {
  if (poison == Poison::large) return 0x7b;
  return address % 2 == 0 ? 0xf5 : 0xff;
}
void fill_canary(Poison poison, std::uintptr_t begin, std::uintptr_t end);
/// The first address whose canary was overwritten, or `end`.
std::uintptr_t first_spoilt(Poison poison, std::uintptr_t begin, std::uintptr_t end);

class DeviceAccess;

struct Allocation {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  AllocationKind kind = AllocationKind::device;
  int device = -1;                         ///< selected when it was made, or of the stream; -1: no device's
  unsigned long serial = 0;                ///< counts all allocations of the process
  std::uintptr_t mapped = 0;               ///< first page
  std::size_t mapped_bytes = 0;            ///< pages, without the guards
  Poison poison = Poison::nan;             ///< of its slack
  bool open = false;                       ///< device: its pages can be touched
  bool mapped_to_device = false;           ///< pinned and registered: kernels may use it
  bool accessible = true;                  ///< pooled: its stream has reached the allocation, and not the free
  bool free_queued = false;                ///< pooled: free_pooled was called
  bool excused = false;                    ///< an injected fault kept it from being freed
  std::uint64_t physical = 0;              ///< mapped: the memory behind the addresses
  std::uint32_t access = 0;                ///< mapped: a bit for each device that may use it there
  std::vector<std::int16_t> prefetched{};  ///< managed, a page each: device, -1 host, -2 never
};

/// Why a kernel cannot be given a pointer, and what to do.
struct ArgumentProblem {
  std::string reason, hint;
};

class Memory {
 public:
  static Memory& instance();
  /// The same, in a call of the API: from a thread's first one on, a fault of its own is explained.
  static Memory& for_caller();
  /// An allocation or a registration that has not been taken back.
  struct Unfreed {
    const char* call;  ///< that made it
    unsigned long serial;
    std::size_t bytes;
  };
  static std::vector<Unfreed> unfreed();
  /// Leaves out of that what lies in the range, or has the handle.
  void excuse(const void* pointer, std::size_t bytes = 1);
  void excuse(const PhysicalMemory& memory);

  void* allocate(AllocationKind kind, std::size_t bytes, int device, bool mapped_to_device, const char* call);
  /// Throws for a pointer that is not the start of a live allocation of this kind, and for a spoilt canary.
  void release(void* pointer, AllocationKind kind, const char* call);
  void register_host(void* pointer, std::size_t bytes, bool mapped_to_device);
  void unregister_host(void* pointer);
  /// Pooled memory becomes usable, or ends, when its stream comes to that point.
  void pool_arrive(void* pointer);
  void pool_leave(void* pointer, const char* call);
  /// Ends it; says what spoilt its canary, if anything did.
  std::optional<std::string> pool_depart(void* pointer);

  // Addresses and memory apart. Memory is a file without a name, so that it can lie at several addresses; an address
  // that is reserved and not mapped, or that no device may use, faults like any that was never given.
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
  /// Why a copy or fill of this range would be wrong, or nullopt. Pageable memory passes.
  std::optional<std::string> range_problem(const void* pointer, std::size_t bytes, bool now);
  bool is_pageable(const void* pointer);
  /// Why a kernel of `device` cannot be given this pointer, or nullopt.
  std::optional<ArgumentProblem> argument_problem(const void* pointer, int device);
  void set_prefetched(const void* pointer, std::size_t bytes, int where);
  std::optional<int> last_prefetch(const void* pointer, std::size_t bytes);

  /// For the SIGSEGV handler: what lies at the address, or "" when it is none of ours.
  std::string explain(std::uintptr_t address);
  /// For the SIGSEGV handler: opens the allocation at the address if the calling thread may touch it. False: a fault.
  bool open_for_thread(std::uintptr_t address);
  bool in_arena(std::uintptr_t address) const noexcept { return address - arena_ < arena_bytes_; }

 private:
  friend class DeviceAccess;
  Memory();
  /// Memory that has no address of its own.
  struct Physical {
    int file = -1;
    std::size_t bytes = 0;
    int device = 0;
    unsigned mappings = 0;
    bool released = false;
    bool excused = false;  ///< as an Allocation is
  };
  std::uintptr_t reserve(std::size_t bytes);
  /// The mappings that make up the range, in order; throws where they do not.
  std::vector<Allocation*> whole_mappings(const char* call, std::uintptr_t address, std::size_t bytes);
  void drop_if_unused(std::map<std::uint64_t, Physical>::iterator memory);
  void* allocate_device(Allocation& made, const char* call);
  void* allocate_host(Allocation& made, const char* call);
  std::optional<std::string> spoilt_canary(const Allocation& allocation) const;
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
  std::map<std::uintptr_t, std::size_t> reserved_;  ///< bytes of each range of addresses
  std::map<std::uint64_t, Physical> physical_;
  std::array<std::size_t, most_devices> used_{};
  unsigned long serial_ = 0;
  struct Opened {
    std::uintptr_t begin;
    const DeviceAccess* by;
  };
  std::vector<Opened> opened_;
};

/// One piece of device work. While it exists, its thread, and those that it is lent to, can touch device memory.
class DeviceAccess {
 public:
  /// A kernel of `device` touches what that may reach; copies, which are no device's, touch all.
  explicit DeviceAccess(int device = -1);
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
  int device() const noexcept { return device_; }
  /// Opens what the pointer points to now: a fault at the first touch costs more.
  void expect(const void* pointer) const;
  /// Of the calling thread, or null.
  static const DeviceAccess* here() noexcept;

  /// Lets another thread work for it.
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
