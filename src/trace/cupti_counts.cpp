// Counts of a process's kernels, copies, unified memory and API calls, as the CUDA driver reports them through CUPTI.
//
// This is a separate library, which the driver loads into any CUDA program (CUDA_INJECTION64_PATH=libisthmus-cupti.so),
// so that a run without profiling does not contain it. When the process ends, the library writes one JSON object to
// $ISTHMUS_CUPTI_OUTPUT.<pid>.json, which analysis/isthmus/profiles/ reads. Calls that CUPTI refuses are listed in
// "errors", and everything else is still counted: this library must not end the program, or slow it down more than
// counting requires.

#include <cupti.h>
#include <cxxabi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

// Records have the layout of the newest version that the toolkit supports.
#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
using CopyRecord = CUpti_ActivityMemcpy6;
using PeerCopyRecord = CUpti_ActivityMemcpyPtoP4;
using UnifiedRecord = CUpti_ActivityUnifiedMemoryCounter3;
#else
using KernelRecord = CUpti_ActivityKernel8;
using CopyRecord = CUpti_ActivityMemcpy5;
using PeerCopyRecord = CUpti_ActivityMemcpyPtoP4;
using UnifiedRecord = CUpti_ActivityUnifiedMemoryCounter2;
#endif

struct Kernel {
  std::uint64_t count = 0, nanoseconds = 0;
  unsigned registers = 0, local_bytes = 0;
  std::int64_t shared_bytes = 0;
};

struct Moved {
  std::uint64_t count = 0, bytes = 0, nanoseconds = 0;
};

struct Counts {
  std::mutex mutex;
  std::map<std::string, Kernel> kernels;
  std::map<std::string, Moved> copies, migrations;
  std::map<std::string, std::uint64_t> runtime_calls, driver_calls;
  std::uint64_t gpu_page_faults = 0, gpu_fault_groups = 0, cpu_page_faults = 0, thrashing = 0, remote_maps = 0;
  std::uint64_t dropped = 0;
  // Intervals of work on a device: start, end, kind.
  std::vector<std::pair<std::pair<std::uint64_t, std::uint64_t>, int>> busy;
  std::set<std::string> errors;
};

// Never destroyed, because callbacks may still come while the process ends.
Counts& counts() {
  static auto* const all = new Counts;
  return *all;
}

bool check(CUptiResult result, const char* call) {
  if (result == CUPTI_SUCCESS) return true;
  const char* reason = nullptr;
  cuptiGetResultString(result, &reason);
  const std::lock_guard lock(counts().mutex);
  counts().errors.insert(std::string(call) + ": " + (reason != nullptr ? reason : "unknown"));
  return false;
}

std::string demangled(const char* name) {
  if (name == nullptr) return "(unnamed)";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                          std::free);
  return status == 0 && plain ? plain.get() : name;
}

const char* direction(unsigned kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA:
      return "h2d";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH:
      return "d2h";
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH:
      return "h2h";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return "p2p";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOA:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOA:
      return "d2d";
    default:
      return "other";
  }
}

void add(Moved& moved, std::uint64_t bytes, std::uint64_t start, std::uint64_t end) {
  ++moved.count;
  moved.bytes += bytes;
  moved.nanoseconds += end > start ? end - start : 0;
}

constexpr int kKernel = 0, kIn = 1, kOut = 2, kOther = 3;

template <class Record>
void count_copy(const CUpti_Activity* activity) {
  const auto& record = *reinterpret_cast<const Record*>(activity);
  const std::string way = activity->kind == CUPTI_ACTIVITY_KIND_MEMCPY2 ? "p2p" : direction(record.copyKind);
  add(counts().copies[way], record.bytes, record.start, record.end);
  counts().busy.push_back({{record.start, record.end}, way == "h2d" ? kIn : way == "d2h" ? kOut : kOther});
}

void count_unified(const UnifiedRecord& record) {
  auto& all = counts();
  switch (record.counterKind) {
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD:
      return add(all.migrations["h2d"], record.value, record.start, record.end);
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH:
      return add(all.migrations["d2h"], record.value, record.start, record.end);
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD:
      return add(all.migrations["d2d"], record.value, record.start, record.end);
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT:
      ++all.cpu_page_faults;  // each page fault has its own record; the record's value is an address in the program
      return;
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT:
      all.gpu_page_faults += record.value;  // number of page faults on the same page within a group
      ++all.gpu_fault_groups;
      return;
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THRASHING:
      ++all.thrashing;
      return;
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_REMOTE_MAP:
      ++all.remote_maps;
      return;
    default:
      return;
  }
}

void count(const CUpti_Activity* activity) {
  switch (activity->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& record = *reinterpret_cast<const KernelRecord*>(activity);
      auto& kernel = counts().kernels[demangled(record.name)];
      ++kernel.count;
      kernel.nanoseconds += record.end > record.start ? record.end - record.start : 0;
      kernel.registers = record.registersPerThread;
      kernel.local_bytes = record.localMemoryPerThread;
      kernel.shared_bytes = std::int64_t{record.staticSharedMemory} + record.dynamicSharedMemory;
      counts().busy.push_back({{record.start, record.end}, kKernel});
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return count_copy<CopyRecord>(activity);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return count_copy<PeerCopyRecord>(activity);
    case CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER:
      return count_unified(*reinterpret_cast<const UnifiedRecord*>(activity));
    default:
      return;
  }
}

constexpr std::size_t kBufferBytes = 1 << 20, kAlignment = 8;

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, kBufferBytes));
  *size = *buffer != nullptr ? kBufferBytes : 0;
  *most = 0;
}

void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                          std::size_t valid) {
  {
    const std::lock_guard lock(counts().mutex);
    CUpti_Activity* activity = nullptr;
    while (cuptiActivityGetNextRecord(buffer, valid, &activity) == CUPTI_SUCCESS) count(activity);
    std::size_t dropped = 0;
    if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS) counts().dropped += dropped;
  }
  std::free(buffer);
}

/// Enables the counters of unified memory, which is possible only after a context has been created.
void watch_unified_memory() {
  static std::once_flag once;
  std::call_once(once, [] {
    std::vector<CUpti_ActivityUnifiedMemoryCounterConfig> wanted;
    for (const auto kind : {CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD,
                            CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH,
                            CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD,
                            CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT,
                            CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT,
                            CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THRASHING,
                            CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_REMOTE_MAP}) {
      CUpti_ActivityUnifiedMemoryCounterConfig config{};
      config.scope = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_ALL_DEVICES;
      config.kind = kind;
      config.enable = 1;
      wanted.push_back(config);
    }
    if (check(cuptiActivityConfigureUnifiedMemoryCounter(wanted.data(), static_cast<std::uint32_t>(wanted.size())),
              "cuptiActivityConfigureUnifiedMemoryCounter"))
      check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER), "unified memory");
  });
}

void CUPTIAPI called(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
    if (id == CUPTI_CBID_RESOURCE_CONTEXT_CREATED) watch_unified_memory();
    return;
  }
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  if (call.callbackSite != CUPTI_API_ENTER || call.functionName == nullptr) return;
  auto& all = counts();
  const std::lock_guard lock(all.mutex);
  ++(domain == CUPTI_CB_DOMAIN_RUNTIME_API ? all.runtime_calls : all.driver_calls)[call.functionName];
}

// --- writing ---

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      result += escaped;
    } else {
      result += c;
    }
  }
  return result + '"';
}

template <class Map, class Text>
std::string object(const Map& map, Text text) {
  std::string result = "{";
  for (const auto& [name, value] : map) result += (result.size() > 1 ? ", " : "") + quoted(name) + ": " + text(value);
  return result + "}";
}

std::string moved_text(const Moved& moved) {
  return "{\"count\": " + std::to_string(moved.count) + ", \"bytes\": " + std::to_string(moved.bytes) +
         ", \"nanoseconds\": " + std::to_string(moved.nanoseconds) + "}";
}

struct Busy {
  std::uint64_t anything, added, longest;
};

/// Returns, in nanoseconds, the time in which anything ran; the sum of the times in which kernels, copies in, copies
/// out and other work ran; and the longest of these four times.
Busy busy_times(Counts& all) {
  std::sort(all.busy.begin(), all.busy.end());
  const auto covered = [&](int kind) {
    std::uint64_t total = 0, until = 0;
    for (const auto& [span, of] : all.busy) {
      if (kind >= 0 && of != kind) continue;
      const auto begin = std::max(span.first, until);
      if (span.second > begin) {
        total += span.second - begin;
        until = span.second;
      }
    }
    return total;
  };
  const std::uint64_t alone[] = {covered(kKernel), covered(kIn), covered(kOut), covered(kOther)};
  return {covered(-1), std::accumulate(std::begin(alone), std::end(alone), std::uint64_t{0}),
          *std::max_element(std::begin(alone), std::end(alone))};
}

void write() {
  check(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  const char* output = std::getenv("ISTHMUS_CUPTI_OUTPUT");
  const std::string path = std::string(output != nullptr ? output : "cupti") + "." + std::to_string(getpid()) + ".json";
  auto& all = counts();
  const std::lock_guard lock(all.mutex);
  const auto number = [](std::uint64_t value) { return std::to_string(value); };
  std::uint32_t version = 0;
  cuptiGetVersion(&version);
  const auto busy = busy_times(all);
  std::string text = "{\"schema\": \"isthmus.cupti/1\", \"version\": " + std::to_string(version);
  text += ",\n \"kernels\": " + object(all.kernels, [](const Kernel& k) {
            return "{\"count\": " + std::to_string(k.count) + ", \"nanoseconds\": " + std::to_string(k.nanoseconds) +
                   ", \"registers\": " + std::to_string(k.registers) +
                   ", \"shared_bytes\": " + std::to_string(k.shared_bytes) +
                   ", \"local_bytes\": " + std::to_string(k.local_bytes) + "}";
          });
  text += ",\n \"copies\": " + object(all.copies, moved_text);
  text += ",\n \"migrations\": " + object(all.migrations, moved_text);
  text += ",\n \"gpu_page_faults\": " + number(all.gpu_page_faults);
  text += ", \"gpu_fault_groups\": " + number(all.gpu_fault_groups);
  text += ", \"cpu_page_faults\": " + number(all.cpu_page_faults);
  text += ", \"thrashing\": " + number(all.thrashing) + ", \"remote_maps\": " + number(all.remote_maps);
  text += ",\n \"runtime_calls\": " + object(all.runtime_calls, number);
  text += ",\n \"driver_calls\": " + object(all.driver_calls, number);
  text += ",\n \"busy_nanoseconds\": " + number(busy.anything) + ", \"added_nanoseconds\": " + number(busy.added) +
          ", \"longest_nanoseconds\": " + number(busy.longest);
  text += ", \"dropped\": " + number(all.dropped) + ",\n \"errors\": [";
  for (const auto& error : all.errors) text += (text.back() == '[' ? "" : ", ") + quoted(error);
  text += "]}\n";
  // Write to a temporary name until the file is complete, so that readers never see half a file.
  const std::string aside = path + ".part";
  std::FILE* file = std::fopen(aside.c_str(), "w");
  const bool whole = file != nullptr && std::fputs(text.c_str(), file) >= 0;
  if (file == nullptr || std::fclose(file) != 0 || !whole || std::rename(aside.c_str(), path.c_str()) != 0)
    std::fprintf(stderr, "libisthmus-cupti: %s cannot be written\n", path.c_str());
}

}  // namespace

/// Starts counting; the driver calls this entry point when it is initialised in a process.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  static std::once_flag once;
  std::call_once(once, [] {
    counts();
    static CUpti_SubscriberHandle subscriber;
    if (check(cuptiSubscribe(&subscriber, called, nullptr), "cuptiSubscribe")) {
      check(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API), "runtime calls");
      check(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API), "driver calls");
      check(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED),
            "contexts");
    }
    if (check(cuptiActivityRegisterCallbacks(give_buffer, take_buffer), "cuptiActivityRegisterCallbacks")) {
      // KIND_KERNEL is not used, because it serialises kernels.
      check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "kernels");
      check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY), "copies");
      check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY2), "copies between devices");
    }
    std::atexit(write);
  });
  return 1;
}
