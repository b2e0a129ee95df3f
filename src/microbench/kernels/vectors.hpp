#pragma once

// The host side that saxpy, vector_seq and vector_rand share: kernels that work through vectors piece by piece, and
// take the vectors, a number of elements, what `more` is, and the number of iterations.

#include <tuple>

#include "microbench/kernels/choices.hpp"

namespace isthmus::microbench {

template <class... V>
class VectorKernels {
 public:
  /// `unit` elements are a unit of `streamed`: whole tiles of any size; 0 where the vectors cannot be cut.
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

  /// Calls use(how, depth, reuse_shared) with the compiled constants of a staging that is not `none`.
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
  if (c.choice("reuse") == "shared")
    c.fallback("none keeps elements in registers: there is no tile that they could live in");
}

}  // namespace isthmus::microbench
