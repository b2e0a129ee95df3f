#pragma once

// Location of each managed page while a listener watches. Pages that are elsewhere are inaccessible, so that touching
// them causes a fault. Faults are handled and reported as by a driver: batches of up to 256 faults, blocks of 2 MiB,
// the density prefetcher, replays.
//
// Limits: a thread of a kernel does not stop at its fault, so every batch is either full or the last batch of its
// kernel, and no page faults twice in a batch. While a kernel runs, a page that was opened by the host or by another
// device's kernel is also open to this kernel, until the first kernel of another device begins or its last kernel ends.
// System calls on inaccessible pages fail (EFAULT). Memory is never short, so nothing is evicted.

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

  /// Add or remove managed memory, in whole pages. Removed memory remains accessible.
  void add(std::uintptr_t begin, std::size_t bytes);
  void remove(std::uintptr_t begin);

  /// Begin or end a unit of device work: a kernel of `device`, or a copy (-1), which may access all pages.
  void enter(int device);
  void leave(int device);

  struct Touch {
    std::uintptr_t address;
    bool write;
    bool by_device;   ///< true if touched by device work
    int device;       ///< device of that work; -1: the work is a copy
    unsigned client;  ///< multiprocessor, if the work is a kernel
  };
  /// Handles a fault, for the SIGSEGV handler. Returns false if the page is not managed by this class.
  bool touch(const Touch& touch) noexcept;

  /// Groups of pages, as in page_events.hpp.
  std::uint64_t create_group();
  bool destroy_group(std::uint64_t group);
  bool set_group(std::uint64_t group, std::uintptr_t begin, std::size_t bytes);

  /// Moves pages for prefetch(); `to` -1 is the host.
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
    bool lost = false;  ///< the system allows no more mappings: the area is accessible and its pages are not watched
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
  std::map<int, unsigned> kernels_of_;  ///< number of running kernels of each device
  bool copies_opened_ = false;
  std::array<Pending, most_pending> pending_{};
  std::size_t pending_count_ = 0;
  int pending_device_ = 0;  ///< device of the pending faults
  std::uint32_t batch_ = 0;
};

}  // namespace emulator
