#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace isthmus::workload {

/// Interface that returns the addresses of declared buffers; the harness implements it.
class BufferAddresses {
 public:
  virtual ~BufferAddresses() = default;
  /// Return an address; throw std::logic_error if the buffer does not have such memory or has not been allocated yet.
  virtual std::byte* device(std::size_t buffer) const = 0;
  virtual std::byte* host(std::size_t buffer) const = 0;
};

/// Handle to a declared buffer; the pointers are valid inside measure() and verify().
template <class T>
class Buffer {
 public:
  T* device() const { return reinterpret_cast<T*>(addresses_->device(index_)); }
  T* host() const { return reinterpret_cast<T*>(addresses_->host(index_)); }
  std::size_t size() const { return elements_; }
  /// Returns the number of elements from one row to the next (a matrix pads rows to 128 bytes).
  std::size_t pitch() const { return pitch_; }
  std::size_t index() const { return index_; }

 private:
  friend class Case;
  Buffer(const BufferAddresses& addresses, std::size_t index, std::size_t elements, std::size_t pitch)
      : addresses_(&addresses), index_(index), elements_(elements), pitch_(pitch) {}
  const BufferAddresses* addresses_;
  std::size_t index_, elements_, pitch_;
};

/// Buffers whose pages the body's kernels can copy themselves, in a placement that supports it.
struct PagedBuffers {
  std::vector<std::size_t> indices{};
};
template <class... T>
PagedBuffers paged(const Buffer<T>&... buffers) {
  return {{buffers.index()...}};
}

/// Returns the padded length of a row in elements. Rows padded to 128 bytes are aligned for 16-byte and bulk copies.
template <class T>
constexpr std::size_t row_pitch(std::size_t columns) {
  constexpr std::size_t unit = 128 / sizeof(T);
  return (columns + unit - 1) / unit * unit;
}

/// Inputs that can only be made as a whole (a graph, an image, a network). They are made on first access, once for all
/// cases with the same inputs, and not at all if only the footprint is needed.
template <class T>
class Shared {
 public:
  const T& operator*() const { return *static_cast<const T*>(get_()); }
  const T* operator->() const { return &**this; }

 private:
  friend class Case;
  explicit Shared(std::function<const void*()> get) : get_(std::move(get)) {}
  std::function<const void*()> get_;
};

}  // namespace isthmus::workload
