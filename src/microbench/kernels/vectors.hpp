#pragma once

// Code shared by saxpy, vector_seq and vector_rand: the tiles of a block, and the host side of kernels that process
// vectors in pieces. The arguments of such a kernel are the vectors, a number of elements, the arguments `more`, and
// the number of iterations.

#include <tuple>

#include "microbench/kernels/choices.hpp"

namespace isthmus::microbench {

/// Tiles of this block in a vector of n elements: every gridDim.x-th tile. The vector's last tile may be shorter.
struct BlockTiles {
  std::size_t n;
  unsigned elements;  // elements of a whole tile

  __device__ std::uint64_t count() const {
    const std::uint64_t all = (n + elements - 1) / elements;
    return blockIdx.x < all ? (all - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
  }
  __device__ std::size_t first(std::uint64_t tile) const { return (blockIdx.x + tile * gridDim.x) * elements; }
  __device__ unsigned size(std::uint64_t tile) const {
    const std::size_t left = n - first(tile);
    return left < elements ? static_cast<unsigned>(left) : elements;
  }
};

template <class... V>
class VectorKernels {
 public:
  /// Divides the vectors into units of `unit` elements for placement `streamed`; 0 if they cannot be divided. `unit` is
  /// a multiple of every tile size.
  VectorKernels(Case& c, std::size_t unit, const workload::Traffic& traffic, const workload::Buffer<V>&... vectors)
      : c_(c), n_(c.extent("n")), unit_(unit), traffic_(traffic), vectors_(vectors...) {
    if (unit_ > 0) c.chunks(divide_up(n_, unit_));
  }

  template <class Kernel, class... More>
  void measure(Kernel kernel, std::size_t shared_bytes, std::uint64_t piece, unsigned waves, More... more) {
    const auto threads = static_cast<unsigned>(c_.integer("threads"));
    const auto iterations = static_cast<unsigned>(c_.integer("iterations"));
    const auto shape = prepare(c_, kernel, threads, shared_bytes, divide_up(n_, piece), waves);
    c_.measure(Control::queued, [=, this](Run& run) {
      const std::size_t first = run.chunk().first * unit_;
      const std::size_t count = unit_ > 0 ? std::min(run.chunk().count * unit_, n_ - first) : n_;
      std::apply(
          [&](const auto&... vector) {
            run.launch(kernel, shape_for_chunk(shape, divide_up(count, piece)),
                       traffic_ * (static_cast<double>(count) / static_cast<double>(n_)), vector.device() + first...,
                       count, more..., iterations);
          },
          vectors_);
    });
  }

  /// Calls use(how, depth, reuse_shared) with the compile-time constants of a staging other than `none`.
  template <class Use>
  void staged(Staging staging, Use use) {
    with_pipeline(staging, c_.integer("depth"), [&](auto how, auto depth) {
      Choices<false, true>::with(c_.choice("reuse") == "shared", [&](auto shared) { use(how, depth, shared); });
    });
  }

 private:
  Case& c_;
  const std::size_t n_, unit_;
  const workload::Traffic traffic_;
  const std::tuple<workload::Buffer<V>...> vectors_;
};

inline void refuse_reuse_without_tiles(Case& c) {
  if (c.choice("reuse") == "shared") c.fallback("none keeps elements in registers: there is no tile for them");
}

}  // namespace isthmus::microbench
