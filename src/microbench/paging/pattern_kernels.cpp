#include "microbench/paging/pairs.hpp"
#include "microbench/paging/pattern.hpp"
#include "paging/array.hpp"

namespace isthmus::microbench::paged {
namespace {

using paging::Array, paging::Lanes;

/// Pages in ordinary memory, with the interface of paging::Array, whose pages are in frames.
class Plain {
 public:
  class Reader {
   public:
    __device__ explicit Reader(const Plain& pages) : pages_(pages) {}
    __device__ void move_to(std::uint64_t i) { data_ = pages_.memory_ + (i - pages_.first_); }
    __device__ const Pair* data() const { return data_; }

   private:
    const Plain& pages_;
    const Pair* data_ = nullptr;
  };

  /// Creates a view whose memory begins with element `first`.
  Plain(const Pair* memory, std::uint64_t first) : memory_(memory), first_(first) {}
  __device__ Reader reader(const Lanes&) const { return Reader(*this); }

 private:
  const Pair* memory_;
  std::uint64_t first_;
};

// for (turn = first; turn < last; ++turn) for (word = first_word(turn); word < last_word(turn); ++word) sum += a[word];
template <class Pages>
__global__ void __launch_bounds__(kThreads, kBlocksEach)
    sum_pattern(Pages pages, Pattern pattern, std::uint64_t first, std::uint64_t last, unsigned long long* sum,
                unsigned long long* next) {
  constexpr unsigned kWords = sizeof(Pair) / sizeof(unsigned long long);
  unsigned long long part = 0;
  auto reader = pages.reader(Lanes::full_warp());
  for (std::uint64_t turn = first + take_next(next); turn < last; turn = first + take_next(next)) {
    const std::uint64_t from = pattern.first_word(turn);
    reader.move_to(from / kWords);
    part += sum_of(reader.data(), (pattern.last_word(turn) - from) / kWords);
  }
  atomicAdd(sum, part);
}

}  // namespace

device::KernelInfo info_of(const PlainTurns&, const device::LaunchShape& shape) {
  return device::kernel_info(ISTHMUS_KERNEL(sum_pattern<Plain>), shape);
}

device::KernelInfo info_of(const PagedTurns&, const device::LaunchShape& shape) {
  return device::kernel_info(ISTHMUS_KERNEL(sum_pattern<Array<Pair>>), shape);
}

void queue(device::Stream& stream, const device::LaunchShape& shape, const PlainTurns& work, unsigned long long* sum,
           unsigned long long* next) {
  const std::uint64_t first = work.first_page * work.pattern.page_words * sizeof *sum / sizeof(Pair);
  device::fill_async(next, 0, sizeof *next, stream);
  device::launch(stream, ISTHMUS_KERNEL(sum_pattern<Plain>), shape,
                 Plain(reinterpret_cast<const Pair*>(work.memory), first), work.pattern, work.first, work.last, sum,
                 next);
}

void queue(device::Stream& stream, paging::Pager& pager, const device::LaunchShape& shape, const PagedTurns& work,
           unsigned long long* sum, unsigned long long* next) {
  device::fill_async(next, 0, sizeof *next, stream);
  pager.launch(stream, ISTHMUS_KERNEL(sum_pattern<Array<Pair>>), shape, {}, Array<Pair>(work.region), work.pattern,
               std::uint64_t{0}, work.pattern.touched, sum, next);
}

}  // namespace isthmus::microbench::paged
