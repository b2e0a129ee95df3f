#include "emulator/memory_model.hpp"

#include "emulator/sanitizers.hpp"

#if EMULATOR_TSAN

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "emulator/block.hpp"
#include "emulator/memory.hpp"

extern "C" {
void __tsan_read1(void* address);
void __tsan_read2(void* address);
void __tsan_read4(void* address);
void __tsan_read8(void* address);
void __tsan_read16(void* address);
void __tsan_write1(void* address);
void __tsan_write2(void* address);
void __tsan_write4(void* address);
void __tsan_write8(void* address);
void __tsan_write16(void* address);
// The last argument is the memory order; 0 means relaxed.
std::uint8_t __tsan_atomic8_load(const volatile void* address, int order);
std::uint16_t __tsan_atomic16_load(const volatile void* address, int order);
std::uint32_t __tsan_atomic32_load(const volatile void* address, int order);
std::uint64_t __tsan_atomic64_load(const volatile void* address, int order);
std::uint8_t __tsan_atomic8_fetch_add(volatile void* address, std::uint8_t value, int order);
std::uint16_t __tsan_atomic16_fetch_add(volatile void* address, std::uint16_t value, int order);
std::uint32_t __tsan_atomic32_fetch_add(volatile void* address, std::uint32_t value, int order);
std::uint64_t __tsan_atomic64_fetch_add(volatile void* address, std::uint64_t value, int order);
}

namespace emulator {
namespace {

constexpr unsigned kept_fences = 16;
constexpr unsigned most_host_words = 8;

/// Fence whose order an atomic passes on to its readers.
struct Carried {
  Ordering* by;
  std::uint64_t fence;
  std::uint64_t block;  // number of the block's run
  Scope scope;
};

struct Word {
  std::vector<Carried> carried;  // sorted by thread and scope
  std::uint64_t version = 0;
};

std::uint64_t ordering_count = 0;
std::uint64_t version_count = 0;

}  // namespace

/// Fences of a kernel's thread, and what it has read since the last fence.
struct Ordering {
  const std::uint64_t number = __atomic_fetch_add(&ordering_count, 1, __ATOMIC_RELAXED);
  Block* block = nullptr;
  std::uint64_t fences = 0;        // total number; fence n is released into clock[n % kept_fences]
  std::uint64_t device_fence = 0;  // latest fence in this run of the block; 0: none
  std::uint64_t block_fence = 0;
  std::uint64_t clock[kept_fences] = {};  // addresses used as synchronisation objects for TSan
  std::vector<Carried> seen;              // fences carried by values read since the last fence
  const void* host_words[most_host_words] = {};
  unsigned host_word_count = 0;
  void* scribe = nullptr;      // fiber that exists only for TSan, and has acquired only this thread's fences
  const void* late = nullptr;  // address of a volatile load, which is reported before it is performed
  struct Look {
    const void* address = nullptr;
    std::uint64_t version = 0;
  };
  Look looked, fenced, acquired;  // last read; last read before a fence; last read that acquired
};

namespace {

struct Key {
  std::uint64_t number;
  Scope scope;
  explicit Key(const Carried& c) : number(c.by->number), scope(c.scope) {}
  bool operator<(const Key& other) const {
    return number != other.number ? number < other.number : scope < other.scope;
  }
};

void add(std::vector<Carried>& set, const Carried& one) {
  const auto place =
      std::lower_bound(set.begin(), set.end(), one, [](const Carried& a, const Carried& b) { return Key(a) < Key(b); });
  if (place == set.end() || Key(one) < Key(*place)) {
    set.insert(place, one);
  } else if (place->fence < one.fence) {
    *place = one;
  }
}

/// Part of the table of atomics that were written after a fence. Locations in the same shard share its lock.
struct Shard {
  int locked = 0;
  std::uint64_t count = 0;
  std::unordered_map<const void*, Word> locations;

  void lock() {
    for (unsigned tries = 1; __atomic_exchange_n(&locked, 1, __ATOMIC_ACQUIRE) != 0; ++tries) {
      if (tries % 64 == 0) sched_yield();
    }
  }
  void unlock() { __atomic_store_n(&locked, 0, __ATOMIC_RELEASE); }
  bool empty() const { return __atomic_load_n(&count, __ATOMIC_ACQUIRE) == 0; }
};

constexpr std::size_t shard_count = 1024;

Shard& shard_of(const void* address) {
  static Shard* shards = new Shard[shard_count];  // never destroyed, because kernels may run until the process ends
  const auto mixed = (reinterpret_cast<std::uintptr_t>(address) >> 2) * 0x9e3779b97f4a7c15ULL;
  return shards[mixed >> 54];
}
static_assert(shard_count == std::size_t{1} << (64 - 54));

Ordering& ordering_of(Thread& thread) {
  if (thread.ordering == nullptr) {
    const Unseen unseen;
    thread.ordering = new Ordering;  // never destroyed, because values written by the thread refer to it
    thread.ordering->block = static_cast<Block*>(thread.block);
  }
  return *thread.ordering;
}

/// Returns true if host code can access the address with atomics.
bool host_can_see(const Ordering& own, const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return !own.block->is_shared(at) && !Memory::instance().in_arena(at);
}

bool may_acquire(const Ordering& own, const Carried& carried, Scope scope) {
  const bool same_block = carried.by->block == own.block && carried.block == own.block->serial();
  return same_block || (scope == Scope::device && carried.scope == Scope::device);
}

void acquire(const Carried& carried) {
  sanitizer_acquire(&carried.by->clock[carried.fence % kept_fences]);
}

std::uint64_t release_now(Ordering& own) {
  ++own.fences;
  sanitizer_release(&own.clock[own.fences % kept_fences]);
  return own.fences;
}

/// Records that the thread has read a value that carries the location's fences. Called with the shard locked.
void note_read(Ordering& own, const Word& location, const void* address) {
  if (own.looked.address == address && own.looked.version == location.version) return;
  for (const Carried& carried : location.carried) {
    if (carried.by != &own) add(own.seen, carried);
  }
  own.looked = {address, location.version};
}

void note_host_word(Ordering& own, const void* address) {
  for (unsigned i = 0; i < own.host_word_count; ++i) {
    if (own.host_words[i] == address) return;
  }
  if (own.host_word_count == most_host_words) {
    sanitizer_acquire(const_cast<void*>(own.host_words[0]));  // acquire too early rather than never
    own.host_words[0] = own.host_words[--own.host_word_count];
  }
  own.host_words[own.host_word_count++] = address;
}

void look(Ordering& own, const void* address) {
  Shard& shard = shard_of(address);
  if (shard.empty()) return;
  const Unseen unseen;
  shard.lock();
  if (const auto found = shard.locations.find(address); found != shard.locations.end()) {
    note_read(own, found->second, address);
  }
  shard.unlock();
}

void look_late(Ordering& own) {
  if (own.late == nullptr) return;
  look(own, own.late);
  own.late = nullptr;
}

/// Records that the written value carries the writer's fences; after an update it also carries those of earlier values.
/// Called with the shard locked.
void note_write(Ordering& own, Shard& shard, const void* address, bool update, std::uint64_t released) {
  const std::uint64_t device_fence = std::max(own.device_fence, released);
  const bool fenced = device_fence != 0 || own.block_fence != 0;
  const auto found = shard.locations.find(address);
  if (found == shard.locations.end()) return;  // no fences to carry
  Word& location = found->second;
  if (update && !fenced) return;
  // If a fence of this thread has acquired all fences at the location, the thread's own fence covers them. Dropping
  // them keeps the list of a lock from growing.
  const bool covered = own.fenced.address == address && own.fenced.version == location.version;
  if (!update) location.carried.clear();
  if (covered) std::erase_if(location.carried, [](const Carried& carried) { return carried.scope == Scope::device; });
  const std::uint64_t block = own.block->serial();
  if (device_fence != 0) add(location.carried, {&own, device_fence, block, Scope::device});
  if (own.block_fence > device_fence) add(location.carried, {&own, own.block_fence, block, Scope::block});
  location.version = __atomic_add_fetch(&version_count, 1, __ATOMIC_RELAXED);
}

void acquire_all(Ordering& own, const void* address) {
  Shard& shard = shard_of(address);
  if (shard.empty()) return;
  const Unseen unseen;
  shard.lock();
  if (const auto found = shard.locations.find(address); found != shard.locations.end()) {
    const Word& location = found->second;
    if (own.acquired.address != address || own.acquired.version != location.version) {
      for (const Carried& carried : location.carried) {
        if (carried.by != &own && may_acquire(own, carried, Scope::device)) acquire(carried);
      }
      own.acquired = {address, location.version};
    }
  }
  shard.unlock();
}

/// Lets the host acquire, through the address itself, everything before the fence, but nothing after it.
void hand_on(Ordering& own, const void* address) {
  void* self = __tsan_get_current_fiber();
  if (own.scribe == nullptr) {
    // A new fiber is ordered after everything its creator has acquired; the block's own fiber has acquired nothing in
    // this run of the block.
    own.block->enter();
    own.scribe = __tsan_create_fiber(0);
  }
  __tsan_switch_to_fiber(own.scribe, __tsan_switch_to_fiber_no_sync);
  acquire({&own, own.device_fence, 0, Scope::device});
  sanitizer_release(const_cast<void*>(address));
  __tsan_switch_to_fiber(self, __tsan_switch_to_fiber_no_sync);
}

Thread* kernel_thread() {
  return static_cast<Thread*>(this_thread);
}

}  // namespace

void forget_fences(Thread& thread) {
  if (thread.ordering == nullptr) return;
  Ordering& own = *thread.ordering;
  const Unseen unseen;
  own.device_fence = own.block_fence = 0;
  own.seen.clear();
  own.host_word_count = 0;
  own.late = nullptr;
  own.looked = own.fenced = own.acquired = {};
}

void fence(Scope scope) noexcept {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (kernel_thread() == nullptr) return;
  Ordering& own = ordering_of(*kernel_thread());
  look_late(own);
  {
    const Unseen unseen;
    std::erase_if(own.seen, [&](const Carried& carried) {
      if (!may_acquire(own, carried, scope)) return false;
      acquire(carried);
      return true;
    });
  }
  if (scope == Scope::device) {
    for (unsigned i = 0; i < own.host_word_count; ++i) sanitizer_acquire(const_cast<void*>(own.host_words[i]));
    own.host_word_count = 0;
    own.fenced = own.looked;
  }
  (scope == Scope::device ? own.device_fence : own.block_fence) = release_now(own);
}

AtomicTurn::AtomicTurn(const void* address, Touch touch, Order order)
    : address_(address), touch_(touch), order_(order) {
  if (kernel_thread() == nullptr) return;
  Ordering& own = ordering_of(*kernel_thread());
  look_late(own);
  // Touch the address first, so that a page fault does not occur while the lock is held.
  static_cast<void>(*static_cast<const volatile char*>(address));
  Shard& shard = shard_of(address);
  const bool writes = touch != Touch::load;
  const bool fenced = own.device_fence != 0 || own.block_fence != 0 || order == Order::release;
  if (writes && own.device_fence != 0 && host_can_see(own, address)) hand_on(own, address);
  if ((writes && fenced) || !shard.empty()) {
    shard.lock();
    locked_ = true;
    if (writes && fenced) {
      // Inserted before the value is written: a reader that finds no entry may already see the value, and then looks
      // again.
      const Unseen unseen;
      shard.locations.try_emplace(address);
      __atomic_store_n(&shard.count, shard.locations.size(), __ATOMIC_SEQ_CST);
    }
  }
}

AtomicTurn::~AtomicTurn() {
  if (kernel_thread() == nullptr) return;
  Ordering& own = *kernel_thread()->ordering;
  const bool reads = touch_ != Touch::store;
  if (locked_) {
    const Unseen unseen;
    Shard& shard = shard_of(address_);
    const auto found = shard.locations.find(address_);
    const bool read_fence = reads && order_ != Order::acquire && found != shard.locations.end();
    if (read_fence) note_read(own, found->second, address_);
    if (touch_ != Touch::load) {
      note_write(own, shard, address_, touch_ == Touch::update, order_ == Order::release ? release_now(own) : 0);
    }
    // The thread's own write carries no fence that the thread has not seen.
    if (read_fence && touch_ == Touch::update) own.looked.version = found->second.version;
    shard.unlock();
  } else if (reads && order_ != Order::acquire) {
    look(own, address_);  // another thread may have inserted the location since the constructor
  }
  if (order_ == Order::acquire) {
    acquire_all(own, address_);
  } else if (reads && host_can_see(own, address_)) {
    note_host_word(own, address_);
  }
}

namespace {

/// Reports a volatile access to TSan as an atomic access, before the program performs it. Returns false outside
/// kernels.
template <class Load>
bool volatile_load(void* address, Load load) {
  if (kernel_thread() == nullptr) return false;
  load();
  Ordering& own = ordering_of(*kernel_thread());
  look_late(own);
  own.late = address;
  if (host_can_see(own, address)) note_host_word(own, address);
  return true;
}

template <class Write>
bool volatile_store(void* address, Write write) {
  if (kernel_thread() == nullptr) return false;
  write();
  const AtomicTurn turn(address, Touch::store);
  return true;
}

}  // namespace
}  // namespace emulator

using emulator::volatile_load;
using emulator::volatile_store;

#define EMULATOR_VOLATILE(BYTES, BITS)                                                                         \
  extern "C" void __tsan_volatile_read##BYTES(void* address);                                                  \
  extern "C" void __tsan_volatile_write##BYTES(void* address);                                                 \
  extern "C" void __tsan_volatile_read##BYTES(void* address) {                                                 \
    if (!volatile_load(address, [&] { __tsan_atomic##BITS##_load(address, 0); })) __tsan_read##BYTES(address); \
  }                                                                                                            \
  extern "C" void __tsan_volatile_write##BYTES(void* address) {                                                \
    if (!volatile_store(address, [&] { __tsan_atomic##BITS##_fetch_add(address, 0, 0); })) {                   \
      __tsan_write##BYTES(address);                                                                            \
    }                                                                                                          \
  }
EMULATOR_VOLATILE(1, 8)
EMULATOR_VOLATILE(2, 16)
EMULATOR_VOLATILE(4, 32)
EMULATOR_VOLATILE(8, 64)
#undef EMULATOR_VOLATILE

// Accesses of 16 bytes are not atomic, because no GPU performs them as one unit.
extern "C" void __tsan_volatile_read16(void* address);
extern "C" void __tsan_volatile_write16(void* address);
extern "C" void __tsan_volatile_read16(void* address) {
  __tsan_read16(address);
}
extern "C" void __tsan_volatile_write16(void* address) {
  __tsan_write16(address);
}

#else

namespace emulator {

void fence(Scope) noexcept {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

}  // namespace emulator

#endif
