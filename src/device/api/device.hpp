#pragma once

// Host side of the device layer: devices, memory, streams, events. One API over CUDA, HIP and the host emulator; this
// header includes no vendor header. Every function throws device::Error if the call fails. Sizes are in bytes, times in
// seconds.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace isthmus::device {

enum class Backend { cuda, hip, emulator };

/// Returns the backend this binary was built for.
Backend backend() noexcept;
std::string_view name(Backend) noexcept;

enum class ErrorKind {
  failure,        ///< the call failed; the device still works
  out_of_memory,  ///< the call requested more memory than is available
  unsupported,    ///< this device does not support the call: the case is skipped, not failed
  device_lost,    ///< the device is unusable for the rest of this process
  timeout,        ///< a wait was abandoned
};

/// Failure of a call. `what()` is one sentence: the call, the reason, and what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string call, const std::string& reason, const std::string& hint);
  ErrorKind kind() const noexcept { return kind_; }
  /// Returns the name of the API function that failed, as written in ISTHMUS_INJECT.
  const std::string& call() const noexcept { return call_; }

 private:
  ErrorKind kind_;
  std::string call_;
};

// --- devices -------------------------------------------------------------------------------------

/// Identity and capabilities of a device. A null optional means unknown.
struct DeviceInfo {
  int index = 0;
  std::string name;
  std::string uuid;     ///< "GPU-…", as written by the scheduler and nvidia-smi
  std::string arch;     ///< "sm_90", "gfx942", "emulated"
  std::string pci_bus;  ///< "0000:1b:00.0"; empty if the device has none
  std::string driver;   ///< version of the kernel driver
  std::string runtime;  ///< version of the runtime library
  int warp_size = 32;
  int multiprocessors = 0;
  int max_threads_per_block = 1024;
  int max_threads_per_multiprocessor = 2048;
  int max_resident_blocks = 0;       ///< limit of a cooperative launch on the emulator; 0 on GPUs (query occupancy)
  std::size_t shared_per_block = 0;  ///< maximum dynamic shared memory of a block, including opt-in
  std::size_t shared_per_multiprocessor = 0;
  std::size_t l2_bytes = 0;
  std::size_t memory_bytes = 0;
  std::optional<double> clock_hz;
  std::optional<double> memory_bandwidth;  ///< peak in B/s, from the reported clock and bus width
  std::optional<double> fp32_rate;         ///< peak in FLOP/s, from clock and lane count
  int numa_node = -1;
  int copy_engines = 0;              ///< number of copies that can run concurrently with kernels and each other
  bool integrated = false;           ///< shares physical memory with the CPU (APU)
  bool managed = false;              ///< managed memory exists
  bool concurrent_managed = false;   ///< CPU and GPU may use managed memory at the same time
  bool pageable_access = false;      ///< the GPU can read malloc'd memory (HMM, ATS, XNACK)
  bool host_native_atomics = false;  ///< the link supports atomics on host memory
  bool memory_pools = false;         ///< stream-ordered allocation
  bool virtual_memory = false;       ///< virtual memory management: reserve_addresses() and the functions after it
  bool can_map_host = false;         ///< kernels can access page-locked host memory (zero-copy)
  bool cooperative = false;          ///< cooperative launches, which have a grid-wide barrier
  bool async_shared_copy = false;    ///< hardware asynchronous copy to shared memory
  bool bulk_shared_copy = false;     ///< cp.async.bulk
};

/// Returns the number of devices visible to this process (cgroups, CUDA_VISIBLE_DEVICES); 0 if the driver reports none.
/// Throws Error (device_lost or failure) if a driver is present but broken, rather than returning 0.
int count();
DeviceInfo info(int index);
/// Selects the device `index` for the calling thread. Streams, events and memory belong to the device that was selected
/// when they were created, and a kernel must be launched with its stream's device selected. Copies, frees, waits and
/// queries work no matter which device is selected.
void select(int index);
int selected();

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

/// Access of one device to another's memory.
struct PeerInfo {
  bool access = false;          ///< kernels and copy engines can access the memory directly once access is enabled
  bool native_atomics = false;  ///< the link supports atomics on the memory
};
/// Returns full access if `device` and `peer` are the same.
PeerInfo peer_info(int device, int peer);
/// Lets the selected device access memory from malloc_device on `peer` (pooled memory remains accessible only to its
/// own device). Applies to existing and future allocations, in this direction only; enabling access twice is harmless.
/// Throws Error (unsupported) if the devices do not support it. Copies between devices work without peer access: the
/// runtime stages them.
void enable_peer_access(int peer);
/// Disables the access that enable_peer_access enabled; disabling it twice is harmless.
void disable_peer_access(int peer);

struct MemoryInfo {
  std::size_t free = 0;
  std::size_t total = 0;
};
/// Returns free and total memory of the selected device.
MemoryInfo memory_info();

/// Other users of a device.
struct Occupancy {
  std::optional<std::vector<unsigned>> processes;  ///< IDs of all other processes on the device; nullopt if unknown
  std::optional<bool> mig;                         ///< true if the GPU is partitioned; nullopt if unknown
};
/// Returns the users of a device. Does not call the runtime, because the query itself would then make this process a
/// user.
Occupancy occupancy(int index) noexcept;

/// Current state of the device: everything that may change between two samples.
struct Telemetry {
  std::optional<int> pcie_generation, pcie_width, pcie_generation_max, pcie_width_max;
  std::optional<double> sm_clock_hz, sm_clock_max_hz, memory_clock_hz;
  std::optional<double> temperature_c, power_w, power_limit_w, power_limit_default_w;
  std::optional<bool> ecc, persistence, mig;
  std::optional<std::uint64_t> ecc_uncorrected;
  std::optional<std::string> vbios, gsp_firmware, compute_mode;
  /// Critical errors (NVIDIA's Xid numbers) that the driver has reported since this process first queried telemetry;
  /// nullopt if the driver does not report such errors to us.
  std::optional<std::vector<unsigned>> xids;
  /// Active throttle reasons, such as "sw_power_cap"; nullopt if the driver does not report them.
  std::optional<std::vector<std::string>> throttle;
  /// IDs of other processes with memory on this device; nullopt if the driver does not report them.
  std::optional<std::vector<unsigned>> foreign_processes;
  std::vector<std::string> links;  ///< one entry per active NVLink/xGMI link, "nvlink 26.562 GB/s"
  std::string source;              ///< "nvml", "sysfs", or "" if no source was available
};
/// Queries NVML (loaded at run time) or sysfs. Never throws; values that cannot be determined stay null.
Telemetry telemetry(int index) noexcept;
/// Updates the values that change while a case runs: clocks, power, temperature, the PCIe link, errors, throttling,
/// other processes. NVLinks, limits and firmware are not queried again, because that takes a millisecond or more.
void refresh(Telemetry& telemetry, int index) noexcept;

/// Returns how many bytes of device memory all processes use, according to the driver (NVML or amdgpu's files); nullopt
/// if unknown. Unlike memory_info(), it does not query the runtime.
std::optional<std::size_t> driver_memory_used(int index) noexcept;

/// Link between two devices, or between a device and the host, in its current state.
struct Link {
  std::string kind;  ///< "nvlink", "xgmi", "c2c", "pcie"
  int count = 0;     ///< number of links; for PCIe, number of lanes
  double rate = 0;   ///< B/s in one direction, for all links together, after line coding
  std::string text;  ///< "18 NVLinks of 26.56 GB/s", "PCIe 5 x16"
};
/// Returns the link to `peer`, or to the host if `peer` is -1. Uses the same sources as Telemetry. If the link is
/// unknown, returns null and sets `reason` to one sentence. For two devices on PCIe, returns the slower of their two
/// PCIe links, no matter which switches are between them.
std::optional<Link> link(int device, int peer, std::string* reason = nullptr) noexcept;
/// Returns the bytes per second of a PCIe link in one direction, after line coding and before protocol overhead;
/// nullopt for an unknown generation.
std::optional<double> pcie_rate(int generation, int width) noexcept;

/// Waits for all work on the selected device.
void synchronize();
/// Sets a deadline: kernels that still run or that start after it end with ErrorKind::timeout; infinity removes the
/// deadline. Does nothing on a GPU, because work there cannot be stopped.
void set_work_deadline(double seconds_from_now) noexcept;
/// Loads every kernel of this binary now, because lazy loading can deadlock behind a spin latch.
void load_kernels();

// --- streams and events --------------------------------------------------------------------------

class Event;

/// Object of the runtime, identified by a handle; the handle is null after a move.
class RuntimeObject {
 public:
  void* native_handle() const noexcept { return handle_; }

 protected:
  RuntimeObject() = default;
  ~RuntimeObject() = default;
  RuntimeObject(RuntimeObject&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  RuntimeObject& operator=(RuntimeObject&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  void* handle_ = nullptr;
};

/// Queue of work that runs in order on the device that was selected when the stream was created. Does not synchronise
/// with any default stream.
class Stream : public RuntimeObject {
 public:
  Stream();
  ~Stream();
  Stream(Stream&&) noexcept = default;
  Stream& operator=(Stream&&) noexcept = default;
  void synchronize();
  /// Returns true if all queued work has finished; does not wait.
  bool idle();
  /// Delays work queued after this call until `event`, which may be of any device, has happened.
  void wait(const Event& event);
};

/// Point in a stream, with its time. Belongs to the device that was selected when it was created and can be recorded
/// only on streams of that device; any stream may wait for it.
class Event : public RuntimeObject {
 public:
  Event();
  ~Event();
  Event(Event&&) noexcept = default;
  Event& operator=(Event&&) noexcept = default;
  void record(Stream& stream);
  void synchronize();
  bool done();
};

/// Returns the seconds between two events of one device that have both happened; the resolution is timer_tick().
double elapsed(const Event& begin, const Event& end);
/// Returns the seconds per tick of event time (CUDA: 0.5e-6; emulator: that of the steady clock).
double timer_tick() noexcept;

/// Work captured from a stream and launched as a whole.
class Graph : public RuntimeObject {
 public:
  /// Captures the kernels, fills and copies (except of pageable memory) that `queue` queues on `stream`, without
  /// running them. Until the constructor returns, the stream must not be used for anything else. If `queue` throws, the
  /// capture is dropped and the stream is as it was before.
  Graph(Stream& stream, const std::function<void()>& queue);
  ~Graph();
  Graph(Graph&&) noexcept = default;
  Graph& operator=(Graph&&) noexcept = default;
  /// Returns the number of work items in the graph.
  std::size_t nodes() const;
};

/// Instantiated graph. It can run any number of times, but never concurrently with itself.
class ExecutableGraph : public RuntimeObject {
 public:
  explicit ExecutableGraph(const Graph& graph);
  ~ExecutableGraph();
  ExecutableGraph(ExecutableGraph&&) noexcept = default;
  ExecutableGraph& operator=(ExecutableGraph&&) noexcept = default;
  void launch(Stream& stream);
};

/// Kernel that blocks a stream until released, so that all work queued behind it runs without gaps caused by
/// submission. Calls that themselves synchronise (pageable copies, device frees) must not be queued behind a latch.
/// Works on streams of the device that was selected when the latch was created.
class SpinLatch {
 public:
  /// Bytes of device memory that a latch owns. For copies of 4 bytes, the H200's driver puts the data into its
  /// commands; from 64 KiB on it uses a copy engine; sizes in between were not tested.
  static constexpr std::size_t kDeviceBytes = 64 << 10;
  SpinLatch();
  ~SpinLatch();
  SpinLatch(const SpinLatch&) = delete;
  SpinLatch& operator=(const SpinLatch&) = delete;
  /// Kind of work queued directly behind the latch. A stream needs microseconds to switch from the kernels' engine to a
  /// copy engine. Before copies, the latch therefore copies 64 KiB itself, so that the next event is recorded on the
  /// engine that does the work. (Much smaller copies would not use that engine, because the driver puts their data into
  /// its commands.)
  enum class Next { kernel, copy_in, copy_out };
  /// Queues the waiting kernel, which times out after `timeout` seconds.
  void hold(Stream& stream, double timeout = 5.0, Next next = Next::kernel);
  void release();
  /// Returns true if the last hold() timed out: the sample is invalid. Call it after synchronising.
  bool timed_out();

 private:
  std::uint32_t* flags_ = nullptr;  // mapped host memory: [0] released, [1] timed out
  void* near_ = nullptr;            // page-locked host memory for the preliminary copy
  void* far_ = nullptr;             // device memory for the preliminary copy
  std::uint32_t generation_ = 0;
  int device_;
  void free_quietly() noexcept;
};

// --- memory --------------------------------------------------------------------------------------

struct PinnedOptions {
  bool mapped = false;
  bool write_combined = false;
};

void* malloc_device(std::size_t bytes);
void free_device(void* pointer);
/// Allocates memory of the stream's device in stream order: work queued on `stream` after this call may use it.
void* malloc_pooled(std::size_t bytes, Stream& stream);
void free_pooled(void* pointer, Stream& stream);
/// Sets how many bytes the pool keeps at synchronisations instead of releasing them.
void set_pool_release_threshold(std::uint64_t bytes);
void* malloc_pinned(std::size_t bytes, PinnedOptions options = {});
void free_pinned(void* pointer);
void register_host(void* pointer, std::size_t bytes, PinnedOptions options = {});
void unregister_host(void* pointer);
/// Returns the address that kernels use for mapped host memory.
void* device_address(void* mapped_host_pointer);
void* malloc_managed(std::size_t bytes);
void free_managed(void* pointer);
/// Allocates a managed variable (`static __managed__`) of `bytes` bytes, in a module that is loaded now and unloaded by
/// free_static_managed(). The size need not be known at compile time. Throws Error (unsupported) if the runtime cannot
/// load such modules (CUDA before 12.8, HIP).
void* malloc_static_managed(std::size_t bytes);
void free_static_managed(void* pointer);

// Virtual memory management (cuMemAddressReserve, cuMemCreate and related calls), in which addresses and memory are
// separate: reserve a range of addresses, create memory on a device, map it into the range, and give devices access to
// it:
//
//   void* addresses = reserve_addresses(2 * bytes);
//   const PhysicalMemory memory = create_memory(bytes);
//   map_memory(addresses, memory);
//   set_access(addresses, bytes, selected(), Access::read_write);
//   … kernels and copies use it …
//   unmap_memory(addresses, bytes);  // only once no queued work uses it: this call does not wait
//   release_memory(memory);
//   release_addresses(addresses, 2 * bytes);
//
// All sizes and addresses must be multiples of memory_granularity(). None of these calls waits for queued work.

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
/// Maps all of the memory at `address`, where no other memory may be mapped. The same memory may be mapped at several
/// addresses. No device may access the mapping before set_access().
void map_memory(void* address, const PhysicalMemory& memory);
/// Unmaps one complete mapping, or several consecutive ones.
void unmap_memory(void* address, std::size_t bytes);
enum class Access { none, read_write };
/// Sets the access of `device` to one mapping, or to several consecutive ones. Throws Error (unsupported) if the device
/// cannot access the memory of the other device.
void set_access(void* address, std::size_t bytes, int device, Access access);

/// Copies synchronously: when it returns, both source and destination may be reused.
void copy(void* destination, const void* source, std::size_t bytes);
void copy_async(void* destination, const void* source, std::size_t bytes, Stream& stream);
void fill_async(void* pointer, std::uint8_t value, std::size_t bytes, Stream& stream);

/// Copy of rows and planes that may have gaps between them in the source and the destination.
struct StridedCopy {
  std::size_t row_bytes = 0, rows = 1, planes = 1;          ///< extent of the copy
  std::size_t destination_pitch = 0, destination_rows = 0;  ///< bytes from row to row, rows from plane to plane
  std::size_t source_pitch = 0, source_rows = 0;            ///< the same for the source; 0 means no gaps
};
void copy_strided_async(void* destination, const void* source, const StridedCopy& shape, Stream& stream);

struct CopyItem {
  void* destination;
  const void* source;
  std::size_t bytes;
};
/// Queues all copies with one call. They may run in any order, so none may depend on another. Items of 0 bytes are
/// skipped. Throws Error (unsupported) if the runtime does not have such a call (CUDA before 12.8, HIP).
void copy_batch_async(std::span<const CopyItem> items, Stream& stream);

/// Value to write to a word of device memory or mapped host memory. `word` is the address that kernels use.
struct ValueWrite {
  std::uint32_t* word;
  std::uint32_t value;
};
/// Writes the words, in any order, after all work that was queued before. A running kernel that acquires one of the
/// values (load_acquire) sees everything that came before the write. Cannot be captured. Throws Error (unsupported) if
/// the device does not support it.
void write_values_async(std::span<const ValueWrite> writes, Stream& stream);

/// Destination of managed memory: a device, or the host (optionally one of the host's NUMA nodes).
struct Location {
  int device = -1;     ///< -1: the host
  int numa_node = -1;  ///< host only; -1: any
  static Location host(int numa_node = -1) { return {-1, numa_node}; }
  static Location gpu(int index) { return {index, -1}; }
};
enum class Advice { read_mostly, preferred_location, accessed_by };
void prefetch(void* pointer, std::size_t bytes, Location to, Stream& stream);
void advise(void* pointer, std::size_t bytes, Advice advice, Location location);

/// Range of managed memory.
struct MemoryRange {
  void* pointer;
  std::size_t bytes;
};
// Batches: one call for several ranges, which are processed in any order. These functions throw Error (unsupported) if
// the runtime does not have such a call (CUDA before 13, HIP).
void prefetch_batch(std::span<const MemoryRange> ranges, Location to, Stream& stream);
/// Discards the contents of the ranges: reads are undefined until the memory is written again.
void discard_batch(std::span<const MemoryRange> ranges, Stream& stream);
/// Discards and prefetches, so that memory moves without its contents being copied.
void discard_and_prefetch_batch(std::span<const MemoryRange> ranges, Location to, Stream& stream);

/// Kind of memory that a pointer refers to, according to the driver.
enum class PointerKind { unregistered, pinned, device, managed };
struct PointerInfo {
  PointerKind kind = PointerKind::unregistered;
  int device = -1;      ///< owner of the memory; -1 for host memory, which all devices share
  bool mapped = false;  ///< true for host memory that kernels can access
};
PointerInfo pointer_info(const void* pointer);
std::string_view name(PointerKind) noexcept;

/// Returns the last prefetch destination of the managed pages in this range: a device index, or -1 for the host;
/// nullopt if the pages differ or were never prefetched, or if the destination is unknown.
std::optional<int> last_prefetch(const void* pointer, std::size_t bytes);

// --- kernels -------------------------------------------------------------------------------------

/// Properties of one kernel according to the compiler and the occupancy calculator.
struct KernelInfo {
  std::string name;
  std::optional<int> registers;
  std::optional<std::size_t> static_shared_bytes, local_bytes;
  std::optional<int> blocks_per_multiprocessor;
  std::optional<double> occupancy;  ///< resident threads divided by the maximum
};

// --- fault injection -----------------------------------------------------------------------------

/// Returns the names that ISTHMUS_INJECT accepts: every function and method of this API and of its libraries that can
/// fail. ISTHMUS_INJECT="malloc_device:3,copy_async:1" makes the third malloc_device and the first copy_async fail.
/// "name:3:oom" (or :lost, :unsupported, :timeout) sets the kind of failure. "name:3:interrupt" sends SIGINT to the
/// process, and the call continues.
std::span<const std::string_view> injectable_calls() noexcept;
/// Replaces the value of ISTHMUS_INJECT and resets all counts. Throws std::invalid_argument on an unknown name.
void set_injection(std::string_view specification);

}  // namespace isthmus::device
