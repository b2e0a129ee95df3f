#pragma once

// Arrays in paged memory, for kernels. They are made of what Pager::open() gives and passed to kernels by value:
//
//   __global__ void sum(paging::Array<float> a, double* result) {
//     …
//     for (std::size_t i = first; i < last;) {     // the whole warp together
//       const auto window = a.window(i);           // one page, held until the end of the scope
//       for (std::size_t j = i + lane(); j < min(last, window.last()); j += warp_size()) part += window[j];
//       i = window.last();
//     }
//
// A group of lanes enters a page once for all of it that want the page, and copies it together. Lanes may say no group,
// wherever they are: a[i] = a[j] + 1. The group is then whoever came there together, which is chance, and a page is
// held for the length of the call only.
//
// What a kernel holds at once is what its launch declares (Pager::launch): a window, a reader or a writer holds one
// page for its group; everything else holds one for the length of the call.

#include <type_traits>

#include "device/kernel/lanes_here.hpp"
#include "paging/fault.hpp"

namespace isthmus::paging {

namespace detail {

/// Where the elements of a region are.
template <class T>
class Layout {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 4096 && (sizeof(T) & (sizeof(T) - 1)) == 0,
                "an element must not lie on two pages: its size is a power of two, 4096 at most");

 public:
  __host__ __device__ explicit Layout(const Region& region) : region_(region) {}
  __device__ std::size_t size() const { return region_.bytes / sizeof(T); }

  // For cursors.
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
  /// The lanes that are here with the caller, and at the same array.
  template <class Place>
  __device__ Lanes lanes_here() const {
    return Lanes(device::match_any(device::lanes_here<Place>(), reinterpret_cast<std::uintptr_t>(region_.states)));
  }

  Region region_;
};

}  // namespace detail

/// One page that a group of lanes holds, and moves on to another where they go. Not to be copied: who has it, holds.
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

  /// Calls `action` with the address of element `i`, each lane its own, while its page is held. All lanes of the group
  /// call it; one whose index is beyond the array's end only helps.
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
    static_assert(access == Access::write, "a reader stores nothing: ask for a writer");
    visit(i, [&](T* element) { *element = value; });
  }

  /// Goes to the page of element `i`, the same of all lanes of the group.
  __device__ void move_to(std::size_t i) {
    if (i - first_ >= count_) move(pages_.page_of(i));
  }
  /// Elements of the page that is held.
  __device__ std::size_t first() const { return first_; }
  __device__ std::size_t last() const { return first_ + count_; }
  __device__ std::conditional_t<access == Access::write, T*, const T*> data() const { return data_; }
  __device__ auto& operator[](std::size_t i) const { return data()[i - first_]; }

  /// Holds nothing until the next access.
  __device__ void release() {
    if (data_ == nullptr) return;  // a page may be held and have no whole element
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
  T* data_ = nullptr;  ///< none: holds nothing
  std::size_t first_ = 0, count_ = 0;
};

/// An array whose pages come and go.
template <class T, class Protocol = Sound>
class Array : public detail::Layout<T> {
 public:
  using Element = T;
  using Reader = Cursor<Array, Access::read>;
  using Writer = Cursor<Array, Access::write>;
  using detail::Layout<T>::Layout;

  /// The page of element `i`, which is the same for the whole group: at once, and until the end of the scope.
  __device__ Reader window(std::size_t i, const Lanes& lanes = Lanes::warp()) const { return Reader(*this, lanes, i); }
  __device__ Reader reader(const Lanes& lanes = Lanes::warp()) const { return Reader(*this, lanes); }
  __device__ Writer writer(const Lanes& lanes = Lanes::warp()) const { return Writer(*this, lanes); }

  // Each lane of the group has an index of its own.
  __device__ T read(std::size_t i, const Lanes& lanes) const { return reader(lanes).read(i); }
  __device__ void store(std::size_t i, T value, const Lanes& lanes) const { writer(lanes).store(i, value); }
  /// `action` gets the element's address, for an atomic.
  template <class Action>
  __device__ void update(std::size_t i, Action action, const Lanes& lanes) const {
    writer(lanes).visit(i, action);
  }

  /// An element, for whichever lanes come.
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

/// An array that nobody writes and none of whose pages ever leaves: a page that has come is used without a reference.
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
