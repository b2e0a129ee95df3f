#include "trace/uvm/emulated_driver.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>

namespace isthmus::trace::uvm {

namespace {

constexpr int kQueueDescriptor = 1000, kMemoryDescriptor = 1001;
constexpr std::uint8_t kRead = 1, kWrite = 2;
constexpr unsigned kClientsOfGpc = 18;
constexpr std::uint32_t kNoSuchObject = 0x57;  // status for an unknown group or address

/// Returns the driver's number of a device; the driver numbers processors starting with the CPU, which is 0.
std::uint8_t processor(int device) {
  return static_cast<std::uint8_t>(device + 1);
}

Cause cause_of(device::PageEvent::Why why) {
  switch (why) {
    case device::PageEvent::Why::asked:
      return Cause::user;
    case device::PageEvent::Why::prefetch:
      return Cause::prefetch;
    case device::PageEvent::Why::fault:
    case device::PageEvent::Why::none:
      break;
  }
  return Cause::fault;
}

Entry entry_of(const device::PageEvent& event) noexcept {
  using What = device::PageEvent::What;
  const std::uint8_t access = event.write ? kWrite : kRead;
  switch (event.what) {
    case What::host_fault:
      return encode(CpuFault{.access = access, .address = event.address, .time = event.begin});
    case What::device_fault:
      return encode(GpuFault{.access = access,
                             .gpu = processor(event.device),
                             .gpc = static_cast<std::uint16_t>(event.client / kClientsOfGpc),
                             .client = static_cast<std::uint16_t>(event.client % kClientsOfGpc),
                             .address = event.address,
                             .time = event.end,
                             .gpu_time = event.begin,
                             .batch = event.batch});
    case What::move:
      return encode(Migration{.cause = cause_of(event.why),
                              .source = processor(event.from),
                              .destination = processor(event.to),
                              .address = event.address,
                              .bytes = event.bytes,
                              .begin = event.begin,
                              .end = event.end,
                              .gpu_begin = event.begin,
                              .gpu_end = event.end});
    case What::replay:
    case What::lost:
      break;
  }
  return encode(
      Replay{.gpu = processor(event.device), .batch = event.batch, .time = event.begin, .gpu_time = event.end});
}

}  // namespace

int EmulatedDriver::open(const char* path) {
  return std::strcmp(path, kQueueNode) == 0 ? kQueueDescriptor : -ENOENT;
}

void EmulatedDriver::close(int) {
  device::unwatch_pages();
  queue_ = nullptr;
  control_ = nullptr;
}

std::vector<int> EmulatedDriver::descriptors_of(const char* path) {
  if (std::strcmp(path, kMemoryNode) != 0) return {};
  return {kMemoryDescriptor};
}

std::string EmulatedDriver::driver_version() {
  return "580.0 (emulated)";
}

int EmulatedDriver::control_memory(unsigned long request, void* argument) {
  switch (request) {
    case request::flush:
      return 0;
    case request::create_group: {
      auto& arguments = *static_cast<GroupArguments*>(argument);
      arguments.group = device::create_page_group();
      return 0;
    }
    case request::destroy_group: {
      auto& arguments = *static_cast<GroupArguments*>(argument);
      arguments.status = device::destroy_page_group(arguments.group) ? 0 : kNoSuchObject;
      return 0;
    }
    case request::set_group: {
      auto& arguments = *static_cast<SetGroupArguments*>(argument);
      arguments.status = device::set_page_group(arguments.group, arguments.base, arguments.bytes) ? 0 : kNoSuchObject;
      return 0;
    }
    default:
      return -EINVAL;
  }
}

int EmulatedDriver::control(int descriptor, unsigned long request, void* argument) {
  if (descriptor == kMemoryDescriptor) return control_memory(request, argument);
  switch (request) {
    case request::init: {
      auto& arguments = *static_cast<InitArguments*>(argument);
      queue_ = reinterpret_cast<Entry*>(arguments.queue);
      control_ = reinterpret_cast<Control*>(arguments.control);
      mask_ = static_cast<std::uint32_t>(arguments.entries - 1);
      arguments.words[0] = 0;
      return 0;
    }
    case request::enable:
      types_ = static_cast<MaskArguments*>(argument)->types;
      return device::watch_pages(&EmulatedDriver::tell, this) ? 0 : -ENODEV;
    case request::disable:
      device::unwatch_pages();
      return 0;
    default:
      return -EINVAL;
  }
}

void EmulatedDriver::tell(void* self, const device::PageEvent& event) noexcept {
  auto& driver = *static_cast<EmulatedDriver*>(self);
  if (event.what == device::PageEvent::What::lost) {
    driver.drop(Type::gpu_fault);
  } else {
    driver.put(entry_of(event));
  }
}

void EmulatedDriver::drop(Type type) noexcept {
  if (control_ == nullptr) return;
  std::atomic_ref(control_->dropped[static_cast<std::size_t>(type)]).fetch_add(1, std::memory_order_relaxed);
}

/// Puts an entry into the queue; the device calls it under the device's lock. One entry always stays empty, because a
/// completely full queue would look empty.
void EmulatedDriver::put(const Entry& entry) noexcept {
  const auto type = static_cast<std::size_t>(entry[0]);
  if (queue_ == nullptr || (types_ >> type & 1) == 0) return;
  const std::uint32_t at = std::atomic_ref(control_->put_behind).load(std::memory_order_relaxed);
  const std::uint32_t next = (at + 1) & mask_;
  if (next == std::atomic_ref(control_->get_behind).load(std::memory_order_acquire)) {
    drop(static_cast<Type>(type));
    return;
  }
  queue_[at] = entry;
  std::atomic_ref(control_->put_ahead).store(next, std::memory_order_relaxed);
  std::atomic_ref(control_->put_behind).store(next, std::memory_order_release);
}

}  // namespace isthmus::trace::uvm
