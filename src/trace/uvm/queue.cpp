#include "trace/uvm/queue.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <type_traits>

namespace isthmus::trace::uvm {

namespace {

constexpr std::size_t kArgumentBytes = 4096;
constexpr std::size_t kBatchesKept = 4096;  // number of batches remembered, because their replay may still come; the
                                            // driver handles some tens at a time
// Pause between checks whether the queue fills up. Far fewer entries arrive in a pause than still fit: the queue has a
// million entries, and a GPU makes some hundred thousand per second.
constexpr auto kPause = std::chrono::milliseconds(1);
constexpr auto kKeepEvery = std::chrono::milliseconds(100);
constexpr std::uint32_t kSpill = 4;  // the thread copies entries once 1/kSpill of the queue is full

constexpr std::uint64_t bit(Type type) {
  return std::uint64_t{1} << static_cast<unsigned>(type);
}
constexpr std::uint64_t kTypes = bit(Type::cpu_fault) | bit(Type::gpu_fault) | bit(Type::replay) |
                                 bit(Type::fatal_fault) | bit(Type::read_duplicate) | bit(Type::read_duplicate_end) |
                                 bit(Type::thrashing) | bit(Type::throttling_start) | bit(Type::throttling_end) |
                                 bit(Type::remote_map);

constexpr const char* kInstead = "; count without it by -S profiler=cupti (docs/profiling.md)";

[[noreturn]] void refuse(const std::string& what) {
  throw Unavailable("the driver's page faults cannot be observed: " + what);
}

std::string reason(int negative_errno) {
  return std::strerror(-negative_errno);
}

[[noreturn]] void refuse_node(int failure) {
  if (failure == -EACCES || failure == -EPERM)
    refuse(fmt::format("{} may not be opened ({}): have its mode set to 666, the driver's default{}", kQueueNode,
                       reason(failure), kInstead));
  refuse(fmt::format("{} cannot be opened ({}): give the container this device node{}", kQueueNode, reason(failure),
                     kInstead));
}

std::uint32_t word_at(const std::byte* bytes, std::size_t at) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes + at, sizeof word);
  return word;
}

DriverVersion version_of(System& system, bool forced) {
  const auto text = system.driver_version();
  const auto version = parse_driver_version(text);
  if (version && (is_known_branch(version->branch) || forced)) return *version;
  if (forced) return {};
  if (!version)
    refuse(
        fmt::format("the driver's version is unknown ('{}'), and the event queue differs between driver branches; set "
                    "ISTHMUS_UVM=force to try anyway",
                    text));
  refuse(
      fmt::format("the queue of driver branch {} was not examined; set ISTHMUS_UVM=force to try anyway, and the first "
                  "page touched shows whether it can be read",
                  version->branch));
}

}  // namespace

PrivatePages::PrivatePages(std::size_t bytes) : bytes_(bytes) {
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    refuse(fmt::format("{} bytes for its queue are not available ({}); choose a smaller size", bytes,
                       std::strerror(errno)));
  madvise(mapped, bytes, MADV_DONTFORK);
  data_ = static_cast<std::byte*>(mapped);
}

PrivatePages::~PrivatePages() {
  munmap(data_, bytes_);
}

Queue::Queue(System& system, const QueueOptions& options)
    : system_(system),
      types_(options.moves ? kTypes | bit(Type::migration) : kTypes),
      mask_(static_cast<std::uint32_t>(std::bit_ceil(std::max<std::size_t>(options.entries, 2)) - 1)),
      keep_(options.keep),
      queue_((std::size_t{mask_} + 1) * kEntryBytes),
      control_(sizeof(Control)),
      arguments_(kArgumentBytes) {
  attach(options);
  try {
    set_types(request::enable);
    drainer_ = std::thread([this] { drain_until_stopped(); });
  } catch (...) {
    system_.close(queue_descriptor_);
    throw;
  }
}

Queue::~Queue() {
  stopped_ = true;
  drainer_.join();
  try {
    set_types(request::disable);
  } catch (const Unavailable&) {  // the driver drops the queue when its descriptor is closed
  }
  system_.close(queue_descriptor_);
}

/// Sends a request. The kernel copies as many bytes as its branch's arguments have; these always fit into a page.
template <class Arguments>
int Queue::ask(int descriptor, unsigned long request, Arguments& arguments) {
  static_assert(std::is_trivially_copyable_v<Arguments>);
  std::memset(arguments_.data(), 0, kArgumentBytes);
  std::memcpy(arguments_.data(), &arguments, sizeof arguments);
  const int answer = system_.control(descriptor, request, arguments_.data());
  std::memcpy(&arguments, arguments_.data(), sizeof arguments);
  return answer;
}

void Queue::attach(const QueueOptions& options) {
  if (const int opened = system_.open(kQueueNode); opened < 0)
    refuse_node(opened);
  else
    system_.close(opened);
  const auto version = version_of(system_, options.forced);
  const auto status_at = status_of_init(version.branch);
  int failure = 0;
  std::uint32_t status = 0;
  const auto candidates = system_.descriptors_of(kMemoryNode);
  for (const int candidate : candidates) {
    // Each descriptor of the queue accepts only one request for a queue, so every attempt opens a new descriptor.
    const int opened = system_.open(kQueueNode);
    if (opened < 0) refuse_node(opened);
    InitArguments arguments;
    arguments.queue = reinterpret_cast<std::uintptr_t>(queue_.data());
    arguments.entries = std::uint64_t{mask_} + 1;
    arguments.control = reinterpret_cast<std::uintptr_t>(control_.data());
    arguments.all_processors = 1;
    arguments.descriptor = static_cast<std::uint32_t>(candidate);
    for (const auto at : kInitVersionAt) arguments.words[(at - 48) / 4] = 1;
    failure = ask(opened, request::init, arguments);
    status = word_at(arguments_.data(), status_at);
    if (failure == 0 && status == 0) {
      queue_descriptor_ = opened;
      memory_descriptor_ = candidate;
      return;
    }
    system_.close(opened);
    if (failure != 0 || status != kWrongDescriptor) break;
  }
  if (candidates.empty())
    refuse("this process has not begun to use CUDA's unified memory; attach after a device was selected");
  if (failure != 0)
    refuse(fmt::format("{} exists but accepts no request ({}): the node belongs to a sandbox, not to the driver{}",
                       kQueueNode, reason(failure), kInstead));
  refuse(fmt::format("the driver provides no queue (status {:#x}){}", status, kInstead));
}

void Queue::set_types(unsigned long request) {
  MaskArguments arguments{.types = types_};
  const int failure = ask(queue_descriptor_, request, arguments);
  if (failure != 0 || arguments.status != 0)
    refuse(fmt::format("the driver does not {} its events ({}){}", request == request::enable ? "enable" : "disable",
                       failure != 0 ? reason(failure) : fmt::format("status {:#x}", arguments.status), kInstead));
}

void Queue::drain_until_stopped() {
  auto kept = std::chrono::steady_clock::now();
  while (!stopped_) {
    const bool keeps = keep_ && std::chrono::steady_clock::now() - kept >= kKeepEvery;
    if (waiting() > (keeps ? 0 : mask_ / kSpill)) {
      const std::lock_guard lock(mutex_);
      drain();
    }
    if (keeps) kept = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(kPause);
  }
}

/// Returns the number of entries that the driver has put into the queue and that have not been taken out.
std::uint32_t Queue::waiting() const noexcept {
  auto& shared = control();
  const std::uint32_t put = std::atomic_ref(shared.put_behind).load(std::memory_order_acquire);
  return (put - std::atomic_ref(shared.get_behind).load(std::memory_order_relaxed)) & mask_;
}

/// Takes the entries out of the queue; called with the lock held. The driver may add entries at the same time.
void Queue::drain() {
  auto& shared = control();
  const std::uint32_t got = std::atomic_ref(shared.get_behind).load(std::memory_order_relaxed) & mask_;
  const std::uint32_t count = waiting(), put = (got + count) & mask_;
  const std::size_t before = entries_.size();
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::byte* entry = queue_.data() + ((got + i) & mask_) * kEntryBytes;
    if (is_ours(entry)) std::memcpy(entries_.emplace_back().data(), entry, kEntryBytes);
  }
  std::atomic_ref(shared.get_ahead).store(put, std::memory_order_release);
  std::atomic_ref(shared.get_behind).store(put, std::memory_order_release);
  if (!keep_) return;
  const auto dropped_now = dropped();
  const auto came = std::span<const Entry>(entries_).subspan(before);
  if (!came.empty() || dropped_now > dropped_kept_)
    keep_(came, dropped_now - std::exchange(dropped_kept_, dropped_now));
}

/// Returns whether the entry is about this process. The driver reports every replay on a GPU to every process; a batch
/// without a page fault of this process is another's.
bool Queue::is_ours(const std::byte* entry) {
  const auto type = static_cast<Type>(entry[0]);
  if (type == Type::gpu_fault) {
    const std::pair batch(static_cast<std::uint8_t>(entry[offsetof(GpuFault, gpu)]),
                          word_at(entry, offsetof(GpuFault, batch)));
    if (batches_.empty() || batch != latest_batch_) {
      if (batches_.size() >= kBatchesKept) batches_before_ = std::exchange(batches_, {});
      batches_.insert(latest_batch_ = batch);
    }
    return true;
  }
  if (type != Type::replay) return true;
  const std::pair batch(static_cast<std::uint8_t>(entry[offsetof(Replay, gpu)]),
                        word_at(entry, offsetof(Replay, batch)));
  if (batches_.contains(batch) || batches_before_.contains(batch)) return true;
  ++foreign_replays_;
  return false;
}

std::uint64_t Queue::dropped() const noexcept {
  std::uint64_t sum = 0;
  for (auto& count : control().dropped) sum += std::atomic_ref(count).load(std::memory_order_relaxed);
  return sum;
}

void Queue::flush() {
  std::uint64_t status = 0;
  const int failure = ask(memory_descriptor_, request::flush, status);
  if (failure != 0 || static_cast<std::uint32_t>(status) != 0)
    refuse(fmt::format("the driver does not deliver its remaining events ({}), so samples are incomplete; run again",
                       failure != 0 ? reason(failure) : fmt::format("status {:#x}", status)));
}

Drained Queue::drained() {
  const std::lock_guard lock(mutex_);
  drain();
  Drained all;
  all.entries = std::exchange(entries_, {});
  all.foreign_replays = std::exchange(foreign_replays_, 0);
  const auto now = dropped();
  all.dropped = now - std::exchange(dropped_before_, now);
  return all;
}

Drained Queue::take_entries() {
  flush();
  return drained();
}

Taken Queue::take() {
  const auto all = take_entries();
  Taken taken{.events = {}, .dropped = all.dropped, .foreign_replays = all.foreign_replays};
  taken.events.reserve(all.entries.size());
  for (const auto& entry : all.entries) taken.events.push_back(decode(entry));
  return taken;
}

}  // namespace isthmus::trace::uvm
