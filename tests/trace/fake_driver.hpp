#pragma once

// Driver that a test simulates.

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trace/uvm/events.hpp"
#include "trace/uvm/system.hpp"

namespace isthmus::trace::uvm {

inline std::uint64_t number(const void* page, std::size_t at, std::size_t bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, static_cast<const std::byte*>(page) + at, bytes);
  return value;
}
inline void set(void* page, std::size_t at, std::uint32_t value) {
  std::memcpy(static_cast<std::byte*>(page) + at, &value, sizeof value);
}

/// Fake driver, which uses the offsets of the real driver's interface.
class FakeDriver final : public System {
 public:
  // Behaviour of the driver, set by the test.
  std::string version = "580.159.04";
  int open_answer = 0, control_answer = 0;
  std::uint32_t init_status = 0, enable_status = 0, flush_status = 0;
  std::vector<int> memory_descriptors = {7};
  int own_descriptor = 7;  ///< descriptor that the driver accepts, one of memory_descriptors
  std::function<void(FakeDriver&)> at_flush;

  // Recorded calls.
  std::vector<int> opened, closed;
  std::vector<std::pair<int, std::uint64_t>> tries;  ///< descriptors of the queue and of memory in each attempt
  std::uint32_t word_48 = 0, word_52 = 0;
  std::uint64_t types = 0;
  bool enabled = false, closed_enabled = false;
  std::uint64_t entries = 0;

  // Range groups.
  std::uint32_t group_status = 0;
  std::size_t sets_before_failure = SIZE_MAX;
  std::set<std::uint64_t> groups;                  ///< existing groups
  std::map<std::uint64_t, std::uint64_t> of_page;  ///< group of each page, keyed by page number; 0 or absent: no group
  std::size_t sets = 0;

  int open(const char* path) override {
    EXPECT_STREQ(path, "/dev/nvidia-uvm-tools");
    if (open_answer < 0) return open_answer;
    opened.push_back(100 + static_cast<int>(opened.size()));
    return opened.back();
  }
  void close(int descriptor) override {
    closed.push_back(descriptor);
    if (descriptor == attached_) closed_enabled = enabled;
  }
  std::vector<int> descriptors_of(const char* path) override {
    EXPECT_STREQ(path, "/dev/nvidia-uvm");
    return memory_descriptors;
  }
  std::string driver_version() override { return version; }

  int control(int descriptor, unsigned long request, void* page) override {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(page) % 4096, 0u) << "the arguments lie at the front of a page";
    for (std::size_t at = 64; at < 4096; at += 8) EXPECT_EQ(number(page, at, 8), 0u) << "and the rest of it is empty";
    if (control_answer != 0) return control_answer;
    switch (request) {
      case 56:
        return init(descriptor, page);
      case 58:
        EXPECT_EQ(descriptor, attached_);
        types = number(page, 0, 8);
        set(page, 8, enable_status);
        enabled = enable_status == 0;
        return 0;
      case 59:
        EXPECT_EQ(descriptor, attached_);
        enabled = false;
        return 0;
      case 67:
        EXPECT_EQ(descriptor, own_descriptor) << "flush is a request of the process's own descriptor";
        if (at_flush) at_flush(*this);
        set(page, 0, flush_status);
        return 0;
      case 23:
      case 24:
      case 31:
        return group(descriptor, request, page);
      default:
        ADD_FAILURE() << "request " << request;
        return -EINVAL;
    }
  }

  void put(const Entry& entry) {
    auto* words = static_cast<std::uint32_t*>(control_);
    std::atomic_ref put_behind(words[3]), get_behind(words[1]);
    const std::uint32_t at = put_behind.load();
    const auto next = static_cast<std::uint32_t>((at + 1) % entries);
    if (next == get_behind.load()) return drop(static_cast<std::size_t>(entry[0]), 1);
    std::memcpy(static_cast<std::byte*>(queue_) + at * 64, entry.data(), 64);
    std::atomic_ref(words[2]).store(next);
    put_behind.store(next);
  }
  void drop(std::size_t type, std::uint64_t count) {
    auto* counts = reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(control_) + 16);
    std::atomic_ref(counts[type]).fetch_add(count);
  }
  bool all_closed() const {
    auto left = opened;
    for (const int each : closed) std::erase(left, each);
    return left.empty();
  }
  void* queue() const { return queue_; }
  std::uint32_t taken() const { return std::atomic_ref(static_cast<std::uint32_t*>(control_)[1]).load(); }

 private:
  int group(int descriptor, unsigned long request, void* page) {
    const std::size_t status_at = request == 31 ? 24 : 8;
    set(page, status_at, descriptor == own_descriptor ? group_status : 0x16);
    if (descriptor != own_descriptor || group_status != 0) return 0;
    const auto id = number(page, 0, 8);
    if (request == 23) {
      EXPECT_EQ(id, 0u);
      set(page, 0, ++latest_group_);
      groups.insert(latest_group_);
      return 0;
    }
    EXPECT_TRUE(groups.contains(id) || (request == 31 && id == 0)) << "group " << id;
    if (request == 24) {
      groups.erase(id);
      for (const auto& [at, of] : of_page) EXPECT_NE(of, id) << "page " << at << " is still in it";
      return 0;
    }
    const auto base = number(page, 8, 8), bytes = number(page, 16, 8);
    EXPECT_EQ(base % 4096, 0u);
    EXPECT_EQ(bytes % 4096, 0u);
    if (id != 0 && sets++ >= sets_before_failure) {
      set(page, 24, 0x1f);
      return 0;
    }
    for (std::uint64_t at = base / 4096; at < (base + bytes) / 4096; ++at) of_page[at] = id;
    return 0;
  }

  int init(int descriptor, void* page) {
    const auto memory = number(page, 44, 4);
    tries.emplace_back(descriptor, memory);
    word_48 = static_cast<std::uint32_t>(number(page, 48, 4));
    word_52 = static_cast<std::uint32_t>(number(page, 52, 4));
    EXPECT_EQ(number(page, 40, 4), 1u) << "all processors";
    EXPECT_EQ(number(page, 24, 8), 0u);
    const std::size_t status_at = version.starts_with("560") ? 52 : 48;
    if (memory != static_cast<std::uint64_t>(own_descriptor)) {
      set(page, status_at, 0x16);
      return 0;
    }
    set(page, status_at, init_status);
    if (init_status != 0) return 0;
    queue_ = reinterpret_cast<void*>(number(page, 0, 8));
    entries = number(page, 8, 8);
    control_ = reinterpret_cast<void*>(number(page, 16, 8));
    EXPECT_EQ(entries & (entries - 1), 0u) << "a power of two";
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(queue_) % 4096, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(control_) % 4096, 0u);
    attached_ = descriptor;
    return 0;
  }

  void* queue_ = nullptr;
  void* control_ = nullptr;
  int attached_ = -1;
  std::uint32_t latest_group_ = 0;
};

}  // namespace isthmus::trace::uvm
