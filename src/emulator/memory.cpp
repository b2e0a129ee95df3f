#include "emulator/memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "emulator/emulator.hpp"
#include "emulator/fault.hpp"
#include "emulator/fault_handler.hpp"
#include "emulator/format.hpp"
#include "emulator/paging.hpp"

namespace emulator {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t alignment = 256;
constexpr std::size_t managed_block = std::size_t{2} << 20;
constexpr std::size_t most_freed = 4096;  // number of freed allocations remembered, to explain a use after free
// Maximum number of open allocations: a process can have 65,530 mappings, and an open allocation between closed
// allocations needs two.
constexpr std::size_t most_open = 16384;

std::size_t host_memory() {
  if (const auto user = introduction().host_memory) return user();
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

constinit thread_local const DeviceAccess* access_here = nullptr;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

bool is_device_kind(AllocationKind kind) {
  return kind == AllocationKind::device || kind == AllocationKind::pooled || kind == AllocationKind::mapped;
}

/// Requests huge pages, which make it cheap to poison, open and close large blocks as a whole. Without huge pages,
/// nothing is lost.
void advise_huge(const Allocation& allocation) {
  if (allocation.mapped_bytes < std::size_t{4} << 20) return;
  madvise(reinterpret_cast<void*>(allocation.mapped), allocation.mapped_bytes, MADV_HUGEPAGE);
}

/// Maps `bytes` bytes with a guard page before and after; large managed memory begins at a multiple of the driver's
/// block size, as drivers allocate it.
void* map_between_guards(std::size_t bytes, bool managed) {
  const std::size_t unit = managed && bytes >= managed_block ? managed_block : page, whole = bytes + 2 * page;
  void* mapped = mmap(nullptr, whole + unit - page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return mapped;
  const auto start = reinterpret_cast<std::uintptr_t>(mapped), begin = round_up(start + page, unit) - page;
  if (begin > start) munmap(mapped, begin - start);
  const std::uintptr_t end = start + whole + unit - page;
  if (end > begin + whole) munmap(reinterpret_cast<void*>(begin + whole), end - begin - whole);
  return reinterpret_cast<void*>(begin);
}

}  // namespace

const char* maker(AllocationKind kind) noexcept {
  switch (kind) {
    case AllocationKind::device:
      return "malloc_device";
    case AllocationKind::pooled:
      return "malloc_pooled";
    case AllocationKind::pinned:
      return "malloc_pinned";
    case AllocationKind::registered:
      return "register_host";
    case AllocationKind::managed:
      return "malloc_managed";
    case AllocationKind::mapped:
      return "map_memory";
  }
  return "?";
}

void fill_canary(Poison poison, std::uintptr_t begin, std::uintptr_t end) {
  for (std::uintptr_t at = begin; at < end; ++at) *reinterpret_cast<unsigned char*>(at) = canary_byte(poison, at);
}

std::uintptr_t first_overwritten(Poison poison, std::uintptr_t begin, std::uintptr_t end) {
  std::uintptr_t at = begin;
  const auto skip_bytes = [&](std::uintptr_t to) {
    while (at < to && *reinterpret_cast<const unsigned char*>(at) == canary_byte(poison, at)) ++at;
    return at == to;
  };
  const std::uintptr_t words = std::min(round_up(begin, 8), end), tail = std::max(end / 8 * 8, words);
  if (!skip_bytes(words)) return at;
  unsigned char canary[8];
  for (std::uintptr_t i = 0; i < 8; ++i) canary[i] = canary_byte(poison, i);
  while (at < tail && std::memcmp(reinterpret_cast<const void*>(at), canary, 8) == 0) at += 8;
  skip_bytes(end);
  return at;
}

Memory& Memory::instance() {
  static Memory* memory = new Memory;  // never destroyed, because threads may still run when the process ends
  return *memory;
}

Memory& Memory::for_caller() {
  use_alternate_stack();
  return instance();
}

Memory::Memory() {
#if defined(__SANITIZE_THREAD__)
  arena_bytes_ = std::size_t{64} << 30;
#else
  arena_bytes_ = std::size_t{1} << 40;
#endif
  void* mapped = mmap(nullptr, arena_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    throw Error(ErrorKind::failure, "malloc_device",
                sentence("the emulator cannot reserve addresses for device memory ({})", std::strerror(errno)),
                "raise the limit on address space (ulimit -v)");
  }
  arena_ = reinterpret_cast<std::uintptr_t>(mapped);
  next_ = arena_ + page;       // leaves a guard page before the first allocation
  opened_.reserve(most_open);  // because the signal handler must not allocate
  report_at_exit();
}

// --- allocation ------------------------------------------------------------------------------------

void* Memory::allocate(AllocationKind kind, std::size_t bytes, int device, bool mapped_to_device, const char* call) {
  if (bytes == 0) throw Error(ErrorKind::failure, call, "0 bytes were requested", "request at least one");
  const std::lock_guard lock(mutex_);
  Allocation made;
  made.kind = kind;
  made.bytes = bytes;
  made.device = device;
  made.serial = ++serial_;
  made.mapped_to_device = mapped_to_device;
  made.poison = configuration().poison;
  void* pointer = is_device_kind(kind) ? allocate_device(made, call) : allocate_host(made, call);
  if (kind == AllocationKind::managed) made.prefetched.assign(made.mapped_bytes / page, -2);
  const auto placed = live_.emplace(made.begin, std::move(made)).first;
  if (kind == AllocationKind::managed) Paging::instance().add(placed->second.mapped, placed->second.mapped_bytes);
  if (is_device_kind(kind) && configuration().integrated) open(placed->second, nullptr);
  return pointer;
}

void* Memory::allocate_device(Allocation& made, const char* call) {
  const std::size_t capacity = configuration().memory_bytes;
  std::size_t& used = used_[static_cast<std::size_t>(made.device)];
  if (made.bytes > capacity || used > capacity - made.bytes) {
    throw Error(ErrorKind::out_of_memory, call,
                sentence("{} bytes do not fit ({} of {} bytes of device {}'s memory are free)", made.bytes,
                         capacity - std::min(used, capacity), capacity, made.device),
                sentence("choose a smaller size, or raise memory= in {}", introduction().variable));
  }
  made.mapped_bytes = round_up(round_up(made.bytes, alignment), page);
  made.mapped = reserve(made.mapped_bytes + page);
  // Placed as late in its pages as alignment allows, so that the bytes after it are in no allocation.
  made.begin = made.mapped + made.mapped_bytes - round_up(made.bytes, alignment);
  made.accessible = made.kind == AllocationKind::device;
  protect(made, true);
  advise_huge(made);
  fill_canary(made.poison, made.mapped, made.begin);
  std::memset(reinterpret_cast<void*>(made.begin), poison_byte(made.poison), made.bytes);
  fill_canary(made.poison, made.begin + made.bytes, made.mapped + made.mapped_bytes);
  protect(made, false);
  used += made.bytes;
  return reinterpret_cast<void*>(made.begin);
}

void* Memory::allocate_host(Allocation& made, const char* call) {
  made.mapped_bytes = round_up(round_up(made.bytes, alignment), page);
  void* mapped = MAP_FAILED;
  if (made.mapped_bytes >= made.bytes && made.mapped_bytes < host_memory()) {
    mapped = map_between_guards(made.mapped_bytes, made.kind == AllocationKind::managed);
  }
  if (mapped == MAP_FAILED) {
    throw Error(ErrorKind::out_of_memory, call, sentence("{} bytes of host memory are not available", made.bytes),
                "choose a smaller size");
  }
  made.mapped = reinterpret_cast<std::uintptr_t>(mapped) + page;
  mprotect(mapped, page, PROT_NONE);
  mprotect(reinterpret_cast<void*>(made.mapped + made.mapped_bytes), page, PROT_NONE);
  made.begin = made.mapped + made.mapped_bytes - round_up(made.bytes, alignment);
  if (made.kind == AllocationKind::pinned) made.begin = made.mapped;  // page-aligned, as drivers allocate it
  advise_huge(made);
  fill_canary(made.poison, made.mapped, made.begin);
  std::memset(reinterpret_cast<void*>(made.begin), poison_byte(made.poison), made.bytes);
  fill_canary(made.poison, made.begin + made.bytes, made.mapped + made.mapped_bytes);
  return reinterpret_cast<void*>(made.begin);
}

std::uintptr_t Memory::reserve(std::size_t bytes) {
  if (bytes > arena_bytes_) {
    throw Error(ErrorKind::out_of_memory, "malloc_device", "the emulator's address range is too small", "request less");
  }
  const std::uintptr_t arena_end = arena_ + arena_bytes_;
  for (bool wrapped = false;;) {
    if (next_ + bytes > arena_end) {
      if (wrapped) {
        throw Error(ErrorKind::out_of_memory, "malloc_device", "the emulator's address range is exhausted",
                    "free device memory, or request less");
      }
      wrapped = true;
      next_ = arena_ + page;
    }
    // There can be live or reserved memory ahead only after a wrap.
    if (auto held = reserved_.lower_bound(next_ + bytes); held != reserved_.begin()) {
      --held;
      if (held->first + held->second > next_) {
        next_ = held->first + held->second + page;
        continue;
      }
    }
    auto after = live_.lower_bound(next_);
    if (after != live_.begin()) {
      const Allocation& before = std::prev(after)->second;
      if (is_device_kind(before.kind) && before.mapped + before.mapped_bytes + page > next_) {
        next_ = before.mapped + before.mapped_bytes + page;
        continue;
      }
    }
    if (after != live_.end() && is_device_kind(after->second.kind) && after->second.mapped < next_ + bytes) {
      next_ = after->second.mapped + after->second.mapped_bytes + page;
      continue;
    }
    break;
  }
  const std::uintptr_t given = next_;
  next_ += bytes;
  freed_.erase(freed_.lower_bound(given), freed_.lower_bound(next_));
  return given;
}

void Memory::protect(const Allocation& allocation, bool open) {
  if (mprotect(reinterpret_cast<void*>(allocation.mapped), allocation.mapped_bytes,
               open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) {
    std::perror(sentence("{}: the emulator cannot protect device memory", introduction().name).c_str());
    std::abort();
  }
}

// --- deallocation ----------------------------------------------------------------------------------

void Memory::refuse_free(std::uintptr_t address, AllocationKind kind, const char* call) {
  if (const auto found = find_locked(address); found != live_.end()) {
    const Allocation& other = found->second;
    if (other.kind != kind) {
      throw Error(ErrorKind::failure, call,
                  sentence("{:#x} was allocated by {} (#{})", address, maker(other.kind), other.serial),
                  "free it with the matching function");
    }
    throw Error(ErrorKind::failure, call,
                other.begin == address ? sentence("{:#x} was already freed (#{})", address, other.serial)
                                       : sentence("{:#x} lies {} bytes inside allocation #{}", address,
                                                  address - other.begin, other.serial),
                other.begin == address ? "free it once" : "free the pointer that the allocation returned");
  }
  if (const auto found = freed_.find(address); found != freed_.end()) {
    throw Error(ErrorKind::failure, call,
                sentence("{:#x} was already freed (double free of #{})", address, found->second.serial),
                "free it once");
  }
  throw Error(ErrorKind::failure, call, sentence("{:#x} is unknown", address),
              sentence("free only pointers returned by {}", maker(kind)));
}

std::optional<std::string> Memory::overwritten_canary(const Allocation& allocation) const {
  const std::uintptr_t end = allocation.mapped + allocation.mapped_bytes;
  std::uintptr_t overwritten = first_overwritten(allocation.poison, allocation.mapped, allocation.begin);
  if (overwritten == allocation.begin)
    overwritten = first_overwritten(allocation.poison, overwritten + allocation.bytes, end);
  if (overwritten == end) return std::nullopt;
  return sentence("something wrote out of bounds, at byte {} of the {} bytes of {} #{}",
                  static_cast<std::ptrdiff_t>(overwritten) - static_cast<std::ptrdiff_t>(allocation.begin),
                  allocation.bytes, maker(allocation.kind), allocation.serial);
}

void Memory::unmap(const Allocation& allocation) {
  void* pages = reinterpret_cast<void*>(allocation.mapped);
  if (is_device_kind(allocation.kind)) {
    // A new mapping is used instead of mprotect, because it merges with its neighbours, and the number of mappings is
    // limited.
    const void* fresh =
        mmap(pages, allocation.mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (fresh == MAP_FAILED) mprotect(pages, allocation.mapped_bytes, PROT_NONE);
  } else {
    munmap(reinterpret_cast<void*>(allocation.mapped - page), allocation.mapped_bytes + 2 * page);
  }
}

void Memory::release(void* pointer, AllocationKind kind, const char* call) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  std::optional<std::string> overwritten;
  {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(address);
    if (found == live_.end() || found->second.kind != kind) refuse_free(address, kind, call);
    if (is_device_kind(kind)) {
      protect(found->second, true);
      used_[static_cast<std::size_t>(found->second.device)] -= found->second.bytes;
    }
    if (kind == AllocationKind::managed) Paging::instance().remove(found->second.mapped);
    overwritten = overwritten_canary(found->second);
    bury(found);
  }
  if (overwritten) throw Error(ErrorKind::failure, call, *overwritten, "correct the kernel or copy that did it");
}

void Memory::register_host(void* pointer, std::size_t bytes, bool mapped_to_device) {
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  if (pointer == nullptr || bytes == 0) {
    throw Error(ErrorKind::failure, "register_host", "there is nothing to register",
                "pass a pointer and its size in bytes");
  }
  const std::lock_guard lock(mutex_);
  auto after = live_.lower_bound(begin);
  const bool ahead = after != live_.end() && after->second.begin < begin + bytes;
  const bool behind = after != live_.begin() && std::prev(after)->second.begin + std::prev(after)->second.bytes > begin;
  if (ahead || behind || in_arena(begin)) {
    throw Error(ErrorKind::failure, "register_host",
                sentence("{:#x} overlaps memory that is already registered or was allocated by this API", begin),
                "register only pageable memory, and only once");
  }
  Allocation made;
  made.begin = made.mapped = begin;
  made.bytes = made.mapped_bytes = bytes;
  made.kind = AllocationKind::registered;
  made.serial = ++serial_;
  made.mapped_to_device = mapped_to_device;
  live_.emplace(begin, std::move(made));
  freed_.erase(begin);
}

void Memory::unregister_host(void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(address);
  if (found == live_.end() || found->second.kind != AllocationKind::registered) {
    refuse_free(address, AllocationKind::registered, "unregister_host");
  }
  live_.erase(found);
}

// --- stream-ordered memory -------------------------------------------------------------------------

void Memory::pool_arrive(void* pointer) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == live_.end()) return;
  found->second.accessible = true;
  if (configuration().integrated) open(found->second, nullptr);
}

void Memory::pool_leave(void* pointer, const char* call) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(address);
  if (found == live_.end() || found->second.kind != AllocationKind::pooled || found->second.free_queued) {
    refuse_free(address, AllocationKind::pooled, call);
  }
  found->second.free_queued = true;
  // Work that is queued on the stream from now on may use the space.
  used_[static_cast<std::size_t>(found->second.device)] -= found->second.bytes;
}

std::optional<std::string> Memory::pool_depart(void* pointer) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == live_.end()) return std::nullopt;
  protect(found->second, true);
  std::optional<std::string> overwritten = overwritten_canary(found->second);
  bury(found);
  return overwritten;
}

void Memory::bury(std::map<std::uintptr_t, Allocation>::iterator dead) {
  unmap(dead->second);
  if (freed_.size() >= most_freed) freed_.erase(freed_.begin());
  freed_.insert_or_assign(dead->first, std::move(dead->second));
  live_.erase(dead);
}

// --- queries ---------------------------------------------------------------------------------------

std::map<std::uintptr_t, Allocation>::iterator Memory::find_locked(std::uintptr_t address) {
  auto after = live_.upper_bound(address);
  if (after == live_.begin()) return live_.end();
  --after;
  return address - after->second.begin < after->second.bytes ? after : live_.end();
}

std::vector<Memory::Unfreed> Memory::unfreed() {
  Memory& memory = instance();
  const std::lock_guard lock(memory.mutex_);
  std::vector<Unfreed> all;
  for (const auto& [handle, physical] : memory.physical_) {
    if (!physical.released && !physical.excused) all.push_back({"create_memory", handle, physical.bytes});
  }
  for (const auto& [begin, allocation] : memory.live_) {
    if (!allocation.free_queued && !allocation.excused)
      all.push_back({maker(allocation.kind), allocation.serial, allocation.bytes});
  }
  std::sort(all.begin(), all.end(), [](const Unfreed& a, const Unfreed& b) { return a.serial < b.serial; });
  return all;
}

void Memory::excuse(const void* pointer, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  const std::lock_guard lock(mutex_);
  auto at = find_locked(begin);
  if (at == live_.end()) at = live_.lower_bound(begin);
  for (; at != live_.end() && at->first < begin + bytes; ++at) at->second.excused = true;
}

void Memory::excuse(const PhysicalMemory& memory) {
  const std::lock_guard lock(mutex_);
  if (const auto found = physical_.find(memory.handle); found != physical_.end()) found->second.excused = true;
}

std::optional<Allocation> Memory::find(const void* pointer) {
  const std::lock_guard lock(mutex_);
  const auto found = find_locked(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == live_.end()) return std::nullopt;
  return found->second;
}

MemoryInfo Memory::info(int device) {
  const std::size_t capacity = configuration().memory_bytes;
  const std::lock_guard lock(mutex_);
  return {capacity - std::min(used_[static_cast<std::size_t>(device)], capacity), capacity};
}

std::optional<std::string> Memory::range_problem(const void* pointer, std::size_t bytes, bool now) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const std::lock_guard lock(mutex_);
  const auto found = find_locked(address);
  if (found == live_.end()) {
    if (pointer == nullptr) return "the pointer is null";
    if (!in_arena(address)) return std::nullopt;
    return sentence("{:#x} is not in a live device allocation", address);
  }
  const Allocation& allocation = found->second;
  std::size_t reach = allocation.bytes - (address - allocation.begin);
  if (allocation.kind == AllocationKind::mapped) {  // users treat consecutive mappings as one
    for (auto next = found; bytes > reach;) {
      if (next->second.access == 0) break;
      const std::uintptr_t end = next->second.begin + next->second.bytes;
      ++next;
      if (next == live_.end() || next->second.begin != end || next->second.kind != AllocationKind::mapped) break;
      reach += next->second.bytes;
    }
    if (allocation.access == 0)
      return sentence("no device was given access to map_memory #{} by set_access", allocation.serial);
  }
  if (bytes > reach) {
    return sentence("{} bytes from byte {} run beyond the {} bytes of {} #{}", bytes, address - allocation.begin,
                    allocation.bytes, maker(allocation.kind), allocation.serial);
  }
  if (now && !allocation.accessible) {
    return sentence("malloc_pooled #{} is used before its stream has reached the allocation", allocation.serial);
  }
  return std::nullopt;
}

bool Memory::is_pageable(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const std::lock_guard lock(mutex_);
  return !in_arena(address) && find_locked(address) == live_.end();
}

std::optional<ArgumentProblem> Memory::argument_problem(const void* pointer, int device) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (pointer == nullptr) return std::nullopt;
  const std::lock_guard lock(mutex_);
  auto found = find_locked(address);
  if (found == live_.end()) found = find_locked(address - 1);  // an address one past the end is a valid argument
  const auto of_the_host = [&](const std::string& reason) -> std::optional<ArgumentProblem> {
    if (configuration().pageable_access) return std::nullopt;
    return ArgumentProblem{reason, sentence("pass device, managed or mapped memory, or set pageable_access=1 in {}",
                                            introduction().variable)};
  };
  if (found == live_.end()) {
    if (in_arena(address)) return std::nullopt;  // freed or out of bounds: it is a fault only if a kernel uses it
    return of_the_host(sentence("{:#x} points to pageable host memory", address));
  }
  const Allocation& allocation = found->second;
  if (!is_device_kind(allocation.kind)) {
    if (allocation.kind == AllocationKind::managed || allocation.mapped_to_device) return std::nullopt;
    return of_the_host(sentence("{:#x} points to {} memory that is not mapped", address, maker(allocation.kind)));
  }
  if (allocation.kind == AllocationKind::mapped) {
    if ((allocation.access >> device & 1) != 0) return std::nullopt;
    return ArgumentProblem{sentence("{:#x} points to map_memory #{}, to which device {} has no access", address,
                                    allocation.serial, device),
                           "give it access with set_access"};
  }
  if (allocation.device == device) return std::nullopt;
  if (allocation.kind == AllocationKind::pooled) {
    return ArgumentProblem{sentence("{:#x} points to {} memory of device {}, and the kernel runs on device {}", address,
                                    maker(allocation.kind), allocation.device, device),
                           "pass memory of malloc_device: peer access does not open a pool"};
  }
  if (reaches(device, allocation.device)) return std::nullopt;
  return ArgumentProblem{sentence("{:#x} points to memory of device {}, which device {} may not reach", address,
                                  allocation.device, device),
                         sentence("select device {} and call enable_peer_access({})", device, allocation.device)};
}

void Memory::set_prefetched(const void* pointer, std::size_t bytes, int where) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const std::lock_guard lock(mutex_);
  const auto found = find_locked(address);
  if (found == live_.end() || bytes == 0) return;
  Allocation& allocation = found->second;
  const std::size_t first = (address - allocation.mapped) / page;
  const std::size_t last = (address + bytes - 1 - allocation.mapped) / page;
  for (std::size_t i = first; i <= last && i < allocation.prefetched.size(); ++i) {
    allocation.prefetched[i] = static_cast<std::int16_t>(where);
  }
}

std::optional<int> Memory::last_prefetch(const void* pointer, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const std::lock_guard lock(mutex_);
  const auto found = find_locked(address);
  if (found == live_.end() || bytes == 0 || found->second.prefetched.empty()) return std::nullopt;
  const Allocation& allocation = found->second;
  const std::size_t first = (address - allocation.mapped) / page;
  const std::size_t last = std::min((address + bytes - 1 - allocation.mapped) / page, allocation.prefetched.size() - 1);
  for (std::size_t i = first; i <= last; ++i) {
    if (allocation.prefetched[i] != allocation.prefetched[first]) return std::nullopt;
  }
  if (allocation.prefetched[first] == -2) return std::nullopt;
  return allocation.prefetched[first];
}

// Called from a signal handler. If the faulting thread has locked the mutex, waiting for it would never end.
std::string Memory::explain(std::uintptr_t address) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  for (int i = 0; i < 1000 && !lock.owns_lock(); ++i) {
    usleep(1000);
    lock.try_lock();
  }
  if (!lock.owns_lock()) return in_arena(address) ? "an allocation that cannot be identified now" : "";
  const auto tell = [&](const Allocation& allocation, const char* state) {
    return sentence("byte {} of the {} bytes of {} #{}{}",
                    static_cast<std::ptrdiff_t>(address) - static_cast<std::ptrdiff_t>(allocation.begin),
                    allocation.bytes, maker(allocation.kind), allocation.serial, state);
  };
  if (const auto found = find_locked(address); found != live_.end()) {
    const Allocation& allocation = found->second;
    if (allocation.accessible && is_device_kind(allocation.kind) && access_here != nullptr) {
      return tell(allocation, sentence(", which device {} may not reach", access_here->device()).c_str());
    }
    if (allocation.accessible) return tell(allocation, "");
    return tell(allocation, allocation.kind == AllocationKind::mapped
                                ? ", to which no device was given access"
                                : ", used before its stream has reached the allocation");
  }
  return explain_outside(address);
}

/// Describes an address between allocations relative to the allocation whose end is nearest.
std::string Memory::explain_outside(std::uintptr_t address) {
  const Allocation* best = nullptr;
  std::uintptr_t least = ~std::uintptr_t{0};
  const char* state = "";
  const auto offer = [&](const Allocation& allocation, const char* what) {
    if (address + page < allocation.mapped || address >= allocation.mapped + allocation.mapped_bytes + page) return;
    const std::uintptr_t end = allocation.begin + allocation.bytes;
    const std::uintptr_t distance = address < allocation.begin ? allocation.begin - address
                                    : address < end            ? 0
                                                               : address - end + 1;
    if (distance >= least) return;
    best = &allocation;
    least = distance;
    state = what;
  };
  const auto offer_neighbours = [&](const std::map<std::uintptr_t, Allocation>& all, const char* what) {
    const auto after = all.upper_bound(address);
    if (after != all.end()) offer(after->second, what);
    if (after != all.begin()) offer(std::prev(after)->second, what);
  };
  offer_neighbours(live_, ", out of bounds");
  offer_neighbours(freed_, ", freed before");
  if (best != nullptr) {
    return sentence("byte {} of the {} bytes of {} #{}{}",
                    static_cast<std::ptrdiff_t>(address) - static_cast<std::ptrdiff_t>(best->begin), best->bytes,
                    maker(best->kind), best->serial, state);
  }
  if (auto held = reserved_.upper_bound(address); held != reserved_.begin()) {
    --held;
    if (address - held->first < held->second)
      return sentence("byte {} of {} reserved addresses, where nothing is mapped", address - held->first, held->second);
  }
  if (in_arena(address)) return "device memory that was never allocated";
  return "";
}

// --- device work -----------------------------------------------------------------------------------

namespace {

bool may_touch(const Allocation& allocation, const DeviceAccess* access) {
  if (!is_device_kind(allocation.kind) || !allocation.accessible) return false;
  const int device = access == nullptr ? -1 : access->device();
  if (device < 0) return true;
  if (allocation.kind == AllocationKind::mapped) return (allocation.access >> device & 1) != 0;
  return allocation.kind == AllocationKind::pooled ? allocation.device == device : reaches(device, allocation.device);
}

}  // namespace

void Memory::open(Allocation& allocation, const DeviceAccess* access) {
  if (opened_.size() == most_open) close_all(nullptr);  // they are opened again at the next access if still needed
  protect(allocation, true);
  allocation.open = true;
  opened_.push_back({allocation.begin, access});
}

void Memory::close(Allocation& allocation) {
  protect(allocation, false);
  allocation.open = false;
}

/// Closes the allocations that one unit of work has opened, or all allocations.
void Memory::close_all(const DeviceAccess* access) noexcept {
  std::erase_if(opened_, [&](const Opened& opened) {
    if (access != nullptr && opened.by != access) return false;
    if (const auto found = live_.find(opened.begin); found != live_.end() && found->second.open) close(found->second);
    return true;
  });
}

bool Memory::open_for_thread(std::uintptr_t address) {
  if (!in_arena(address) || (access_here == nullptr && !configuration().integrated)) return false;
  const std::lock_guard lock(mutex_);
  const auto found = find_locked(address);
  if (found == live_.end() || !may_touch(found->second, access_here)) return false;
  if (!found->second.open) open(found->second, access_here);  // if it is open, another thread has just opened it
  return true;
}

DeviceAccess::DeviceAccess(int device) : device_(device), loan_(this) {
  Paging::instance().enter(device);
}
DeviceAccess::~DeviceAccess() {
  Paging::instance().leave(device_);
  Memory& memory = Memory::instance();
  const std::lock_guard lock(memory.mutex_);
  memory.close_all(this);
}

void DeviceAccess::expect(const void* pointer) const {
  Memory& memory = Memory::instance();
  const std::lock_guard lock(memory.mutex_);
  const auto found = memory.find_locked(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == memory.live_.end() || found->second.open || !may_touch(found->second, this)) return;
  memory.open(found->second, this);
}

const DeviceAccess* DeviceAccess::here() noexcept {
  return access_here;
}

DeviceAccess::Loan::Loan(const DeviceAccess* access) : before_(std::exchange(access_here, access)) {}
DeviceAccess::Loan::~Loan() {
  access_here = before_;
}

}  // namespace emulator
