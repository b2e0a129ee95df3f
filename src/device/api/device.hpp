#pragma once

// Host side of the device layer: devices, memory, streams, events.
// One API over CUDA, HIP and the host emulator; no vendor header is visible here.
// Every function throws device::Error when the call fails; sizes are bytes, times are seconds.

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

/// The backend this binary was built for.
Backend backend() noexcept;
std::string_view name(Backend) noexcept;

enum class ErrorKind {
  failure,        ///< the call failed; the device still works
  out_of_memory,  ///< the call asked for more than there is
  unsupported,    ///< this device cannot do it: a skip, not a failure
  device_lost,    ///< nothing more can be done on the device in this process
  timeout,        ///< a wait was given up
};

/// `what()` is one sentence: the call, the reason, what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string call, const std::string& reason, const std::string& hint);
  ErrorKind kind() const noexcept { return kind_; }
  /// Name of the function of this API that failed, as ISTHMUS_INJECT spells it.
  const std::string& call() const noexcept { return call_; }

 private:
  ErrorKind kind_;
  std::string call_;
};

// --- devices -------------------------------------------------------------------------------------

/// What a device is and what it can do. A null optional means unknown.
struct DeviceInfo {
  int index = 0;
  std::string name;
  std::string uuid;     ///< "GPU-…" as the scheduler and nvidia-smi spell it
  std::string arch;     ///< "sm_90", "gfx942", "emulated"
  std::string pci_bus;  ///< "0000:1b:00.0", empty where there is none
  std::string driver;   ///< version of the kernel driver
  std::string runtime;  ///< version of the runtime library
  int warp_size = 32;
  int multiprocessors = 0;
  int max_threads_per_block = 1024;
  int max_threads_per_multiprocessor = 2048;
  int max_resident_blocks = 0;       ///< cooperative launch, emulator only; 0 elsewhere (ask occupancy)
  std::size_t shared_per_block = 0;  ///< largest dynamic shared memory of a block, opt-in included
  std::size_t shared_per_multiprocessor = 0;
  std::size_t l2_bytes = 0;
  std::size_t memory_bytes = 0;
  std::optional<double> clock_hz;
  std::optional<double> memory_bandwidth;  ///< peak, B/s, from the reported clock and bus width
  std::optional<double> fp32_rate;         ///< peak, FLOP/s, from clock and lane count
  int numa_node = -1;
  int copy_engines = 0;              ///< copies that can run beside kernels and one another
  bool integrated = false;           ///< shares physical memory with the CPU (APU)
  bool managed = false;              ///< managed memory exists
  bool concurrent_managed = false;   ///< CPU and GPU may use it at the same time
  bool pageable_access = false;      ///< the GPU can read malloc'd memory (HMM, ATS, XNACK)
  bool host_native_atomics = false;  ///< atomics on host memory are done by the link
  bool memory_pools = false;         ///< stream-ordered allocation
  bool virtual_memory = false;       ///< addresses and memory apart: reserve_addresses() and what follows it
  bool can_map_host = false;         ///< zero-copy
  bool cooperative = false;          ///< grid-wide barrier
  bool async_shared_copy = false;    ///< in-kernel asynchronous copy in hardware
  bool bulk_shared_copy = false;     ///< cp.async.bulk
};

/// Devices visible to this process (cgroups, CUDA_VISIBLE_DEVICES); 0 where the driver sees none.
/// Throws device_lost or failure when a driver is there but broken: never a silent zero.
int count();
DeviceInfo info(int index);
/// Makes `index` the device of the calling thread. Streams, events and memory belong to the device that was selected
/// when they were made, and a kernel is launched with the device of its stream selected. Copies, frees, waits and
/// queries work whatever is selected.
void select(int index);
int selected();

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

/// What one device may do with another's memory.
struct PeerInfo {
  bool access = false;          ///< kernels and copy engines can reach it directly, once that is enabled
  bool native_atomics = false;  ///< atomics on it are done by the link
};
/// A device may do anything with its own memory.
PeerInfo peer_info(int device, int peer);
/// Lets the selected device reach the memory that malloc_device gives on `peer` (pooled memory stays its own device's).
/// Holds for memory of before and after, in this direction only; asking for what already holds is fine. Throws
/// unsupported where it cannot be. Copies between devices work without it: the runtime stages them.
void enable_peer_access(int peer);
/// Ends what enable_peer_access began; asking for what already holds is fine.
void disable_peer_access(int peer);

struct MemoryInfo {
  std::size_t free = 0;
  std::size_t total = 0;
};
/// Of the selected device.
MemoryInfo memory_info();

/// Who is on a device.
struct Occupancy {
  std::optional<std::vector<unsigned>> processes;  ///< pids of all but this process; nullopt where unknown
  std::optional<bool> mig;                         ///< whether the GPU is split; nullopt where unknown
};
/// Asks no runtime, so this process is not on the device for having asked.
Occupancy occupancy(int index) noexcept;

/// State of the device as it is now: what may change between two samples.
struct Telemetry {
  std::optional<int> pcie_generation, pcie_width, pcie_generation_max, pcie_width_max;
  std::optional<double> sm_clock_hz, sm_clock_max_hz, memory_clock_hz;
  std::optional<double> temperature_c, power_w, power_limit_w, power_limit_default_w;
  std::optional<bool> ecc, persistence, mig;
  std::optional<std::uint64_t> ecc_uncorrected;
  std::optional<std::string> vbios, gsp_firmware, compute_mode;
  /// Critical errors (NVIDIA's Xid numbers) that the driver reported since this process first asked for this telemetry;
  /// nullopt where it reports none to us.
  std::optional<std::vector<unsigned>> xids;
  /// Reasons active now, such as "sw_power_cap"; nullopt where the driver does not say.
  std::optional<std::vector<std::string>> throttle;
  /// Pids of other processes with memory on this device; nullopt where the driver does not say.
  std::optional<std::vector<unsigned>> foreign_processes;
  std::vector<std::string> links;  ///< one per active NVLink/xGMI link, "nvlink 26.562 GB/s"
  std::string source;              ///< "nvml", "sysfs", "" when nothing could be asked
};
/// Asks NVML (loaded at run time) or sysfs; never throws, absent facts stay null.
Telemetry telemetry(int index) noexcept;
/// Asks again for what changes while a case runs: clocks, power, temperature, the PCIe link, errors, throttling, other
/// processes. The NVLinks, limits and firmware stay as they are: asking for them takes a millisecond and more.
void refresh(Telemetry& telemetry, int index) noexcept;

/// Bytes of the device's memory that the driver says are in use, whoever uses them (NVML, or amdgpu's files); nullopt
/// where unknown. memory_info() asks the runtime instead.
std::optional<std::size_t> driver_memory_used(int index) noexcept;

/// The link between two devices, or between a device and the host, as it is now.
struct Link {
  std::string kind;  ///< "nvlink", "xgmi", "c2c", "pcie"
  int count = 0;     ///< links; lanes for PCIe
  double rate = 0;   ///< B/s in one direction, all of them together, after line coding
  std::string text;  ///< "18 NVLinks of 26.56 GB/s", "PCIe 5 x16"
};
/// `peer` -1 is the host. Asks the sources of Telemetry; what is unknown is null, and `reason` one sentence.
/// Between two devices on PCIe it is the slower of their ends, whatever lies between those.
std::optional<Link> link(int device, int peer, std::string* reason = nullptr) noexcept;
/// Bytes per second of a PCIe link in one direction after line coding, before any protocol overhead; nullopt for a
/// generation that is not known.
std::optional<double> pcie_rate(int generation, int width) noexcept;

/// Waits for all work on the selected device.
void synchronize();
/// Kernels that still run, or start, so many seconds from now end with ErrorKind::timeout; infinity takes that back.
/// The emulator can do it. What runs on a GPU cannot be stopped: there this does nothing.
void set_work_deadline(double seconds_from_now) noexcept;
/// Loads every kernel of this binary now: lazy loading can deadlock behind a spin latch.
void load_kernels();

// --- streams and events --------------------------------------------------------------------------

class Event;

/// An object of the runtime, known by a handle; nothing where it was moved from.
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

/// An in-order queue of work of the device that was selected when it was made; does not synchronise with any default
/// stream.
class Stream : public RuntimeObject {
 public:
  Stream();
  ~Stream();
  Stream(Stream&&) noexcept = default;
  Stream& operator=(Stream&&) noexcept = default;
  void synchronize();
  /// True when all queued work has finished; does not wait.
  bool idle();
  /// Work queued after this call starts only when `event`, of any device, has happened.
  void wait(const Event& event);
};

/// A point in a stream, with its time. Belongs to the device that was selected when it was made, and is recorded on
/// streams of that device only; any stream may wait for it.
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

/// Seconds between two events of one device that have both happened; resolution is timer_tick().
double elapsed(const Event& begin, const Event& end);
/// Seconds per tick of event time (CUDA: 0.5e-6; emulator: the steady clock's).
double timer_tick() noexcept;

/// Work captured from a stream, to be launched as a whole.
class Graph : public RuntimeObject {
 public:
  /// Captures the kernels, copies (not of pageable memory) and fills that `queue` queues on `stream`; nothing runs.
  /// Until it returns, nothing else may be asked of the stream. If it throws, the capture is dropped and the stream is
  /// as it was before.
  Graph(Stream& stream, const std::function<void()>& queue);
  ~Graph();
  Graph(Graph&&) noexcept = default;
  Graph& operator=(Graph&&) noexcept = default;
  /// Pieces of work in it.
  std::size_t nodes() const;
};

/// A graph made ready to run, any number of times but never beside itself.
class ExecutableGraph : public RuntimeObject {
 public:
  explicit ExecutableGraph(const Graph& graph);
  ~ExecutableGraph();
  ExecutableGraph(ExecutableGraph&&) noexcept = default;
  ExecutableGraph& operator=(ExecutableGraph&&) noexcept = default;
  void launch(Stream& stream);
};

/// Holds a stream until released, so that everything queued behind it starts without submission gaps.
/// Calls that synchronise by themselves (pageable copies, device frees) must not be queued behind it.
/// Holds streams of the device that was selected when it was made.
class SpinLatch {
 public:
  /// Device memory that a latch holds. The H200's driver embeds 4 bytes in its commands and copies from 64 KiB on a
  /// copy engine; between, nobody asked it.
  static constexpr std::size_t kDeviceBytes = 64 << 10;
  SpinLatch();
  ~SpinLatch();
  SpinLatch(const SpinLatch&) = delete;
  SpinLatch& operator=(const SpinLatch&) = delete;
  /// What is queued first behind the latch. A stream takes microseconds to pass from the kernels' engine to a copy
  /// engine; behind a latch that is followed by a copy, 64 KiB are copied first, so that the next event is recorded on
  /// the engine that does the work. (Much smaller ones go another way: the driver sends them with its commands.)
  enum class Next { kernel, copy_in, copy_out };
  /// Queues the waiting kernel. It gives up by itself after `timeout` seconds.
  void hold(Stream& stream, double timeout = 5.0, Next next = Next::kernel);
  void release();
  /// True when the last hold() ended by its time-out: the sample is spoilt. Call after synchronising.
  bool timed_out();

 private:
  std::uint32_t* flags_ = nullptr;  // mapped host memory: [0] released, [1] timed out
  void* near_ = nullptr;            // page-locked host memory and
  void* far_ = nullptr;             // device memory, the two ends of that copy
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
/// Stream-ordered: usable by work queued on `stream` after this call; memory of the stream's device.
void* malloc_pooled(std::size_t bytes, Stream& stream);
void free_pooled(void* pointer, Stream& stream);
/// Bytes the pool keeps at a synchronisation instead of giving them back.
void set_pool_release_threshold(std::uint64_t bytes);
void* malloc_pinned(std::size_t bytes, PinnedOptions options = {});
void free_pinned(void* pointer);
void register_host(void* pointer, std::size_t bytes, PinnedOptions options = {});
void unregister_host(void* pointer);
/// The address by which kernels reach mapped host memory.
void* device_address(void* mapped_host_pointer);
void* malloc_managed(std::size_t bytes);
void free_managed(void* pointer);
/// A managed variable (`static __managed__`) of so many bytes, of a module that is loaded now and unloaded again: its
/// size need not be known when the program is compiled. Throws unsupported where the runtime loads no such module (CUDA
/// before 12.8, HIP).
void* malloc_static_managed(std::size_t bytes);
void free_static_managed(void* pointer);

// Addresses and memory apart (cuMemAddressReserve, cuMemCreate and what belongs to them). A range of addresses is
// reserved, memory of a device is created, mapped somewhere into the range, and devices are given access to it there:
//
//   void* addresses = reserve_addresses(2 * bytes);
//   const PhysicalMemory memory = create_memory(bytes);
//   map_memory(addresses, memory);
//   set_access(addresses, bytes, selected(), Access::read_write);
//   … kernels and copies use it …
//   unmap_memory(addresses, bytes);  // when nothing queued uses it any more: this waits for nothing
//   release_memory(memory);
//   release_addresses(addresses, 2 * bytes);
//
// All sizes and addresses are multiples of memory_granularity(). None of these calls waits for queued work.

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
/// All of the memory, from `address` on, where nothing may be mapped yet. It may be mapped at several addresses. No
/// device may use it there before set_access().
void map_memory(void* address, const PhysicalMemory& memory);
/// One mapping, or several that follow each other, as a whole.
void unmap_memory(void* address, std::size_t bytes);
enum class Access { none, read_write };
/// What `device` may do with one mapping, or several that follow each other. Throws unsupported where it cannot reach
/// the other's memory.
void set_access(void* address, std::size_t bytes, int device, Access access);

/// Returns when both source and destination may be reused.
void copy(void* destination, const void* source, std::size_t bytes);
void copy_async(void* destination, const void* source, std::size_t bytes, Stream& stream);
void fill_async(void* pointer, std::uint8_t value, std::size_t bytes, Stream& stream);

/// Rows of planes that lie apart, at either end.
struct StridedCopy {
  std::size_t row_bytes = 0, rows = 1, planes = 1;          ///< what is copied
  std::size_t destination_pitch = 0, destination_rows = 0;  ///< bytes from row to row, rows from plane to plane
  std::size_t source_pitch = 0, source_rows = 0;            ///< (0: as tight as can be)
};
void copy_strided_async(void* destination, const void* source, const StridedCopy& shape, Stream& stream);

struct CopyItem {
  void* destination;
  const void* source;
  std::size_t bytes;
};
/// Copies that are queued by one call and may run in any order among themselves, so that none may depend on another.
/// Items of 0 bytes are passed over. Throws unsupported where the runtime has no such call (CUDA before 12.8, HIP).
void copy_batch_async(std::span<const CopyItem> items, Stream& stream);

/// A word of device memory or mapped host memory, by the address that kernels use.
struct ValueWrite {
  std::uint32_t* word;
  std::uint32_t value;
};
/// Writes the words, in no order among themselves, after all that was queued before. A kernel that acquires one of the
/// values (load_acquire) while it runs sees all that came before the write. Not while the stream is captured. Throws
/// unsupported where the device cannot.
void write_values_async(std::span<const ValueWrite> writes, Stream& stream);

/// A place for managed memory: a device, or the host (optionally one NUMA node of it).
struct Location {
  int device = -1;     ///< -1: the host
  int numa_node = -1;  ///< host only; -1: any
  static Location host(int numa_node = -1) { return {-1, numa_node}; }
  static Location gpu(int index) { return {index, -1}; }
};
enum class Advice { read_mostly, preferred_location, accessed_by };
void prefetch(void* pointer, std::size_t bytes, Location to, Stream& stream);
void advise(void* pointer, std::size_t bytes, Advice advice, Location location);

/// A range of managed memory.
struct MemoryRange {
  void* pointer;
  std::size_t bytes;
};
// One call for many ranges, which it takes in any order. They throw unsupported where the runtime has no such call
// (CUDA before 13, HIP).
void prefetch_batch(std::span<const MemoryRange> ranges, Location to, Stream& stream);
/// The contents are no longer wanted: until they are written again, what is read there is undefined.
void discard_batch(std::span<const MemoryRange> ranges, Stream& stream);
/// Both, so that memory can move without its contents being copied.
void discard_and_prefetch_batch(std::span<const MemoryRange> ranges, Location to, Stream& stream);

/// What the driver says that a pointer is.
enum class PointerKind { unregistered, pinned, device, managed };
struct PointerInfo {
  PointerKind kind = PointerKind::unregistered;
  int device = -1;      ///< whose memory it is; -1 for host memory, which all devices share
  bool mapped = false;  ///< host memory that kernels can reach
};
PointerInfo pointer_info(const void* pointer);
std::string_view name(PointerKind) noexcept;

/// Where the driver last put managed pages of this range: a device index, -1 the host,
/// nullopt when mixed, unknown or never prefetched.
std::optional<int> last_prefetch(const void* pointer, std::size_t bytes);

// --- kernels -------------------------------------------------------------------------------------

/// What the compiler and the occupancy calculator say of one kernel.
struct KernelInfo {
  std::string name;
  std::optional<int> registers;
  std::optional<std::size_t> static_shared_bytes, local_bytes;
  std::optional<int> blocks_per_multiprocessor;
  std::optional<double> occupancy;  ///< resident threads over the most there can be
};

// --- fault injection -----------------------------------------------------------------------------

/// Names that ISTHMUS_INJECT accepts: every function and method of this API, the libraries among it, that can fail.
/// ISTHMUS_INJECT="malloc_device:3,copy_async:1" fails the third malloc_device and the first copy_async;
/// "name:3:oom" (also :lost, :unsupported, :timeout) chooses the kind of failure; at "name:3:interrupt" the process is
/// sent SIGINT, and the call goes on.
std::span<const std::string_view> injectable_calls() noexcept;
/// Replaces what ISTHMUS_INJECT said; counts start anew. Throws std::invalid_argument on an unknown name.
void set_injection(std::string_view specification);

}  // namespace isthmus::device
