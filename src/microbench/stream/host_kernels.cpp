// Standard stores are loops like those of STREAM, which the compiler vectorizes. It must not turn them into calls of
// memcpy, because C libraries store long copies past the caches at their own discretion. The pragma tells GCC;
// CMakeLists.txt tells Clang.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

#include "microbench/stream/host_kernels.hpp"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace isthmus::microbench::stream {

namespace {

/// Vector that fits into one register of every 64-bit CPU that we know of.
using Vector = double __attribute__((vector_size(16)));
constexpr std::size_t kLanes = sizeof(Vector) / sizeof(double);

Vector load(const double* from) {
  return *reinterpret_cast<const Vector*>(from);
}

#if defined(__x86_64__)
constexpr bool kCanStream = true;
void store_past_caches(double* to, Vector low, Vector high) {
  _mm_stream_pd(to, low);
  _mm_stream_pd(to + kLanes, high);
}
void finish_stores() {
  _mm_sfence();  // non-temporal stores are not ordered with others
}
#elif defined(__aarch64__)
constexpr bool kCanStream = true;
void store_past_caches(double* to, Vector low, Vector high) {
  __asm__ volatile("stnp %q0, %q1, [%2]" ::"w"(low), "w"(high), "r"(to) : "memory");
}
void finish_stores() {
  __asm__ volatile("dmb ishst" ::: "memory");
}
#else
constexpr bool kCanStream = false;
void store_past_caches(double* to, Vector low, Vector high) {
  *reinterpret_cast<Vector*>(to) = low;
  *reinterpret_cast<Vector*>(to + kLanes) = high;
}
void finish_stores() {}
#endif

/// Returns the result of the operation, for doubles and for vectors of them.
template <Operation operation, class T>
T result(T first, T second, T scalar) {
  if constexpr (operation == Operation::copy) return first;
  if constexpr (operation == Operation::scale) return scalar * first;
  if constexpr (operation == Operation::add) return first + second;
  if constexpr (operation == Operation::triad) return first + scalar * second;
  if constexpr (operation == Operation::write) return scalar;
}

// for (i = 0; i < count; ++i) out[i] = result(first[i], second[i], scalar);
template <Operation operation>
void store_standard(double* __restrict out, const double* __restrict first, const double* __restrict second,
                    std::size_t count) {
  constexpr unsigned kReads = facts(operation).reads;
  for (std::size_t i = 0; i < count; ++i)
    out[i] = result<operation>(kReads > 0 ? first[i] : 0.0, kReads > 1 ? second[i] : 0.0, kScalar);
}

// Does the same, a cache line at a time: sending half a line to memory costs as much as a whole one.
template <Operation operation>
void store_streaming(double* __restrict out, const double* __restrict first, const double* __restrict second,
                     std::size_t count) {
  constexpr unsigned kReads = facts(operation).reads;
  const Vector scalar = {kScalar, kScalar};
  for (std::size_t i = 0; i < count; i += kPiece) {
    Vector line[kPiece / kLanes];
    for (std::size_t j = 0; j < kPiece / kLanes; ++j) {
      const std::size_t at = i + j * kLanes;
      line[j] =
          result<operation>(kReads > 0 ? load(first + at) : scalar, kReads > 1 ? load(second + at) : scalar, scalar);
    }
    for (std::size_t j = 0; j < kPiece / kLanes; j += 2) store_past_caches(out + i + j * kLanes, line[j], line[j + 1]);
  }
  finish_stores();
}

// for (i = 0; i < count; ++i) sum += from[i];
//
// Several sums run in parallel: an addition takes four cycles, in which a core can read two lines.
double sum_of(const double* from, std::size_t count) {
  constexpr std::size_t kSums = 2 * kPiece / kLanes;
  Vector sums[kSums] = {};
  std::size_t i = 0;
  for (; i + 2 * kPiece <= count; i += 2 * kPiece) {
    for (std::size_t j = 0; j < kSums; ++j) sums[j] += load(from + i + j * kLanes);
  }
  double total = 0;
  for (; i < count; ++i) total += from[i];
  for (const auto& sum : sums) total += sum[0] + sum[1];
  return total;
}

template <Operation operation>
void store(Stores stores, const Arrays& arrays, std::size_t begin, std::size_t end) {
  const double* first = facts(operation).reads > 0 ? arrays.first + begin : nullptr;
  const double* second = facts(operation).reads > 1 ? arrays.second + begin : nullptr;
  if (stores == Stores::streaming) {
    store_streaming<operation>(arrays.out + begin, first, second, end - begin);
  } else {
    store_standard<operation>(arrays.out + begin, first, second, end - begin);
  }
}

}  // namespace

bool has_streaming_stores() noexcept {
  return kCanStream;
}

double run_on_host(Operation operation, Stores stores, const Arrays& arrays, std::size_t first, std::size_t last) {
  switch (operation) {
    case Operation::copy:
      store<Operation::copy>(stores, arrays, first, last);
      return 0;
    case Operation::scale:
      store<Operation::scale>(stores, arrays, first, last);
      return 0;
    case Operation::add:
      store<Operation::add>(stores, arrays, first, last);
      return 0;
    case Operation::triad:
      store<Operation::triad>(stores, arrays, first, last);
      return 0;
    case Operation::write:
      store<Operation::write>(stores, arrays, first, last);
      return 0;
    case Operation::read:
      return sum_of(arrays.first + first, last - first);
  }
  return 0;
}

}  // namespace isthmus::microbench::stream
