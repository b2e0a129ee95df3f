// Fake libnvidia-ml.so for telemetry_test.cpp and link_test.cpp: it has one GPU that supports every query, one that
// supports none, one MIG instance, and some GPUs that report only their links. Written from NVML's documented
// prototypes, so that a wrong struct layout in src/device/telemetry shows as a wrong number.

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <iterator>

namespace {
/// Destinations of an NVLink. Larger values are the PCI bus of a GPU. `told_switch` is a switch reported as such;
/// `other_device` is a PCI device other than a GPU, as old drivers report a switch; `untold` is not reported, as in a
/// virtual machine.
constexpr unsigned inactive = 0, told_switch = 1, other_device = 2, untold = 3;
struct Gpu {
  const char* uuid;
  unsigned bus;
  unsigned generation = 0, width = 0;
  unsigned link_rate = 0;  // MB/s
  unsigned links[18] = {};
  int fabric = 0;  // number of the NVLink fabric, which connects its GPUs; 0 if not reported
  unsigned chip_to_chip_links = 0;
};
Gpu complete{"GPU-complete", 0x1b}, mute{"GPU-mute", 0x1c}, instance{"MIG-instance", 0x1d}, failing{"GPU-xid", 0x1e};
Gpu leaving{"GPU-leaving", 0x1f}, crowded{"GPU-crowded", 0x20};
Gpu for_links[] = {
    {"GPU-left", 0x41, 5, 16, 25000, {0x42, 0x42, 0x43}},
    {"GPU-right", 0x42, 5, 16, 25000, {0x41, inactive, 0x41}},
    {"GPU-third", 0x43, 4, 8, 25000, {0x41}},
    {"GPU-switched", 0x51, 5, 16, 26562, {told_switch, told_switch, told_switch, told_switch}, 1},
    {"GPU-switched-older", 0x52, 5, 16, 26562, {other_device, other_device, other_device}, 1},
    {"GPU-switched-apart", 0x53, 5, 16, 26562, {told_switch, told_switch, told_switch, told_switch}, 2},
    {"GPU-virtual", 0x61, 5, 16, 26562, {untold, untold, untold}, 3},
    {"GPU-virtual-peer", 0x62, 5, 16, 26562, {untold, untold}, 3},
    {"GPU-rateless", 0x63, 5, 16, 0, {told_switch}, 4},
    {"GPU-rateless-peer", 0x64, 5, 16, 0, {told_switch}, 4},
    {"GPU-superchip", 0x71, 5, 16, 0, {}, 0, 10},
    {"GPU-superchip-rateless", 0x72, 5, 16, 0, {}, 0, 1},
};
bool tells_links(const Gpu* gpu) {
  return gpu >= std::begin(for_links) && gpu < std::end(for_links);
}
constexpr int success = 0, invalid = 2, not_supported = 3, not_found = 6, insufficient_size = 7, lost = 15;

struct Value {
  unsigned id, scope;
  long long timestamp, latency;
  int type, status;
  unsigned long long value;
};
struct Pci {
  char legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char id[32];
};
void tell_place(Pci* pci, unsigned bus) {
  *pci = {};
  pci->bus = bus;
  std::snprintf(pci->id, sizeof pci->id, "00000000:%02X:00.0", bus);
}
struct Process {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};
int answer(const Gpu* gpu, unsigned* out, unsigned value) {
  if (gpu != &complete) return not_supported;
  *out = value;
  return success;
}
}  // namespace

extern "C" {
int nvmlInit_v2() {
  return success;
}
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::snprintf(text, length, "580.159.04");
  return success;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, Gpu** gpu) {
  for (Gpu* one : {&complete, &mute, &instance, &failing, &leaving, &crowded}) {
    if (std::strcmp(uuid, one->uuid) == 0) return *gpu = one, success;
  }
  for (Gpu& one : for_links) {
    if (std::strcmp(uuid, one.uuid) == 0) return *gpu = &one, success;
  }
  return not_found;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, Gpu** gpu) {
  if (std::strcmp(bus, "0000:1b:00.0") == 0) return *gpu = &complete, success;
  for (Gpu& one : for_links) {
    Pci pci;
    tell_place(&pci, one.bus);
    if (std::strcmp(bus, pci.id) == 0) return *gpu = &one, success;
  }
  return not_found;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Gpu* gpu, Gpu** parent) {
  if (gpu != &instance) return invalid;
  *parent = &complete;
  return success;
}
int nvmlDeviceGetCurrPcieLinkGeneration(Gpu* gpu, unsigned* out) {
  if (tells_links(gpu)) return *out = gpu->generation, success;
  return answer(gpu, out, 5);
}
int nvmlDeviceGetCurrPcieLinkWidth(Gpu* gpu, unsigned* out) {
  if (tells_links(gpu)) return *out = gpu->width, success;
  return answer(gpu, out, 8);
}
int nvmlDeviceGetMaxPcieLinkGeneration(Gpu* gpu, unsigned* out) {
  return answer(gpu, out, 6);
}
int nvmlDeviceGetMaxPcieLinkWidth(Gpu* gpu, unsigned* out) {
  return answer(gpu, out, 16);
}
int nvmlDeviceGetClockInfo(Gpu* gpu, unsigned type, unsigned* out) {
  return answer(gpu, out, type == 1 ? 1980 : 3201);
}
int nvmlDeviceGetMaxClockInfo(Gpu* gpu, unsigned, unsigned* out) {
  return answer(gpu, out, 2000);
}
int nvmlDeviceGetTemperature(Gpu* gpu, unsigned sensor, unsigned* out) {
  return sensor == 0 ? answer(gpu, out, 41) : invalid;
}
int nvmlDeviceGetPowerUsage(Gpu* gpu, unsigned* out) {
  return answer(gpu, out, 123456);
}
// nvmlDeviceGetEnforcedPowerLimit is missing, as in old versions of the library.
int nvmlDeviceGetPowerManagementLimit(Gpu* gpu, unsigned* out) {
  return answer(gpu, out, 650000);
}
int nvmlDeviceGetPowerManagementDefaultLimit(Gpu* gpu, unsigned* out) {
  return answer(gpu, out, 700000);
}
int nvmlDeviceGetEccMode(Gpu* gpu, unsigned* current, unsigned* pending) {
  *pending = 0;
  return answer(gpu, current, 1);
}
int nvmlDeviceGetTotalEccErrors(Gpu* gpu, int type, int counter, unsigned long long* count) {
  static int asked = 0;
  if (gpu == &leaving) return *count = 3, asked++ == 0 ? success : lost;
  if (gpu != &complete || type != 1 || counter != 0) return not_supported;
  *count = 1ull << 33;
  return success;
}
int nvmlDeviceGetPersistenceMode(Gpu* gpu, unsigned* out) {
  return answer(gpu, out, 1);
}
int nvmlDeviceGetMigMode(Gpu* gpu, unsigned* current, unsigned* pending) {
  *pending = 1;
  return answer(gpu, current, 0);
}
int nvmlDeviceGetVbiosVersion(Gpu* gpu, char* text, unsigned length) {
  if (gpu != &complete) return not_supported;
  std::snprintf(text, length, "96.00.AF.00.01");
  return success;
}
int nvmlDeviceGetGspFirmwareVersion(Gpu* gpu, char* text) {
  if (gpu != &complete) return not_supported;
  std::snprintf(text, 0x40, "580.159.04");
  return success;
}
int nvmlDeviceGetMemoryInfo(Gpu* gpu, void* out) {
  if (gpu != &complete) return not_supported;
  const unsigned long long told[] = {150ull << 30, 149ull << 30, 1ull << 30};  // total, free, used
  std::memcpy(out, told, sizeof told);
  return success;
}
int nvmlDeviceGetComputeMode(Gpu* gpu, unsigned* out) {
  return answer(gpu, out, 3);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(Gpu* gpu, unsigned long long* bits) {
  if (gpu != &complete) return not_supported;
  *bits = 1 | 4 | 0x40 | 0x1000;  // idle is not a throttle reason; 0x1000 has no name yet
  return success;
}
int nvmlDeviceGetNvLinkState(Gpu* gpu, unsigned link, unsigned* active) {
  if (tells_links(gpu) && link < 18) return *active = gpu->links[link] != inactive, success;
  return link > 3 ? invalid : answer(gpu, active, link != 1);
}
int nvmlDeviceGetPciInfo_v3(Gpu* gpu, Pci* pci) {
  return tell_place(pci, gpu->bus), success;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(Gpu* gpu, unsigned link, unsigned* type) {
  if (!tells_links(gpu) || link >= 18) return not_supported;
  if (gpu->links[link] == told_switch) return *type = 2, success;
  if (gpu->links[link] > untold) return *type = 0, success;
  return not_supported;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Gpu* gpu, unsigned link, Pci* pci) {
  if (!tells_links(gpu) || link >= 18 || gpu->links[link] == inactive || gpu->links[link] == untold) {
    return not_supported;
  }
  return tell_place(pci, gpu->links[link] > untold ? gpu->links[link] : 0xc5), success;
}
int nvmlDeviceGetP2PStatus(Gpu* gpu, Gpu* peer, int index, int* status) {
  if (gpu->fabric == 0 || peer->fabric == 0 || index != 2) return not_supported;
  return *status = gpu->fabric == peer->fabric ? 0 : 5, success;
}
int nvmlDeviceGetC2cModeInfoV(Gpu* gpu, unsigned* enabled) {
  if (!tells_links(gpu)) return not_supported;
  return *enabled = gpu->chip_to_chip_links != 0, success;
}
int nvmlDeviceGetFieldValues(Gpu* gpu, int count, Value* values) {
  if (tells_links(gpu) && count == 1) {
    values->status = not_supported;
    values->type = 1;
    if (values->id == 164 && gpu->link_rate != 0) values->value = gpu->link_rate, values->status = success;
    if (values->id == 170) values->value = gpu->chip_to_chip_links, values->status = success;
    // The last of several chip-to-chip links is inactive, and a single link does not report its rate.
    if (values->id == 172 && gpu->chip_to_chip_links > 1) {
      values->value = values->scope + 1 < gpu->chip_to_chip_links ? 44712 : 0, values->status = success;
    }
    return success;
  }
  if (gpu != &complete || count != 1) return not_supported;
  values->status = not_supported;
  values->type = 1;
  if (values->id == 164 && values->scope == 0) values->value = 26562, values->status = success;
  if (values->id == 86) values->value = 25000, values->type = 3, values->status = success;  // link 2 has its own field
  return success;
}
// Events: "GPU-xid" reports an error at every second query, "GPU-leaving" is lost after the first query, and
// "GPU-complete" never reports an error.
struct EventSet {
  Gpu* gpu;
  int asked;
};
struct EventData {
  Gpu* gpu;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
int nvmlEventSetCreate(EventSet** set) {
  return *set = new EventSet{}, success;
}
int nvmlEventSetFree(EventSet* set) {
  return delete set, success;
}
int nvmlDeviceRegisterEvents(Gpu* gpu, unsigned long long types, EventSet* set) {
  if (types != 8 || (gpu != &complete && gpu != &failing && gpu != &leaving)) return not_supported;
  return set->gpu = gpu, success;
}
int nvmlEventSetWait_v2(EventSet* set, EventData* data, unsigned milliseconds) {
  constexpr int timeout = 10;
  if (set->gpu == &leaving && set->asked++ > 0) return lost;
  if (set->gpu != &failing || milliseconds != 0 || set->asked++ % 2 == 0) return timeout;
  return *data = {set->gpu, 8, 79, ~0u, ~0u}, success;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(Gpu* gpu, unsigned* count, Process* processes) {
  if (gpu != &complete) return not_supported;
  const unsigned room = *count;
  *count = 1;
  if (room < 1) return insufficient_size;
  processes[0] = {2, 1 << 20, ~0u, ~0u};
  return success;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Gpu* gpu, unsigned* count, Process* processes) {
  if (gpu == &crowded) {  // the number of processes grows with each query, up to 40
    const unsigned room = *count;
    *count = room < 20 ? 20 : 40;
    if (room < 40) return insufficient_size;
    for (unsigned i = 0; i < 40; ++i) processes[i] = {1, 1 << 20, ~0u, ~0u};
    return success;
  }
  if (gpu != &complete) return not_supported;
  const unsigned room = *count;
  *count = 2;
  if (room < 2) return insufficient_size;
  processes[0] = {static_cast<unsigned>(getpid()), 1 << 20, ~0u, ~0u};
  processes[1] = {1, 1 << 20, ~0u, ~0u};
  return success;
}
}
