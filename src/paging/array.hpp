#pragma once

// Arrays in paged memory, for use in kernels. They are made from the result of Pager::open() and passed to kernels by
// value:
//
//   __global__ void sum(paging::Array<float> a, double* result) {
//     …
//     for (std::size_t i = first; i < last;) {     // the whole warp together
//       const auto window = a.window(i);           // one page, pinned until the end of the scope
//       for (std::size_t j = i + lane(); j < min(last, window.last()); j += warp_size()) part += window[j];
//       i = window.last();
//     }
//
// A group of lanes enters each page once for all of its lanes that need the page, and copies it together. Lanes need
// not form a group explicitly and may be at different places in the code: a[i] = a[j] + 1. The group is then formed by
// the lanes that happen to arrive together, and a page is pinned only during the call.
//
// A launch declares how many pages its kernel pins at the same time (Pager::launch): a window, a reader or a writer
// pins one page for its group; every other access pins one page during the call.

#include <type_traits>

#include "device/kernel/lanes_here.hpp"
#include "paging/fault.hpp"

namespace isthmus::paging {

namespace detail {

/// Layout of the elements of a region.
template <class T>
class Layout {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 4096 && (sizeof(T) & (sizeof(T) - 1)) == 0,
                "an element must not cross pages: its size must be a power of two, at most 4096");

 public:
  __host__ __device__ explicit Layout(const Region& region) : region_(region) {}
  __device__ std::size_t size() const { return region_.bytes / sizeof(T); }

  // Members for use by cursors.
  __device__ std::uint32_t page_of(std::size_t i) const {
    return static_cast<std::uint32_t>(i * sizeof(T) >> region_.page_shift);
  }
  __device__ std::size_t first_of(std::uint32_t page) const {
    return (static_cast<std::size_t>(page) << region_.page_shift) / sizeof(T);
  }
  __device__ std::size_t last_of(std::uint32_t page) const {
    const std::size_t end = first_of(page + 1);
    return end < size() ? end : size();
  }

 protected:
  /// Returns the lanes that have arrived here together with the caller and use the same array.
  template <class Place>
  __device__ Lanes lanes_here() const {
    return Lanes(device::match_any(device::lanes_here<Place>(), reinterpret_cast<std::uintptr_t>(region_.states)));
  }

  Region region_;
};

}  // namespace detail

/// Cursor of a group of lanes, which keeps one page pinned until the group accesses another page. Not copyable, because
/// the pin is released with the cursor.
template <class Pages, Access access>
class Cursor {
 public:
  using T = typename Pages::Element;

  __device__ Cursor(const Pages& pages, const Lanes& lanes) : pages_(pages), lanes_(lanes) {}
  __device__ Cursor(const Pages& pages, const Lanes& lanes, std::size_t i) : Cursor(pages, lanes) {
    move(pages.page_of(i));
  }
  __device__ ~Cursor() { release(); }
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;

  /// Calls `action` with the address of element `i`, which differs between lanes, while the element's page is pinned.
  /// All lanes of the group must call it; a lane whose index is beyond the array's end only helps.
  template <class Action>
  __device__ void visit(std::size_t i, Action action) {
    bool done = i >= pages_.size();
    if (!done && i - first_ < count_) {
      action(data_ + (i - first_));
      done = true;
    }
    device::LaneMask waiting = device::ballot(lanes_.mask, !done);
    while (waiting != 0) {
      const int next = __ffsll(static_cast<long long>(waiting)) - 1;
      move(device::shuffle(lanes_.mask, pages_.page_of(i), next));
      if (!done && i - first_ < count_) {
        action(data_ + (i - first_));
        done = true;
      }
      waiting = device::ballot(lanes_.mask, !done);
    }
  }
  __device__ T read(std::size_t i) {
    T value{};
    visit(i, [&](const T* element) { value = *element; });
    return value;
  }
  __device__ void store(std::size_t i, T value) {
    static_assert(access == Access::write, "a reader cannot store: use a writer");
    visit(i, [&](T* element) { *element = value; });
  }

  /// Moves to the page of element `i`, which must be the same for all lanes of the group.
  __device__ void move_to(std::size_t i) {
    if (i - first_ >= count_) move(pages_.page_of(i));
  }
  /// Return the bounds of the elements in the pinned page, [first(), last()).
  __device__ std::size_t first() const { return first_; }
  __device__ std::size_t last() const { return first_ + count_; }
  __device__ std::conditional_t<access == Access::write, T*, const T*> data() const { return data_; }
  __device__ auto& operator[](std::size_t i) const { return data()[i - first_]; }

  /// Unpins the page until the next access.
  __device__ void release() {
    if (data_ == nullptr) return;  // checks data_, because a pinned page may contain no whole element
    pages_.give_back(lanes_, pages_.page_of(first_), held_, access);
    data_ = nullptr;
    count_ = 0;
  }

 private:
  __device__ void move(std::uint32_t page) {
    release();
    held_ = pages_.take(lanes_, page, access);
    data_ = reinterpret_cast<T*>(held_.data);
    first_ = pages_.first_of(page);
    count_ = pages_.last_of(page) - first_;
  }

  const Pages& pages_;
  Lanes lanes_;
  Held held_{};
  T* data_ = nullptr;  ///< nullptr: no page is pinned
  std::size_t first_ = 0, count_ = 0;
};

/// Array whose pages are fetched and evicted.
template <class T, class Protocol = Sound>
class Array : public detail::Layout<T> {
 public:
  using Element = T;
  using Reader = Cursor<Array, Access::read>;
  using Writer = Cursor<Array, Access::write>;
  using detail::Layout<T>::Layout;

  /// Returns a reader of the page of element `i`, which must be the same for the whole group; the page is pinned from
  /// now until the end of the reader's scope.
  __device__ Reader window(std::size_t i, const Lanes& lanes = Lanes::warp()) const { return Reader(*this, lanes, i); }
  __device__ Reader reader(const Lanes& lanes = Lanes::warp()) const { return Reader(*this, lanes); }
  __device__ Writer writer(const Lanes& lanes = Lanes::warp()) const { return Writer(*this, lanes); }

  // Accesses to single elements; each lane of the group has its own index.
  __device__ T read(std::size_t i, const Lanes& lanes) const { return reader(lanes).read(i); }
  __device__ void store(std::size_t i, T value, const Lanes& lanes) const { writer(lanes).store(i, value); }
  /// Calls `action` with the element's address, for atomic operations.
  template <class Action>
  __device__ void update(std::size_t i, Action action, const Lanes& lanes) const {
    writer(lanes).visit(i, action);
  }

  /// Reference to an element; lanes that arrive together access it as a group.
  class Reference {
   public:
    __device__ Reference(const Array& array, std::size_t i) : array_(array), i_(i) {}
    __device__ operator T() const { return array_.read(i_, array_.template lanes_here<const Reference>()); }
    __device__ const Reference& operator=(T value) const {
      array_.store(i_, value, array_.template lanes_here<Reference>());
      return *this;
    }
    __device__ const Reference& operator=(const Reference& other) const { return *this = static_cast<T>(other); }

   private:
    const Array& array_;
    std::size_t i_;
  };
  __device__ Reference operator[](std::size_t i) const { return Reference(*this, i); }

 private:
  friend Reader;
  friend Writer;
  __device__ Held take(const Lanes& lanes, std::uint32_t page, Access access) const {
    return enter<Protocol>(this->region_, lanes, page, access);
  }
  __device__ void give_back(const Lanes& lanes, std::uint32_t page, const Held& held, Access access) const {
    leave<Protocol>(lanes, this->region_.states + page, held, access);
  }
};

/// Array that is never written and whose pages are never evicted, so a page that has been fetched is used without
/// taking a reference.
template <class T>
class ReadOnlyArray : public detail::Layout<T> {
 public:
  using Element = T;
  using Reader = Cursor<ReadOnlyArray, Access::read>;

  __host__ __device__ explicit ReadOnlyArray(const ReadOnlyRegion& only) : detail::Layout<T>(only.region) {}

  __device__ Reader window(std::size_t i, const Lanes& lanes = Lanes::warp()) const { return Reader(*this, lanes, i); }
  __device__ Reader reader(const Lanes& lanes = Lanes::warp()) const { return Reader(*this, lanes); }
  __device__ T read(std::size_t i, const Lanes& lanes) const { return reader(lanes).read(i); }
  __device__ T operator[](std::size_t i) const { return read(i, this->template lanes_here<ReadOnlyArray>()); }

 private:
  friend Reader;
  __device__ Held take(const Lanes& lanes, std::uint32_t page, Access access) const {
    State* word = this->region_.states + page;
    State seen = 0;
    if (lanes.leads()) {
      seen = device::load_relaxed(word);
      __threadfence();
    }
    seen = device::shuffle(lanes.mask, seen, lanes.leader);
    device::sync_warp(lanes.mask);
    if (valid(seen))
      return {this->region_.frames + (static_cast<std::size_t>(frame(seen)) << this->region_.page_shift), false};
    const Held held = enter(this->region_, lanes, page, access);
    leave(lanes, word, held, access);
    return held;
  }
  __device__ void give_back(const Lanes&, std::uint32_t, const Held&, Access) const {}
};

}  // namespace isthmus::paging
