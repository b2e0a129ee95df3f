#pragma once

// Host side: devices, memory, streams, events, graphs. Every function throws Error if the call fails; sizes are in
// bytes, times in seconds.

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

/// Returns the configured number of devices.
int count();
/// Selects the device `index` for the calling thread. Streams, events and memory belong to the device that was selected
/// when they were created, and a kernel must be launched with its stream's device selected.
void select(int index);
int selected() noexcept;

/// Selects a device for the calling thread until the end of the scope.
class Selected {
 public:
  explicit Selected(int index);
  ~Selected();
  Selected(const Selected&) = delete;
  Selected& operator=(const Selected&) = delete;

 private:
  int before_;
};

/// Access of one device to another's memory; a device has full access to its own memory.
struct PeerInfo {
  bool access = false;          ///< kernels and copies can access the memory directly once access is enabled
  bool native_atomics = false;  ///< the link supports atomics on the memory
};
PeerInfo peer_info(int device, int peer);
/// Lets the selected device access memory from malloc_device on `peer`, in this direction only. Throws Error
/// (unsupported) if the devices do not support it.
void enable_peer_access(int peer);
void disable_peer_access(int peer);

struct MemoryInfo {
  std::size_t free = 0;
  std::size_t total = 0;
};
/// Returns free and total memory of the selected device.
MemoryInfo memory_info();

/// Waits for all work on the selected device.
void synchronize();
/// Sets a deadline `seconds_from_now`: kernels that still run or that start after it end with ErrorKind::timeout;
/// infinity removes the deadline.
void set_work_deadline(double seconds_from_now) noexcept;

// --- streams and events --------------------------------------------------------------------------

class StreamState;
class Occurrence;
class Event;

/// Queue of work that runs in order on the device that was selected when the stream was created. Queued work starts
/// when the program waits for it or queries it, or after the configured grace time.
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
  /// Returns true if all queued work has finished; does not wait.
  bool idle();
  /// Delays work queued after this call until `event`, which may be of any device, has happened.
  void wait(const Event& event);
  StreamState& state() const noexcept { return *state_; }

 private:
  std::shared_ptr<StreamState> state_;
};

/// Point in a stream, with its time. Belongs to the device that was selected when it was created and can be recorded
/// only on streams of that device; any stream may wait for it.
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

/// Returns the seconds between two events of one device that have both happened.
double elapsed(const Event& begin, const Event& end);

/// Work captured from a stream and launched as a whole.
class Graph {
 public:
  /// Captures the kernels, fills and copies (except of pageable memory) that `queue` queues on `stream`, without
  /// running them. If `queue` throws, the capture is dropped and the stream is as it was before.
  Graph(Stream& stream, const std::function<void()>& queue);
  /// Returns the number of work items in the graph.
  std::size_t nodes() const;

 private:
  friend class ExecutableGraph;
  struct Nodes;
  std::shared_ptr<const Nodes> nodes_;
};

/// Instantiated graph. It can run any number of times, but never concurrently with itself.
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
  bool mapped = false;  ///< kernels may use the memory
};

void* malloc_device(std::size_t bytes);
void free_device(void* pointer);
/// Allocates memory of the stream's device in stream order: work queued on `stream` after this call may use it.
void* malloc_pooled(std::size_t bytes, Stream& stream);
void free_pooled(void* pointer, Stream& stream);
void* malloc_pinned(std::size_t bytes, PinnedOptions options = {});
void free_pinned(void* pointer);
void register_host(void* pointer, std::size_t bytes, PinnedOptions options = {});
void unregister_host(void* pointer);
/// Returns the address that kernels use for mapped host memory.
void* device_address(void* mapped_host_pointer);
/// Allocates managed memory. Errors name `call`, so that callers can pass the name of their own function.
void* malloc_managed(std::size_t bytes, const char* call = "malloc_managed");
void free_managed(void* pointer, const char* call = "free_managed");

// Virtual memory management, in which addresses and memory are separate: a caller reserves a range of addresses,
// creates memory on a device, maps it into the range, and gives devices access to it. All sizes and addresses must be
// multiples of memory_granularity().

/// Returns the allocation granularity of the selected device, in bytes.
std::size_t memory_granularity();
/// Reserves addresses, without memory, that are valid on all devices. `alignment` 0 means the granularity.
void* reserve_addresses(std::size_t bytes, std::size_t alignment = 0);
/// Releases a whole reserved range; nothing may be mapped in it.
void release_addresses(void* addresses, std::size_t bytes);

/// Memory of one device, without an address.
struct PhysicalMemory {
  std::uint64_t handle = 0;
  std::size_t bytes = 0;
  int device = -1;
};
/// Creates memory on the selected device.
PhysicalMemory create_memory(std::size_t bytes);
/// Releases the handle, so that the memory can no longer be mapped; the memory is freed when its last mapping is
/// removed.
void release_memory(const PhysicalMemory& memory);
/// Maps all of the memory at `address`, where no other memory may be mapped. No device may access the mapping before
/// set_access().
void map_memory(void* address, const PhysicalMemory& memory);
/// Unmaps one complete mapping, or several consecutive ones.
void unmap_memory(void* address, std::size_t bytes);
/// Access of `device` to one mapping, or to several consecutive ones.
enum class Access { none, read_write };
void set_access(void* address, std::size_t bytes, int device, Access access);

/// Kind of memory that a pointer refers to.
enum class PointerKind { unregistered, pinned, device, managed };
struct PointerInfo {
  PointerKind kind = PointerKind::unregistered;
  int device = -1;      ///< owner of the memory; -1 for host memory, which all devices share
  bool mapped = false;  ///< true for host memory that kernels can access
};
PointerInfo pointer_info(const void* pointer);

/// Exclude memory from the report of memory that was never freed: all memory in a range, or the memory with a handle.
void excuse(const void* pointer, std::size_t bytes = 1);
void excuse(const PhysicalMemory& memory);

// --- copies --------------------------------------------------------------------------------------

/// Copies synchronously: when it returns, both source and destination may be reused.
void copy(void* destination, const void* source, std::size_t bytes);
void copy_async(void* destination, const void* source, std::size_t bytes, Stream& stream);
void fill_async(void* pointer, std::uint8_t value, std::size_t bytes, Stream& stream);

/// Copy of rows and planes. A pitch is the number of bytes from row to row, at least row_bytes; destination_rows and
/// source_rows are the numbers of rows from plane to plane.
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
/// Queues all copies with one call. They may run in any order, so none may depend on another. Items of 0 bytes are
/// skipped.
void copy_batch_async(std::span<const CopyItem> items, Stream& stream);

/// Value to write to a word of device memory or mapped host memory. `word` is the address that kernels use.
struct ValueWrite {
  std::uint32_t* word;
  std::uint32_t value;
};
/// Writes the words, in any order, after all work that was queued before. A running kernel that acquires one of the
/// values sees everything that came before the write.
void write_values_async(std::span<const ValueWrite> writes, Stream& stream);

// --- managed memory --------------------------------------------------------------------------------

/// Destination of managed memory: a device, or -1 for the host.
struct Location {
  int device = -1;
  static Location host() { return {-1}; }
  static Location gpu(int index) { return {index}; }
};
void prefetch(void* pointer, std::size_t bytes, Location to, Stream& stream);
/// Validates the advice, which has no effect on the emulator.
void advise(void* pointer, std::size_t bytes, Location location);

/// Range of managed memory.
struct MemoryRange {
  void* pointer;
  std::size_t bytes;
};
void prefetch_batch(std::span<const MemoryRange> ranges, Location to, Stream& stream);
/// Discards the contents of the ranges: reads return poison until the memory is written again.
void discard_batch(std::span<const MemoryRange> ranges, Stream& stream);
void discard_and_prefetch_batch(std::span<const MemoryRange> ranges, Location to, Stream& stream);

/// Returns the last prefetch destination of the managed pages in this range: a device, or -1 for the host; nullopt if
/// the pages differ or were never prefetched.
std::optional<int> last_prefetch(const void* pointer, std::size_t bytes);

}  // namespace emulator
