// Device, pooled, page-locked and managed memory, copies, prefetch, discard and advice.

#include <map>
#include <string>
#include <vector>

#include "device/api/engine_copies.hpp"
#include "device/api/strided_copy.hpp"
#include "device/gpu/check.hpp"

namespace isthmus::device {

using gpu::handle_of;

MemoryInfo memory_info() {
  injection_point("memory_info");
  MemoryInfo info;
  ISTHMUS_CALL("memory_info", MemGetInfo, &info.free, &info.total);
  return info;
}

void* malloc_device(std::size_t bytes) {
  injection_point("malloc_device");
  void* pointer = nullptr;
  ISTHMUS_CALL("malloc_device", Malloc, &pointer, bytes);
  return pointer;
}

void free_device(void* pointer) {
  injection_point("free_device");
  ISTHMUS_CALL("free_device", Free, pointer);
}

void* malloc_pooled(std::size_t bytes, Stream& stream) {
  injection_point("malloc_pooled");
  void* pointer = nullptr;
  ISTHMUS_CALL("malloc_pooled", MallocAsync, &pointer, bytes, handle_of(stream));
  return pointer;
}

void free_pooled(void* pointer, Stream& stream) {
  injection_point("free_pooled");
  ISTHMUS_CALL("free_pooled", FreeAsync, pointer, handle_of(stream));
}

void set_pool_release_threshold(std::uint64_t bytes) {
  injection_point("set_pool_release_threshold");
  int device = 0;
  ISTHMUS_CALL("set_pool_release_threshold", GetDevice, &device);
  ISTHMUS_GPU(MemPool_t) pool = nullptr;
  ISTHMUS_CALL("set_pool_release_threshold", DeviceGetDefaultMemPool, &pool, device);
  ISTHMUS_CALL("set_pool_release_threshold", MemPoolSetAttribute, pool, ISTHMUS_GPU(MemPoolAttrReleaseThreshold),
               &bytes);
}

void* malloc_pinned(std::size_t bytes, PinnedOptions options) {
  injection_point("malloc_pinned");
  void* pointer = nullptr;
  const unsigned flags =
      (options.mapped ? gpu::host_alloc_mapped : 0u) | (options.write_combined ? gpu::host_alloc_write_combined : 0u);
  gpu::check("malloc_pinned", gpu::host_alloc_name, gpu::host_alloc(&pointer, bytes, flags));
  return pointer;
}

void free_pinned(void* pointer) {
  injection_point("free_pinned");
  gpu::check("free_pinned", gpu::host_free_name, gpu::host_free(pointer));
}

void register_host(void* pointer, std::size_t bytes, PinnedOptions options) {
  injection_point("register_host");
  if (options.write_combined) {
    throw Error(ErrorKind::unsupported, "register_host", "existing memory cannot become write-combined",
                "allocate it with malloc_pinned");
  }
  ISTHMUS_CALL("register_host", HostRegister, pointer, bytes,
               options.mapped ? ISTHMUS_GPU(HostRegisterMapped) : ISTHMUS_GPU(HostRegisterDefault));
}

void unregister_host(void* pointer) {
  injection_point("unregister_host");
  ISTHMUS_CALL("unregister_host", HostUnregister, pointer);
}

void* device_address(void* mapped_host_pointer) {
  injection_point("device_address");
  void* address = nullptr;
  ISTHMUS_CALL("device_address", HostGetDevicePointer, &address, mapped_host_pointer, 0);
  return address;
}

void* malloc_managed(std::size_t bytes) {
  injection_point("malloc_managed");
  void* pointer = nullptr;
  gpu::check("malloc_managed", ISTHMUS_GPU_NAME(MallocManaged), gpu::malloc_managed(&pointer, bytes));
  return pointer;
}

void free_managed(void* pointer) {
  injection_point("free_managed");
  ISTHMUS_CALL("free_managed", Free, pointer);
}

namespace {

/// Returns the modules of static managed variables, keyed by the addresses of the variables.
std::map<void*, gpu::Library>& static_managed_modules() {
  static std::map<void*, gpu::Library> modules;
  return modules;
}

}  // namespace

void* malloc_static_managed(std::size_t bytes) {
  injection_point("malloc_static_managed");
  if constexpr (!gpu::has_libraries)
    throw Error(ErrorKind::unsupported, "malloc_static_managed",
                "this runtime cannot load a module with a managed variable", "use CUDA 12.8 or later");
  // PTX that the compiler generates for `__managed__ unsigned char block[bytes];`. All current GPUs accept this PTX
  // version.
  const std::string module =
      ".version 7.0\n.target sm_52\n.address_size 64\n.visible .global .attribute(.managed) "
      ".align 256 .b8 block[" +
      std::to_string(bytes) + "];\n";
  gpu::Library library{};
  gpu::check("malloc_static_managed", ISTHMUS_GPU_NAME(LibraryLoadData), gpu::load_library(&library, module.c_str()));
  void* pointer = nullptr;
  std::size_t given = 0;
  try {
    gpu::check("malloc_static_managed", ISTHMUS_GPU_NAME(LibraryGetManaged),
               gpu::managed_of(&pointer, &given, library, "block"));
  } catch (...) {
    static_cast<void>(gpu::unload_library(library));
    throw;
  }
  static_managed_modules().emplace(pointer, library);
  return pointer;
}

void free_static_managed(void* pointer) {
  injection_point("free_static_managed");
  const auto found = static_managed_modules().find(pointer);
  if (found == static_managed_modules().end()) return;
  const auto library = found->second;
  static_managed_modules().erase(found);
  gpu::check("free_static_managed", ISTHMUS_GPU_NAME(LibraryUnload), gpu::unload_library(library));
}

void copy(void* destination, const void* source, std::size_t bytes) {
  injection_point("copy");
  // The wait is needed: a pageable source may be staged, a device-to-device copy does not wait at all, and our streams
  // do not synchronise with the default stream, so a kernel could read data that has not arrived yet.
  ISTHMUS_CALL("copy", Memcpy, destination, source, bytes, ISTHMUS_GPU(MemcpyDefault));
  ISTHMUS_CALL("copy", StreamSynchronize, nullptr);
}

void copy_async(void* destination, const void* source, std::size_t bytes, Stream& stream) {
  injection_point("copy_async");
  ISTHMUS_CALL("copy_async", MemcpyAsync, destination, source, bytes, ISTHMUS_GPU(MemcpyDefault), handle_of(stream));
}

void fill_async(void* pointer, std::uint8_t value, std::size_t bytes, Stream& stream) {
  injection_point("fill_async");
  ISTHMUS_CALL("fill_async", MemsetAsync, pointer, value, bytes, handle_of(stream));
}

void copy_strided_async(void* destination, const void* source, const StridedCopy& shape, Stream& stream) {
  injection_point("copy_strided_async");
  const auto [whole, destination_bytes, source_bytes] = strided_extent(shape);
  if (destination_bytes == 0) return;
  if (whole.planes == 1) {
    ISTHMUS_CALL("copy_strided_async", Memcpy2DAsync, destination, whole.destination_pitch, source, whole.source_pitch,
                 whole.row_bytes, whole.rows, ISTHMUS_GPU(MemcpyDefault), handle_of(stream));
    return;
  }
  gpu::Memcpy3D copy{};
  copy.dstPtr = {destination, whole.destination_pitch, whole.row_bytes, whole.destination_rows};
  copy.srcPtr = {const_cast<void*>(source), whole.source_pitch, whole.row_bytes, whole.source_rows};
  copy.extent = {whole.row_bytes, whole.rows, whole.planes};
  copy.kind = ISTHMUS_GPU(MemcpyDefault);
  ISTHMUS_CALL("copy_strided_async", Memcpy3DAsync, &copy, handle_of(stream));
}

namespace {

void require_batch(bool exists, const char* api, const char* since) {
  if (exists) return;
  throw Error(ErrorKind::unsupported, api,
              std::string("the runtime of this build lacks this call (CUDA has it since ") + since + ")",
              "queue the operations one by one");
}

/// Returns the stream's handle. Throws Error (failure) if the stream was moved from, because its null handle would mean
/// the legacy default stream, which does not accept batches.
gpu::NativeStream stream_of_batch(const Stream& stream, const char* api) {
  if (stream.native_handle() != nullptr) return handle_of(stream);
  throw Error(ErrorKind::failure, api, "the stream was moved from, and a batch cannot run on the default stream",
              "pass a live stream");
}

/// Ranges as separate arrays of addresses and sizes, as the runtime requires them.
struct RangeArrays {
  explicit RangeArrays(std::span<const MemoryRange> ranges) {
    for (const auto& [pointer, size] : ranges) {
      if (size == 0) continue;
      pointers.push_back(pointer);
      bytes.push_back(size);
    }
  }
  std::vector<void*> pointers;
  std::vector<std::size_t> bytes;
};

void queue_copies(std::span<const CopyItem> items, Stream& stream, bool by_engines) {
  injection_point("copy_batch_async");
  require_batch(gpu::has_copy_batch, "copy_batch_async", "12.8");
  std::vector<void*> destinations;
  std::vector<const void*> sources;
  std::vector<std::size_t> bytes;
  for (const CopyItem& item : items) {
    if (item.bytes == 0) continue;
    destinations.push_back(item.destination);
    sources.push_back(item.source);
    bytes.push_back(item.bytes);
  }
  if (bytes.empty()) return;
  gpu::check("copy_batch_async", "cudaMemcpyBatchAsync",
             gpu::copy_batch(destinations.data(), sources.data(), bytes.data(), bytes.size(), by_engines,
                             stream_of_batch(stream, "copy_batch_async")));
}

}  // namespace

void copy_batch_async(std::span<const CopyItem> items, Stream& stream) {
  queue_copies(items, stream, false);
}

void copy_batch_by_engines_async(std::span<const CopyItem> items, Stream& stream) {
  queue_copies(items, stream, true);
}

void write_values_async(std::span<const ValueWrite> writes, Stream& stream) {
  injection_point("write_values_async");
  gpu::check("write_values_async", gpu::write_values_name,
             gpu::write_values(writes, stream_of_batch(stream, "write_values_async")));
}

namespace {

/// Queues a batch; `call` receives the ranges as arrays, their number, and the stream.
template <class Call>
void queue_batch(const char* api, const char* vendor_call, std::span<const MemoryRange> ranges, Stream& stream,
                 Call call) {
  injection_point(api);
  require_batch(gpu::has_managed_batches, api, "13.0");
  RangeArrays all(ranges);
  if (all.bytes.empty()) return;
  gpu::check(api, vendor_call,
             call(all.pointers.data(), all.bytes.data(), all.bytes.size(), stream_of_batch(stream, api)));
}

}  // namespace

void prefetch_batch(std::span<const MemoryRange> ranges, Location to, Stream& stream) {
  queue_batch("prefetch_batch", "cudaMemPrefetchBatchAsync", ranges, stream,
              [to](void** pointers, std::size_t* bytes, std::size_t count, gpu::NativeStream on) {
                return gpu::prefetch_batch(pointers, bytes, count, to, on);
              });
}

void discard_batch(std::span<const MemoryRange> ranges, Stream& stream) {
  queue_batch("discard_batch", "cudaMemDiscardBatchAsync", ranges, stream, gpu::discard_batch);
}

void discard_and_prefetch_batch(std::span<const MemoryRange> ranges, Location to, Stream& stream) {
  queue_batch("discard_and_prefetch_batch", "cudaMemDiscardAndPrefetchBatchAsync", ranges, stream,
              [to](void** pointers, std::size_t* bytes, std::size_t count, gpu::NativeStream on) {
                return gpu::discard_and_prefetch_batch(pointers, bytes, count, to, on);
              });
}

namespace {

void require_known_place(const char* api, Location place) {
  if (place.device < 0 && place.numa_node >= 0 && !gpu::can_place_on_numa_node) {
    throw Error(ErrorKind::unsupported, api, "this runtime cannot name a NUMA node of the host",
                "use CUDA 12.2 or later, or Location::host() without a node");
  }
}

}  // namespace

void prefetch(void* pointer, std::size_t bytes, Location to, Stream& stream) {
  injection_point("prefetch");
  require_known_place("prefetch", to);
  gpu::check("prefetch", ISTHMUS_GPU_NAME(MemPrefetchAsync), gpu::prefetch(pointer, bytes, to, handle_of(stream)));
}

void advise(void* pointer, std::size_t bytes, Advice advice, Location location) {
  injection_point("advise");
  require_known_place("advise", location);
  auto native_advice = ISTHMUS_GPU(MemAdviseSetReadMostly);
  if (advice == Advice::preferred_location) native_advice = ISTHMUS_GPU(MemAdviseSetPreferredLocation);
  if (advice == Advice::accessed_by) native_advice = ISTHMUS_GPU(MemAdviseSetAccessedBy);
  gpu::check("advise", ISTHMUS_GPU_NAME(MemAdvise), gpu::advise(pointer, bytes, native_advice, location));
}

PointerInfo pointer_info(const void* pointer) {
  injection_point("pointer_info");
  gpu::PointerAttributes attributes{};
  const auto status = ISTHMUS_GPU(PointerGetAttributes)(&attributes, pointer);
  PointerInfo info;
  if (status == ISTHMUS_GPU(ErrorInvalidValue)) {  // HIP's status for unknown pointers
    static_cast<void>(ISTHMUS_GPU(GetLastError)());
    return info;
  }
  gpu::check("pointer_info", ISTHMUS_GPU_NAME(PointerGetAttributes), status);
  info.kind = gpu::pointer_kind(attributes);
  if (info.kind == PointerKind::unregistered) return info;
  info.device = info.kind == PointerKind::pinned ? -1 : attributes.device;
  info.mapped = info.kind != PointerKind::device && attributes.devicePointer != nullptr;
  return info;
}

std::optional<int> last_prefetch(const void* pointer, std::size_t bytes) {
  injection_point("last_prefetch");
  int location = ISTHMUS_GPU(InvalidDeviceId);
  ISTHMUS_CALL("last_prefetch", MemRangeGetAttribute, &location, sizeof location,
               ISTHMUS_GPU(MemRangeAttributeLastPrefetchLocation), pointer, bytes);
  if (location == ISTHMUS_GPU(CpuDeviceId)) return -1;
  if (location == ISTHMUS_GPU(InvalidDeviceId)) {
    return gpu::last_prefetch_was_host_node(pointer, bytes) ? std::optional<int>(-1) : std::nullopt;
  }
  return location;
}

}  // namespace isthmus::device
