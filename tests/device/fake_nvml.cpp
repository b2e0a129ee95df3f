// A libnvidia-ml.so for telemetry_test.cpp: one GPU that answers everything, one that supports nothing, one MIG
// instance. Written from the documented prototypes, so that a wrong layout on our side shows as a wrong number.

#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace {
struct Gpu {
  int kind;
};
Gpu complete{0}, mute{1}, instance{2};
constexpr int success = 0, invalid = 2, not_supported = 3, not_found = 6, insufficient_size = 7;

struct Value {
  unsigned id, scope;
  long long timestamp, latency;
  int type, status;
  unsigned long long value;
};
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
  if (std::strcmp(uuid, "GPU-complete") == 0) return *gpu = &complete, success;
  if (std::strcmp(uuid, "GPU-mute") == 0) return *gpu = &mute, success;
  if (std::strcmp(uuid, "MIG-instance") == 0) return *gpu = &instance, success;
  return not_found;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, Gpu** gpu) {
  if (std::strcmp(bus, "0000:1b:00.0") == 0) return *gpu = &complete, success;
  return not_found;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Gpu* gpu, Gpu** parent) {
  if (gpu != &instance) return invalid;
  *parent = &complete;
  return success;
}
int nvmlDeviceGetCurrPcieLinkGeneration(Gpu* gpu, unsigned* out) {
  return answer(gpu, out, 5);
}
int nvmlDeviceGetCurrPcieLinkWidth(Gpu* gpu, unsigned* out) {
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
// nvmlDeviceGetEnforcedPowerLimit is missing, as in an old library.
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
int nvmlDeviceGetComputeMode(Gpu* gpu, unsigned* out) {
  return answer(gpu, out, 3);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(Gpu* gpu, unsigned long long* bits) {
  if (gpu != &complete) return not_supported;
  *bits = 1 | 4 | 0x40 | 0x1000;  // idle is no reason; 0x1000 has no name yet
  return success;
}
int nvmlDeviceGetNvLinkState(Gpu* gpu, unsigned link, unsigned* active) {
  return link > 3 ? invalid : answer(gpu, active, link != 1);
}
int nvmlDeviceGetFieldValues(Gpu* gpu, int count, Value* values) {
  if (gpu != &complete || count != 1) return not_supported;
  values->status = not_supported;
  values->type = 1;
  if (values->id == 164 && values->scope == 0) values->value = 26562, values->status = success;
  if (values->id == 86) values->value = 25000, values->type = 3, values->status = success;  // link 2, by its own field
  return success;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Gpu* gpu, unsigned* count, Process* processes) {
  if (gpu != &complete) return not_supported;
  const unsigned room = *count;
  *count = 2;
  if (room < 2) return insufficient_size;
  processes[0] = {static_cast<unsigned>(getpid()), 1 << 20, ~0u, ~0u};
  processes[1] = {1, 1 << 20, ~0u, ~0u};
  return success;
}
}
