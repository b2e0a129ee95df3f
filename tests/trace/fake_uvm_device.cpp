// Fake driver of unified memory, for preloading: programs that open /dev/nvidia-uvm find it on a machine without a GPU.
//
// Both of the driver's device files are /dev/null to the kernel. The queue of events receives 10 page faults and their
// replay as soon as a program enables it, and as many again whenever the driver is asked to flush.

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "trace/uvm/driver.hpp"

namespace {

using isthmus::trace::uvm::Control;
using isthmus::trace::uvm::InitArguments;
namespace request = isthmus::trace::uvm::request;

constexpr int kMost = 1024;
std::atomic<char> nodes[kMost];  // device file of each descriptor: 'm' for unified memory, 'q' for the queue
std::byte* queue;
Control* control;
std::uint64_t entries;
std::uint32_t batch;

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

void put(const std::byte* entry) {
  std::atomic_ref put_ahead(control->put_ahead), put_behind(control->put_behind);
  const auto at = put_behind.load();
  std::memcpy(queue + std::size_t{at} * 64, entry, 64);
  put_ahead.store((at + 1) % static_cast<std::uint32_t>(entries));
  put_behind.store((at + 1) % static_cast<std::uint32_t>(entries));
}

template <class T>
void set(std::byte* entry, std::size_t at, T value) {
  std::memcpy(entry + at, &value, sizeof value);
}

void put_batch() {
  ++batch;
  const std::uint64_t begin = 1'000'000'000 + std::uint64_t{batch} * 1'000'000;
  for (std::uint64_t i = 0; i < 10; ++i) {
    std::byte fault[64] = {};
    set<std::uint8_t>(fault, 0, 3);
    set<std::uint8_t>(fault, 2, 1);
    set<std::uint8_t>(fault, 3, 1);
    set<std::uint64_t>(fault, 8, 0x7f0000000000 + (std::uint64_t{batch} * 10 + i) * 4096);
    set<std::uint64_t>(fault, 16, begin + i * 1000);
    set<std::uint64_t>(fault, 24, begin + i * 1000 - 500);
    set<std::uint32_t>(fault, 32, batch);
    set<std::uint8_t>(fault, 36, 1);
    put(fault);
  }
  std::byte replay[64] = {};
  set<std::uint8_t>(replay, 0, 4);
  set<std::uint8_t>(replay, 1, 1);
  set<std::uint8_t>(replay, 2, 1);
  set<std::uint32_t>(replay, 4, batch);
  set<std::uint64_t>(replay, 8, begin + 50'000);
  set<std::uint64_t>(replay, 16, begin + 50'000);
  put(replay);
}

int answer(char node, unsigned long what, void* page) {
  if (node == 'q' && what == request::init) {
    const auto& words = *static_cast<InitArguments*>(page);
    queue = reinterpret_cast<std::byte*>(words.queue);
    entries = words.entries;
    control = reinterpret_cast<Control*>(words.control);
    const bool own = words.descriptor < kMost && nodes[words.descriptor] == 'm';
    std::memset(static_cast<std::byte*>(page) + 48, 0, 8);
    if (!own) set(static_cast<std::byte*>(page), 48, isthmus::trace::uvm::kWrongDescriptor);
  } else if (node == 'q' && what == request::enable) {
    set<std::uint32_t>(static_cast<std::byte*>(page), 8, 0);
    put_batch();
  } else if (node == 'm' && what == request::flush) {
    set<std::uint32_t>(static_cast<std::byte*>(page), 0, 0);
    put_batch();
  }
  return 0;
}

int open_node(const char* name, const char* path, int flags, mode_t mode) {
  const std::string_view node = path;
  const char kind = node == "/dev/nvidia-uvm" ? 'm' : node == "/dev/nvidia-uvm-tools" ? 'q' : '\0';
  const int file = next<int (*)(const char*, int, ...)>(name)(kind ? "/dev/null" : path, flags, mode);
  if (file >= 0 && file < kMost) nodes[file] = kind;
  return file;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = static_cast<mode_t>(va_arg(more, int));
  va_end(more);
  return open_node("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = static_cast<mode_t>(va_arg(more, int));
  va_end(more);
  return open_node("open64", path, flags, mode);
}

int close(int file) {
  if (file >= 0 && file < kMost) nodes[file] = '\0';
  return next<int (*)(int)>("close")(file);
}

int ioctl(int file, unsigned long what, ...) {
  va_list more;
  va_start(more, what);
  void* argument = va_arg(more, void*);
  va_end(more);
  if (const char node = file >= 0 && file < kMost ? nodes[file].load() : '\0') return answer(node, what, argument);
  return next<int (*)(int, unsigned long, ...)>("ioctl")(file, what, argument);
}

ssize_t readlink(const char* path, char* text, size_t size) {
  constexpr std::string_view kFolder = "/proc/self/fd/";
  const std::string_view whole = path;
  if (whole.starts_with(kFolder)) {
    const int file = std::atoi(path + kFolder.size());
    const char node = file >= 0 && file < kMost ? nodes[file].load() : '\0';
    if (node != '\0') {
      const std::string_view name = node == 'm' ? "/dev/nvidia-uvm" : "/dev/nvidia-uvm-tools";
      std::memcpy(text, name.data(), name.size());
      return static_cast<ssize_t>(name.size());
    }
  }
  return next<ssize_t (*)(const char*, char*, size_t)>("readlink")(path, text, size);
}

}  // extern "C"
