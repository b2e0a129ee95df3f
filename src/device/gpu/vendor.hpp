#pragma once

// Common names for two runtimes: ISTHMUS_GPU(Malloc) is cudaMalloc or hipMalloc. This file handles all differences
// between the vendors and between versions of one vendor's runtime; the other files of this folder have no #if.

#if defined(ISTHMUS_BACKEND_CUDA)
#include <cuda.h>
#include <cuda_runtime_api.h>
#define ISTHMUS_GPU(name) cuda##name
#define ISTHMUS_GPU_NAME(name) "cuda" #name
#define ISTHMUS_DRIVER_NAME(name) "cu" #name  // for functions of the driver in CUDA and of the runtime in HIP
#elif defined(ISTHMUS_BACKEND_HIP)
#include <hip/hip_runtime_api.h>
#define ISTHMUS_GPU(name) hip##name
#define ISTHMUS_GPU_NAME(name) "hip" #name
#define ISTHMUS_DRIVER_NAME(name) "hip" #name
#else
#error "src/device/gpu is built for CUDA or HIP only"
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/api/device.hpp"

namespace isthmus::device::gpu {

using Status = ISTHMUS_GPU(Error_t);
using NativeStream = ISTHMUS_GPU(Stream_t);
using NativeEvent = ISTHMUS_GPU(Event_t);
using NativeGraph = ISTHMUS_GPU(Graph_t);
using NativeExecutableGraph = ISTHMUS_GPU(GraphExec_t);
using NativeFunctionAttributes = ISTHMUS_GPU(FuncAttributes);
#if defined(ISTHMUS_BACKEND_CUDA)
using DeviceProperties = cudaDeviceProp;
using Memcpy3D = cudaMemcpy3DParms;
#else
using DeviceProperties = hipDeviceProp_t;
using Memcpy3D = hipMemcpy3DParms;
#endif

inline NativeStream handle_of(const Stream& stream) {
  return static_cast<NativeStream>(stream.native_handle());
}
inline NativeEvent handle_of(const Event& event) {
  return static_cast<NativeEvent>(event.native_handle());
}
inline NativeGraph handle_of(const Graph& graph) {
  return static_cast<NativeGraph>(graph.native_handle());
}
inline NativeExecutableGraph handle_of(const ExecutableGraph& graph) {
  return static_cast<NativeExecutableGraph>(graph.native_handle());
}

// --- device attributes, under one name -------------------------------------------------------------

#if defined(ISTHMUS_BACKEND_CUDA)
using Attribute = cudaDeviceAttr;
using PeerAttribute = cudaDeviceP2PAttr;
#define ISTHMUS_ATTRIBUTE(cuda, hip) cudaDevAttr##cuda
#define ISTHMUS_PEER_ATTRIBUTE(name) cudaDevP2PAttr##name
#else
using Attribute = hipDeviceAttribute_t;
using PeerAttribute = hipDeviceP2PAttr;
#define ISTHMUS_ATTRIBUTE(cuda, hip) hipDeviceAttribute##hip
#define ISTHMUS_PEER_ATTRIBUTE(name) hipDevP2PAttr##name
#endif
namespace attribute {
inline constexpr Attribute warp_size = ISTHMUS_ATTRIBUTE(WarpSize, WarpSize);
inline constexpr Attribute multiprocessors = ISTHMUS_ATTRIBUTE(MultiProcessorCount, MultiprocessorCount);
inline constexpr Attribute max_threads_per_block = ISTHMUS_ATTRIBUTE(MaxThreadsPerBlock, MaxThreadsPerBlock);
inline constexpr Attribute max_threads_per_multiprocessor =
    ISTHMUS_ATTRIBUTE(MaxThreadsPerMultiProcessor, MaxThreadsPerMultiProcessor);
inline constexpr Attribute shared_per_block = ISTHMUS_ATTRIBUTE(MaxSharedMemoryPerBlock, MaxSharedMemoryPerBlock);
inline constexpr Attribute shared_per_block_optin =
    ISTHMUS_ATTRIBUTE(MaxSharedMemoryPerBlockOptin, MaxSharedMemoryPerBlock);  // HIP has no opt-in
inline constexpr Attribute shared_per_multiprocessor =
    ISTHMUS_ATTRIBUTE(MaxSharedMemoryPerMultiprocessor, MaxSharedMemoryPerMultiprocessor);
inline constexpr Attribute l2_bytes = ISTHMUS_ATTRIBUTE(L2CacheSize, L2CacheSize);
inline constexpr Attribute clock_khz = ISTHMUS_ATTRIBUTE(ClockRate, ClockRate);
inline constexpr Attribute memory_clock_khz = ISTHMUS_ATTRIBUTE(MemoryClockRate, MemoryClockRate);
inline constexpr Attribute memory_bus_bits = ISTHMUS_ATTRIBUTE(GlobalMemoryBusWidth, MemoryBusWidth);
inline constexpr Attribute integrated = ISTHMUS_ATTRIBUTE(Integrated, Integrated);
inline constexpr Attribute managed = ISTHMUS_ATTRIBUTE(ManagedMemory, ManagedMemory);
inline constexpr Attribute concurrent_managed = ISTHMUS_ATTRIBUTE(ConcurrentManagedAccess, ConcurrentManagedAccess);
inline constexpr Attribute pageable_access = ISTHMUS_ATTRIBUTE(PageableMemoryAccess, PageableMemoryAccess);
inline constexpr Attribute host_native_atomics =
    ISTHMUS_ATTRIBUTE(HostNativeAtomicSupported, HostNativeAtomicSupported);
inline constexpr Attribute memory_pools = ISTHMUS_ATTRIBUTE(MemoryPoolsSupported, MemoryPoolsSupported);
inline constexpr Attribute can_map_host = ISTHMUS_ATTRIBUTE(CanMapHostMemory, CanMapHostMemory);
inline constexpr Attribute cooperative = ISTHMUS_ATTRIBUTE(CooperativeLaunch, CooperativeLaunch);
inline constexpr Attribute capability_major = ISTHMUS_ATTRIBUTE(ComputeCapabilityMajor, ComputeCapabilityMajor);
inline constexpr Attribute capability_minor = ISTHMUS_ATTRIBUTE(ComputeCapabilityMinor, ComputeCapabilityMinor);
inline constexpr Attribute grid_x = ISTHMUS_ATTRIBUTE(MaxGridDimX, MaxGridDimX);
inline constexpr Attribute grid_y = ISTHMUS_ATTRIBUTE(MaxGridDimY, MaxGridDimY);
inline constexpr Attribute grid_z = ISTHMUS_ATTRIBUTE(MaxGridDimZ, MaxGridDimZ);
inline constexpr Attribute block_x = ISTHMUS_ATTRIBUTE(MaxBlockDimX, MaxBlockDimX);
inline constexpr Attribute block_y = ISTHMUS_ATTRIBUTE(MaxBlockDimY, MaxBlockDimY);
inline constexpr Attribute block_z = ISTHMUS_ATTRIBUTE(MaxBlockDimZ, MaxBlockDimZ);
inline constexpr Attribute copy_engines = ISTHMUS_ATTRIBUTE(AsyncEngineCount, AsyncEngineCount);
inline constexpr PeerAttribute peer_native_atomics = ISTHMUS_PEER_ATTRIBUTE(NativeAtomicSupported);
}  // namespace attribute
#undef ISTHMUS_ATTRIBUTE
#undef ISTHMUS_PEER_ATTRIBUTE

// --- calls whose name or shape differs -------------------------------------------------------------

#if defined(ISTHMUS_BACKEND_CUDA)

inline constexpr Backend this_backend = Backend::cuda;
/// Resolution of event times: half a microsecond (cudaEventElapsedTime).
inline constexpr double event_tick = 0.5e-6;
/// Environment variable and value that make the driver load all kernels when a context is created; it reads them when
/// it initialises.
inline constexpr const char* eager_loading[2] = {"CUDA_MODULE_LOADING", "EAGER"};

inline Status host_alloc(void** pointer, std::size_t bytes, unsigned flags) {
  return cudaHostAlloc(pointer, bytes, flags);
}
inline Status host_free(void* pointer) {
  return cudaFreeHost(pointer);
}
inline constexpr unsigned host_alloc_mapped = cudaHostAllocMapped;
inline constexpr unsigned host_alloc_write_combined = cudaHostAllocWriteCombined;
inline constexpr const char* host_alloc_name = "cudaHostAlloc";
inline constexpr const char* host_free_name = "cudaFreeHost";

inline Status malloc_managed(void** pointer, std::size_t bytes) {
  return cudaMallocManaged(pointer, bytes, cudaMemAttachGlobal);
}

// CUDA 12.2 added locations that can be a NUMA node of the host, in functions ending in _v2; in CUDA 13, this is the
// only form.
inline constexpr bool can_place_on_numa_node = CUDART_VERSION >= 12020;
#if CUDART_VERSION >= 12020
inline cudaMemLocation location(Location where) {
  cudaMemLocation result{};
  if (where.device >= 0) {
    result.type = cudaMemLocationTypeDevice;
    result.id = where.device;
  } else if (where.numa_node >= 0) {
    result.type = cudaMemLocationTypeHostNuma;
    result.id = where.numa_node;
  } else {
    result.type = cudaMemLocationTypeHost;
  }
  return result;
}
#endif
#if CUDART_VERSION >= 13000
inline Status prefetch(const void* pointer, std::size_t bytes, Location to, NativeStream stream) {
  return cudaMemPrefetchAsync(pointer, bytes, location(to), 0, stream);
}
inline Status advise(const void* pointer, std::size_t bytes, cudaMemoryAdvise advice, Location where) {
  return cudaMemAdvise(pointer, bytes, advice, location(where));
}
#elif CUDART_VERSION >= 12020
inline Status prefetch(const void* pointer, std::size_t bytes, Location to, NativeStream stream) {
  return cudaMemPrefetchAsync_v2(pointer, bytes, location(to), 0, stream);
}
inline Status advise(const void* pointer, std::size_t bytes, cudaMemoryAdvise advice, Location where) {
  return cudaMemAdvise_v2(pointer, bytes, advice, location(where));
}
#else
inline Status prefetch(const void* pointer, std::size_t bytes, Location to, NativeStream stream) {
  return cudaMemPrefetchAsync(pointer, bytes, to.device >= 0 ? to.device : cudaCpuDeviceId, stream);
}
inline Status advise(const void* pointer, std::size_t bytes, cudaMemoryAdvise advice, Location where) {
  return cudaMemAdvise(pointer, bytes, advice, where.device >= 0 ? where.device : cudaCpuDeviceId);
}
#endif

// Modules loaded at run time for the variables that they contain.
#if CUDART_VERSION >= 12080
inline constexpr bool has_libraries = true;
using Library = cudaLibrary_t;
inline Status load_library(Library* library, const char* code) {
  return cudaLibraryLoadData(library, code, nullptr, nullptr, 0, nullptr, nullptr, 0);
}
inline Status managed_of(void** pointer, std::size_t* bytes, Library library, const char* name) {
  return cudaLibraryGetManaged(pointer, bytes, library, name);
}
inline Status unload_library(Library library) {
  return cudaLibraryUnload(library);
}

// CUDA 12.8 added batches of copies. CUDA 13.0 shortened their signature and added batches for managed memory.
inline constexpr bool has_copy_batch = true;
inline Status copy_batch(void** destinations, const void** sources, std::size_t* bytes, std::size_t count,
                         bool by_engines, NativeStream stream) {
  cudaMemcpyAttributes attributes{};  // one set of attributes for all copies
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  if (by_engines) attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
  std::size_t first = 0;
#if CUDART_VERSION >= 13000
  return cudaMemcpyBatchAsync(destinations, sources, bytes, count, &attributes, &first, 1, stream);
#else
  std::size_t failed = 0;
  return cudaMemcpyBatchAsync(destinations, const_cast<void**>(sources), bytes, count, &attributes, &first, 1, &failed,
                              stream);
#endif
}
#endif
#if CUDART_VERSION >= 13000
inline constexpr bool has_managed_batches = true;
inline Status prefetch_batch(void** pointers, std::size_t* bytes, std::size_t count, Location to, NativeStream stream) {
  cudaMemLocation place = location(to);
  std::size_t first = 0;
  return cudaMemPrefetchBatchAsync(pointers, bytes, count, &place, &first, 1, 0, stream);
}
inline Status discard_batch(void** pointers, std::size_t* bytes, std::size_t count, NativeStream stream) {
  return cudaMemDiscardBatchAsync(pointers, bytes, count, 0, stream);
}
inline Status discard_and_prefetch_batch(void** pointers, std::size_t* bytes, std::size_t count, Location to,
                                         NativeStream stream) {
  cudaMemLocation place = location(to);
  std::size_t first = 0;
  return cudaMemDiscardAndPrefetchBatchAsync(pointers, bytes, count, &place, &first, 1, 0, stream);
}
#endif

/// Returns true if the last prefetch went to a NUMA node of the host. Such a node has no device number, and newer
/// runtimes report it by a separate attribute.
inline bool last_prefetch_was_host_node([[maybe_unused]] const void* pointer, [[maybe_unused]] std::size_t bytes) {
#if CUDART_VERSION >= 12020
  cudaMemLocationType type = cudaMemLocationTypeInvalid;
  const auto status =
      cudaMemRangeGetAttribute(&type, sizeof type, cudaMemRangeAttributeLastPrefetchLocationType, pointer, bytes);
  if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
  return status == cudaSuccess && (type == cudaMemLocationTypeHost || type == cudaMemLocationTypeHostNuma ||
                                   type == cudaMemLocationTypeHostNumaCurrent);
#else
  return false;
#endif
}

// Virtual memory management and stream writes are functions of the driver. The runtime returns the addresses of the
// driver's functions, so that the program is not linked to the driver. A CUresult is treated as the runtime's status
// with the same number, so that both are handled in the same way.
template <class Function>
Status driver_function(const char* name, Function& function) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  const auto status = cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &found);
#else
  const auto status = cudaGetDriverEntryPoint(name, &address, cudaEnableDefault, &found);
#endif
  if (status != cudaSuccess) return status;
  if (found != cudaDriverEntryPointSuccess || address == nullptr) return cudaErrorNotSupported;
  function = reinterpret_cast<Function>(address);
  return cudaSuccess;
}
struct DriverFunctions {
  Status status = cudaFree(nullptr);  ///< status of the lookup; the driver must be initialised first
#define ISTHMUS_FOUND(name) decltype(&cu##name) name = find<decltype(name)>("cu" #name)
  ISTHMUS_FOUND(DeviceGetAttribute);
  ISTHMUS_FOUND(MemGetAllocationGranularity);
  ISTHMUS_FOUND(MemAddressReserve);
  ISTHMUS_FOUND(MemAddressFree);
  ISTHMUS_FOUND(MemCreate);
  ISTHMUS_FOUND(MemRelease);
  ISTHMUS_FOUND(MemMap);
  ISTHMUS_FOUND(MemUnmap);
  ISTHMUS_FOUND(MemSetAccess);
  ISTHMUS_FOUND(StreamBatchMemOp);
#undef ISTHMUS_FOUND

 private:
  template <class Function>
  Function find(const char* name) {
    Function function = nullptr;
    if (status == cudaSuccess) status = driver_function(name, function);
    return function;
  }
};
inline const DriverFunctions& driver_functions() {
  static const DriverFunctions found;
  return found;
}
#define ISTHMUS_DRIVER(name) &::isthmus::device::gpu::DriverFunctions::name
template <class Function, class... Arguments>
Status driver_call(Function DriverFunctions::* function, Arguments... arguments) {
  const DriverFunctions& driver = driver_functions();
  return driver.status != cudaSuccess ? driver.status : static_cast<Status>((driver.*function)(arguments...));
}
using Address = CUdeviceptr;
using MemoryHandle = CUmemGenericAllocationHandle;
inline Address address_of(void* pointer) {
  return reinterpret_cast<Address>(pointer);
}
inline constexpr auto least_granularity = CU_MEM_ALLOC_GRANULARITY_MINIMUM;
inline CUmemAllocationProp memory_of(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}
inline CUmemAccessDesc access_of(int device, bool allowed) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = allowed ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return access;
}
inline bool has_virtual_memory(int device) {
  int has = 0;
  const auto status = driver_call(ISTHMUS_DRIVER(DeviceGetAttribute), &has,
                                  CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device);
  return status == cudaSuccess && has != 0;
}

/// Name of the call that writes values. The driver makes earlier writes visible before each value (fence).
inline constexpr const char* write_values_name = "cuStreamBatchMemOp";
inline Status write_values(std::span<const ValueWrite> writes, NativeStream stream) {
  constexpr std::size_t most = 255;  // maximum number of writes per call
  std::vector<CUstreamBatchMemOpParams> operations(writes.size());
  for (std::size_t i = 0; i < writes.size(); ++i) {
    auto& write = operations[i].writeValue;
    write.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    write.address = address_of(writes[i].word);
    write.value = writes[i].value;
    write.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  }
  for (std::size_t i = 0; i < operations.size(); i += most) {
    const auto count = static_cast<unsigned>(std::min(most, operations.size() - i));
    const auto status = driver_call(ISTHMUS_DRIVER(StreamBatchMemOp), stream, count, operations.data() + i, 0u);
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

inline PointerKind pointer_kind(const cudaPointerAttributes& attributes) {
  switch (attributes.type) {
    case cudaMemoryTypeHost:
      return PointerKind::pinned;
    case cudaMemoryTypeDevice:
      return PointerKind::device;
    case cudaMemoryTypeManaged:
      return PointerKind::managed;
    default:
      return PointerKind::unregistered;
  }
}
using PointerAttributes = cudaPointerAttributes;

inline Status set_carveout(const void* function, int percent) {
  return cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout, percent);
}

/// True if kernels must request dynamic shared memory above 48 KB in advance.
inline constexpr bool shared_needs_opt_in = true;

inline Status device_uuid(int index, unsigned char (&bytes)[16]) {
  cudaDeviceProp properties{};
  const auto status = cudaGetDeviceProperties(&properties, index);
  for (int i = 0; i < 16; ++i) bytes[i] = static_cast<unsigned char>(properties.uuid.bytes[i]);
  return status;
}
/// Returns the architecture, such as "sm_90".
inline std::string architecture(const cudaDeviceProp& properties) {
  return "sm_" + std::to_string(properties.major * 10 + properties.minor);
}
/// Returns the number of FP32 lanes per multiprocessor, from NVIDIA's programming guide; nullopt for chips that it does
/// not list.
inline std::optional<int> fp32_lanes(const cudaDeviceProp& properties) {
  switch (properties.major * 10 + properties.minor) {
    case 60:
    case 70:
    case 72:
    case 75:
    case 80:
      return 64;
    case 61:
    case 62:
    case 86:
    case 87:
    case 89:
    case 90:
    case 100:
    case 101:
    case 103:
    case 110:
    case 120:
    case 121:
      return 128;
    default:
      return std::nullopt;
  }
}
/// Returns the number of transfers per cycle of the reported memory clock.
inline double memory_transfers_per_clock(const cudaDeviceProp&) {
  return 2;
}
inline int driver_api_version(const char*& unit) {
  unit = "CUDA ";
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}
inline std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Returns the capability that kernels were compiled for: the virtual architecture decides which code paths of a kernel
/// exist, no matter which chip runs it.
inline int compiled_capability(const cudaFuncAttributes& attributes) {
  return attributes.ptxVersion;
}
inline bool compiled_async_copy(int capability) {
  return capability >= 80;
}
inline bool compiled_bulk_copy(int capability) {
  return capability >= 90;
}

#else  // HIP

inline constexpr Backend this_backend = Backend::hip;
/// Resolution of event times according to the HIP reference on hipEventElapsedTime; not measured on any chip.
inline constexpr double event_tick = 1e-6;
inline constexpr const char* eager_loading[2] = {"HIP_ENABLE_DEFERRED_LOADING", "0"};

inline Status host_alloc(void** pointer, std::size_t bytes, unsigned flags) {
  return hipHostMalloc(pointer, bytes, flags);
}
inline Status host_free(void* pointer) {
  return hipHostFree(pointer);
}
inline constexpr unsigned host_alloc_mapped = hipHostMallocMapped;
inline constexpr unsigned host_alloc_write_combined = hipHostMallocWriteCombined;
inline constexpr const char* host_alloc_name = "hipHostMalloc";
inline constexpr const char* host_free_name = "hipHostFree";

inline Status malloc_managed(void** pointer, std::size_t bytes) {
  return hipMallocManaged(pointer, bytes, hipMemAttachGlobal);
}

inline constexpr bool can_place_on_numa_node = false;
inline Status prefetch(const void* pointer, std::size_t bytes, Location to, NativeStream stream) {
  return hipMemPrefetchAsync(pointer, bytes, to.device >= 0 ? to.device : hipCpuDeviceId, stream);
}
inline Status advise(const void* pointer, std::size_t bytes, hipMemoryAdvise advice, Location where) {
  return hipMemAdvise(pointer, bytes, advice, where.device >= 0 ? where.device : hipCpuDeviceId);
}
inline bool last_prefetch_was_host_node(const void*, std::size_t) {
  return false;
}

#define ISTHMUS_DRIVER(name) &hip##name
template <class Function, class... Arguments>
Status driver_call(Function function, Arguments... arguments) {
  return function(arguments...);
}
using Address = void*;
using MemoryHandle = hipMemGenericAllocationHandle_t;
inline Address address_of(void* pointer) {
  return pointer;
}
inline constexpr auto least_granularity = hipMemAllocationGranularityMinimum;
inline hipMemAllocationProp memory_of(int device) {
  hipMemAllocationProp properties{};
  properties.type = hipMemAllocationTypePinned;
  properties.location.type = hipMemLocationTypeDevice;
  properties.location.id = device;
  return properties;
}
inline hipMemAccessDesc access_of(int device, bool allowed) {
  hipMemAccessDesc access{};
  access.location.type = hipMemLocationTypeDevice;
  access.location.id = device;
  access.flags = allowed ? hipMemAccessFlagsProtReadWrite : hipMemAccessFlagsProtNone;
  return access;
}
inline bool has_virtual_memory(int device) {
#if HIP_VERSION_MAJOR >= 6
  int has = 0;
  const auto status = hipDeviceGetAttribute(&has, hipDeviceAttributeVirtualMemoryManagementSupported, device);
#else
  std::size_t has = 0;  // older runtimes do not have the attribute; only devices with the feature report a granularity
  const auto properties = memory_of(device);
  const auto status = hipMemGetAllocationGranularity(&has, &properties, least_granularity);
#endif
  if (status != hipSuccess) static_cast<void>(hipGetLastError());
  return status == hipSuccess && has != 0;
}

inline constexpr const char* write_values_name = "hipStreamWriteValue32";
inline Status write_values(std::span<const ValueWrite> writes, NativeStream stream) {
  for (const auto& [word, value] : writes) {
    if (const auto status = hipStreamWriteValue32(stream, word, value, 0); status != hipSuccess) return status;
  }
  return hipSuccess;
}

using PointerAttributes = hipPointerAttribute_t;
inline PointerKind pointer_kind(const hipPointerAttribute_t& attributes) {
  if (attributes.isManaged) return PointerKind::managed;
#if HIP_VERSION_MAJOR >= 6
  switch (attributes.type) {
    case hipMemoryTypeManaged:
      return PointerKind::managed;
#else
  switch (attributes.memoryType) {
#endif
    case hipMemoryTypeHost:
      return PointerKind::pinned;
    case hipMemoryTypeDevice:
      return PointerKind::device;
    default:
      return PointerKind::unregistered;
  }
}

/// Does nothing, because LDS and L1 are separate memories on AMD GPUs.
inline Status set_carveout(const void*, int) {
  return hipSuccess;
}

inline constexpr bool shared_needs_opt_in = false;

inline Status device_uuid(int index, unsigned char (&bytes)[16]) {
  hipUUID uuid{};
  const auto status = hipDeviceGetUuid(&uuid, index);
  for (int i = 0; i < 16; ++i) bytes[i] = static_cast<unsigned char>(uuid.bytes[i]);
  return status;
}
/// Returns the architecture, such as "gfx942", without the feature suffix of "gfx942:sramecc+:xnack-".
inline std::string architecture(const hipDeviceProp_t& properties) {
  const std::string full = properties.gcnArchName;
  return full.substr(0, full.find(':'));
}
/// Returns the number of FP32 lanes per compute unit, including packed arithmetic, from AMD's CDNA papers; nullopt for
/// other chips.
inline std::optional<int> fp32_lanes(const hipDeviceProp_t& properties) {
  const std::string arch = architecture(properties);
  if (arch == "gfx906" || arch == "gfx908") return 64;
  if (arch == "gfx90a" || arch == "gfx940" || arch == "gfx941" || arch == "gfx942" || arch == "gfx950") return 128;
  return std::nullopt;
}
/// Returns the number of transfers per cycle of the reported memory clock. CDNA3 (HBM3) reports a quarter of the data
/// rate, older chips report half of it.
inline double memory_transfers_per_clock(const hipDeviceProp_t& properties) {
  return architecture(properties).starts_with("gfx94") ? 4 : 2;
}
inline int driver_api_version(const char*& unit) {
  unit = "HIP ";
  int version = 0;
  return hipDriverGetVersion(&version) == hipSuccess ? version : 0;
}
inline std::string version_text(int version) {
  return std::to_string(version / 10000000) + "." + std::to_string(version / 100000 % 100) + "." +
         std::to_string(version % 100000);
}

inline int compiled_capability(const hipFuncAttributes&) {
  return 0;
}
inline bool compiled_async_copy(int) {
  return false;
}
inline bool compiled_bulk_copy(int) {
  return false;
}

#endif

// Placeholders for features that this runtime lacks. They compile but are never called, because `has_…` is checked
// first.
inline constexpr auto not_there = [](const auto&...) { return ISTHMUS_GPU(ErrorNotSupported); };
#if !defined(CUDART_VERSION) || CUDART_VERSION < 12080
inline constexpr bool has_libraries = false, has_copy_batch = false;
using Library = void*;
inline constexpr auto load_library = not_there, managed_of = not_there, unload_library = not_there,
                      copy_batch = not_there;
#endif
#if !defined(CUDART_VERSION) || CUDART_VERSION < 13000
inline constexpr bool has_managed_batches = false;
inline constexpr auto prefetch_batch = not_there, discard_batch = not_there, discard_and_prefetch_batch = not_there;
#endif

}  // namespace isthmus::device::gpu
