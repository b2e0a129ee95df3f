#pragma once

// Host side: devices, memory, streams, events, graphs. Every function throws Error when the call fails; sizes are
// bytes, times are seconds.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "emulator/error.hpp"

namespace emulator {

// --- devices -------------------------------------------------------------------------------------

/// Number of devices, as configured.
int count();
/// Makes `index` the device of the calling thread. Streams, events and memory belong to the device that was selected
/// when they were made, and a kernel is launched with the device of its stream selected.
void select(int index);
int selected() noexcept;

/// Makes a device the calling thread's own for a scope.
class Selected {
 public:
  explicit Selected(int index);
  ~Selected();
  Selected(const Selected&) = delete;
  Selected& operator=(const Selected&) = delete;

 private:
  int before_;
};

/// What one device may do with another's memory; with its own it may do anything.
struct PeerInfo {
  bool access = false;          ///< kernels and copies can reach it directly, once that is enabled
  bool native_atomics = false;  ///< atomics on it are done by the link
};
PeerInfo peer_info(int device, int peer);
/// Lets the selected device reach the memory that malloc_device gives on `peer`, in this direction only. Throws
/// unsupported where it cannot be.
void enable_peer_access(int peer);
void disable_peer_access(int peer);

struct MemoryInfo {
  std::size_t free = 0;
  std::size_t total = 0;
};
/// Of the selected device.
MemoryInfo memory_info();

/// Waits for all work on the selected device.
void synchronize();
/// Ends kernels that still run, or start, so many seconds from now with ErrorKind::timeout; infinity takes that back.
void set_work_deadline(double seconds_from_now) noexcept;

// --- streams and events --------------------------------------------------------------------------

class StreamState;
class Occurrence;
class Event;

/// An in-order queue of work of the device that was selected when it was made. What is queued starts when somebody
/// waits for it or asks after it, or when the configured grace has passed.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(Stream&&) noexcept = default;
  Stream& operator=(Stream&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  void synchronize();
  /// Returns whether all queued work has finished; does not wait.
  bool idle();
  /// Lets work that is queued after this call start only when `event`, of any device, has happened.
  void wait(const Event& event);
  StreamState& state() const noexcept { return *state_; }

 private:
  std::shared_ptr<StreamState> state_;
};

/// A point in a stream, with its time. Belongs to the device that was selected when it was made, and is recorded on
/// streams of that device only; any stream may wait for it.
class Event {
 public:
  Event();
  void record(Stream& stream);
  void synchronize();
  bool done();

 private:
  friend class Stream;
  friend double elapsed(const Event& begin, const Event& end);
  int device_;
  std::shared_ptr<Occurrence> last_;
};

/// Seconds between two events of one device that have both happened.
double elapsed(const Event& begin, const Event& end);

/// Work captured from a stream, to be launched as a whole.
class Graph {
 public:
  /// Captures the kernels, copies (not of pageable memory) and fills that `queue` queues on `stream`; nothing runs. If
  /// `queue` throws, the capture is dropped and the stream is as it was before.
  Graph(Stream& stream, const std::function<void()>& queue);
  /// Pieces of work in it.
  std::size_t nodes() const;

 private:
  friend class ExecutableGraph;
  struct Nodes;
  std::shared_ptr<const Nodes> nodes_;
};

/// A graph made ready to run, any number of times but never beside itself.
class ExecutableGraph {
 public:
  explicit ExecutableGraph(const Graph& graph);
  void launch(Stream& stream);

 private:
  struct Executable;
  std::shared_ptr<Executable> executable_;
};

// --- memory --------------------------------------------------------------------------------------

struct PinnedOptions {
  bool mapped = false;  ///< kernels may use it
};

void* malloc_device(std::size_t bytes);
void free_device(void* pointer);
/// Stream-ordered: usable by work queued on `stream` after this call; memory of the stream's device.
void* malloc_pooled(std::size_t bytes, Stream& stream);
void free_pooled(void* pointer, Stream& stream);
void* malloc_pinned(std::size_t bytes, PinnedOptions options = {});
void free_pinned(void* pointer);
void register_host(void* pointer, std::size_t bytes, PinnedOptions options = {});
void unregister_host(void* pointer);
/// The address by which kernels reach mapped host memory.
void* device_address(void* mapped_host_pointer);
/// `call` is what errors name: the caller's own function, where it is another one.
void* malloc_managed(std::size_t bytes, const char* call = "malloc_managed");
void free_managed(void* pointer, const char* call = "free_managed");

// Addresses and memory apart. A range of addresses is reserved, memory of a device is created, mapped somewhere into
// the range, and devices are given access to it there. All sizes and addresses are multiples of memory_granularity().

/// Of the selected device, in bytes.
std::size_t memory_granularity();
/// Addresses without memory behind them, for all devices. `alignment` 0: the granularity.
void* reserve_addresses(std::size_t bytes, std::size_t alignment = 0);
/// A whole range that was reserved, with nothing mapped in it.
void release_addresses(void* addresses, std::size_t bytes);

/// Memory of one device, without an address.
struct PhysicalMemory {
  std::uint64_t handle = 0;
  std::size_t bytes = 0;
  int device = -1;
};
/// Of the selected device.
PhysicalMemory create_memory(std::size_t bytes);
/// Gives up the handle, which cannot be mapped any more; the memory itself goes with its last mapping.
void release_memory(const PhysicalMemory& memory);
/// Maps all of the memory from `address` on, where nothing may be mapped yet. No device may use it there before
/// set_access().
void map_memory(void* address, const PhysicalMemory& memory);
/// One mapping, or several that follow each other, as a whole.
void unmap_memory(void* address, std::size_t bytes);
/// What `device` may do with one mapping, or several that follow each other.
enum class Access { none, read_write };
void set_access(void* address, std::size_t bytes, int device, Access access);

/// What a pointer is.
enum class PointerKind { unregistered, pinned, device, managed };
struct PointerInfo {
  PointerKind kind = PointerKind::unregistered;
  int device = -1;      ///< whose memory it is; -1 for host memory, which all devices share
  bool mapped = false;  ///< host memory that kernels can reach
};
PointerInfo pointer_info(const void* pointer);

/// Leaves out of the report of memory that was never freed what lies in the range, or has the handle.
void excuse(const void* pointer, std::size_t bytes = 1);
void excuse(const PhysicalMemory& memory);

// --- copies --------------------------------------------------------------------------------------

/// Returns when both source and destination may be reused.
void copy(void* destination, const void* source, std::size_t bytes);
void copy_async(void* destination, const void* source, std::size_t bytes, Stream& stream);
void fill_async(void* pointer, std::uint8_t value, std::size_t bytes, Stream& stream);

/// Rows of planes. Pitches are bytes from row to row, no less than a row's; the distances count rows from plane to
/// plane.
struct StridedCopy {
  std::size_t row_bytes = 0, rows = 1, planes = 1;
  std::size_t destination_pitch = 0, destination_rows = 0;
  std::size_t source_pitch = 0, source_rows = 0;
};
void copy_strided_async(void* destination, const void* source, const StridedCopy& shape, Stream& stream);

struct CopyItem {
  void* destination;
  const void* source;
  std::size_t bytes;
};
/// Copies that are queued by one call and may run in any order among themselves, so that none may depend on another.
/// Items of 0 bytes are passed over.
void copy_batch_async(std::span<const CopyItem> items, Stream& stream);

/// A word of device memory or mapped host memory, by the address that kernels use.
struct ValueWrite {
  std::uint32_t* word;
  std::uint32_t value;
};
/// Writes the words, in no order among themselves, after all that was queued before. A kernel that acquires one of the
/// values while it runs sees all that came before the write.
void write_values_async(std::span<const ValueWrite> writes, Stream& stream);

// --- managed memory --------------------------------------------------------------------------------

/// A place for managed memory: a device, or -1 for the host.
struct Location {
  int device = -1;
  static Location host() { return {-1}; }
  static Location gpu(int index) { return {index}; }
};
void prefetch(void* pointer, std::size_t bytes, Location to, Stream& stream);
/// Checks the advice, which changes nothing here.
void advise(void* pointer, std::size_t bytes, Location location);

/// A range of managed memory.
struct MemoryRange {
  void* pointer;
  std::size_t bytes;
};
void prefetch_batch(std::span<const MemoryRange> ranges, Location to, Stream& stream);
/// The contents are no longer wanted: until they are written again, what is read there is poison.
void discard_batch(std::span<const MemoryRange> ranges, Stream& stream);
void discard_and_prefetch_batch(std::span<const MemoryRange> ranges, Location to, Stream& stream);

/// Where managed pages of this range were last prefetched to: a device, -1 the host, nullopt when mixed or never.
std::optional<int> last_prefetch(const void* pointer, std::size_t bytes);

}  // namespace emulator
