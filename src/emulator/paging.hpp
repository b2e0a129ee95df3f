#pragma once

// Where each page of managed memory is, while somebody watches. Pages that are elsewhere cannot be touched, so that a
// touch is a fault; what a driver does then is done, and told in a driver's words: batches of up to 256 faults, blocks
// of 2 MiB, the density prefetcher, replays.
//
// Limits. A thread of a kernel does not stop at its fault, so a batch is full or the last of its kernel, and no page
// faults twice in it. While a kernel runs, a page that the host or another device's kernel opened is open to the kernel
// too, until another device's first kernel begins or last one ends. System calls that are given such pages fail
// (EFAULT). Memory is never short, so nothing is evicted.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "emulator/page_events.hpp"
#include "emulator/prefetcher.hpp"

namespace emulator {

class Paging {
 public:
  static Paging& instance();

  void watch(PageListener listener, void* context);
  void unwatch();

  /// Managed memory came, and goes; whole pages. What goes is open.
  void add(std::uintptr_t begin, std::size_t bytes);
  void remove(std::uintptr_t begin);

  /// A piece of device work begins and ends: of a kernel's device, or -1 for copies, which see all.
  void enter(int device);
  void leave(int device);

  struct Touch {
    std::uintptr_t address;
    bool write;
    bool by_device;   ///< by device work
    int device;       ///< of it; -1: a copy
    unsigned client;  ///< of a kernel
  };
  /// For the SIGSEGV handler. False: the page is no business of this.
  bool touch(const Touch& touch) noexcept;

  /// Of page_events.hpp.
  std::uint64_t create_group();
  bool destroy_group(std::uint64_t group);
  bool set_group(std::uint64_t group, std::uintptr_t begin, std::size_t bytes);

  /// As asked by prefetch(): -1 is the host.
  void move(const void* pointer, std::size_t bytes, int to);

 private:
  static constexpr std::size_t most_pending = 256;
  static constexpr std::int8_t nowhere = -2, host = -1;

  struct Page {
    std::int8_t where = nowhere;
    bool open = true, pending = false;
    std::uint32_t group = 0;
  };
  struct Area {
    std::uintptr_t begin = 0;
    std::vector<Page> pages;
    bool lost = false;  ///< the system allows no more pieces: it is open and tells nothing
  };
  struct Pending {
    std::uintptr_t address;
    std::uint64_t time;
    unsigned client;
    bool write;
  };

  Area* find(std::uintptr_t address) noexcept;
  void set_open(Area& range, std::size_t first, std::size_t end, bool open) noexcept;
  void take_turns() noexcept;
  void protect_all() noexcept;
  bool shall_be_open(const Page& page) const noexcept;
  void tell(const PageEvent& event) noexcept;
  void host_fault(Area& range, std::size_t page, bool write) noexcept;
  void device_fault(Area& range, std::size_t page, const Touch& touch) noexcept;
  void service() noexcept;
  void service_block(std::size_t first, std::size_t end) noexcept;
  PagesOfBlock collect(const Area& range, std::uintptr_t block, int to, PagesOfBlock& valid) const noexcept;
  PagesOfBlock in_faulted_groups(const Area& range, std::uintptr_t block, const PagesOfBlock& brought,
                                 const PagesOfBlock& faulted) const noexcept;
  void bring(Area& range, std::uintptr_t block, const PagesOfBlock& pages, int to, PageEvent::Why why) noexcept;
  void bring_run(Area& range, std::size_t first, std::size_t end, int to, PageEvent::Why why) noexcept;

  std::mutex mutex_;
  std::atomic<bool> watched_ = false;
  PageListener listener_ = nullptr;
  void* context_ = nullptr;
  std::map<std::uintptr_t, Area> ranges_;
  std::set<std::uint32_t> groups_;
  std::uint32_t latest_group_ = 0;
  std::map<int, unsigned> kernels_of_;  ///< that run, by device
  bool copies_opened_ = false;
  std::array<Pending, most_pending> pending_{};
  std::size_t pending_count_ = 0;
  int pending_device_ = 0;  ///< whose faults these are
  std::uint32_t batch_ = 0;
};

}  // namespace emulator
