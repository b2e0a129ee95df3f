#pragma once

// CUDA's spellings of the warp operations, with exactly CUDA's overloads. A mask has as many bits as the warp has
// lanes: one of CUDA's 32-bit masks means the lower half of a warp of 64 lanes, and a call with such a mask by the
// other lanes is a fault.

inline void __syncwarp(emulator::LaneMask mask = ~emulator::LaneMask{0}, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  using namespace emulator::detail;
  warp_operation(WarpOperation::syncwarp, mask, nullptr, 0, 0, file, line);
}

namespace emulator::detail {

/// Returns the lane that a shuffle reads, in a warp that is divided into segments of `width` lanes. A lane reads its
/// own value if the source is beyond the end of the segment (for `up`, before its beginning).
inline int segment_source(WarpOperation operation, int own, int argument, int width) {
  const int first = own & ~(width - 1), end = first + width;
  switch (operation) {
    case WarpOperation::shfl_up_sync:
      return own - argument < first ? own : own - argument;
    case WarpOperation::shfl_down_sync:
      return own + argument >= end ? own : own + argument;
    case WarpOperation::shfl_xor_sync:
      return (own ^ argument) >= end ? own : own ^ argument;
    default:
      return first + (argument & (width - 1));
  }
}

template <class T>
T segment_shuffle(WarpOperation operation, LaneMask mask, T value, int argument, int width, const char* file,
                  int line) {
  if (width == 0) width = warp_size();
  if (width < 1 || width > warp_size() || (width & (width - 1)) != 0) {
    misuse(operation, "width", width, "use a power of two up to warpSize", file, line);
  }
  return exchange(operation, mask, value, segment_source(operation, lane(), argument, width), file, line);
}

}  // namespace emulator::detail

// Width 0 means warpSize, which is not a compile-time constant here.
#define EMULATOR_SHUFFLES(TYPE)                                                                                     \
  inline TYPE __shfl_sync(emulator::LaneMask mask, TYPE value, int source, int width = 0,                           \
                          const char* file = __builtin_FILE(), int line = __builtin_LINE()) {                       \
    using namespace emulator::detail;                                                                               \
    return segment_shuffle(WarpOperation::shfl_sync, mask, value, source, width, file, line);                       \
  }                                                                                                                 \
  inline TYPE __shfl_up_sync(emulator::LaneMask mask, TYPE value, unsigned delta, int width = 0,                    \
                             const char* file = __builtin_FILE(), int line = __builtin_LINE()) {                    \
    using namespace emulator::detail;                                                                               \
    return segment_shuffle(WarpOperation::shfl_up_sync, mask, value, static_cast<int>(delta), width, file, line);   \
  }                                                                                                                 \
  inline TYPE __shfl_down_sync(emulator::LaneMask mask, TYPE value, unsigned delta, int width = 0,                  \
                               const char* file = __builtin_FILE(), int line = __builtin_LINE()) {                  \
    using namespace emulator::detail;                                                                               \
    return segment_shuffle(WarpOperation::shfl_down_sync, mask, value, static_cast<int>(delta), width, file, line); \
  }                                                                                                                 \
  inline TYPE __shfl_xor_sync(emulator::LaneMask mask, TYPE value, int bits, int width = 0,                         \
                              const char* file = __builtin_FILE(), int line = __builtin_LINE()) {                   \
    using namespace emulator::detail;                                                                               \
    return segment_shuffle(WarpOperation::shfl_xor_sync, mask, value, bits, width, file, line);                     \
  }

#define EMULATOR_MATCHES(TYPE)                                                                                         \
  inline emulator::LaneMask __match_any_sync(emulator::LaneMask mask, TYPE value, const char* file = __builtin_FILE(), \
                                             int line = __builtin_LINE()) {                                            \
    using namespace emulator::detail;                                                                                  \
    return exchange(WarpOperation::match_any_sync, mask, bits_of_value(value), 0, file, line);                         \
  }                                                                                                                    \
  inline emulator::LaneMask __match_all_sync(emulator::LaneMask mask, TYPE value, int* same,                           \
                                             const char* file = __builtin_FILE(), int line = __builtin_LINE()) {       \
    using namespace emulator::detail;                                                                                  \
    *same = exchange(WarpOperation::match_all_sync, mask, bits_of_value(value), 0, file, line) != 0 ? 1 : 0;           \
    return *same != 0 ? mask & emulator::full_warp() : 0;                                                              \
  }

#define EMULATOR_SHUFFLES_AND_MATCHES(TYPE) EMULATOR_SHUFFLES(TYPE) EMULATOR_MATCHES(TYPE)
EMULATOR_SHUFFLES_AND_MATCHES(int)
EMULATOR_SHUFFLES_AND_MATCHES(unsigned)
EMULATOR_SHUFFLES_AND_MATCHES(long)
EMULATOR_SHUFFLES_AND_MATCHES(unsigned long)
EMULATOR_SHUFFLES_AND_MATCHES(long long)
EMULATOR_SHUFFLES_AND_MATCHES(unsigned long long)
EMULATOR_SHUFFLES_AND_MATCHES(float)
EMULATOR_SHUFFLES_AND_MATCHES(double)
#undef EMULATOR_SHUFFLES_AND_MATCHES
#undef EMULATOR_MATCHES
#undef EMULATOR_SHUFFLES

inline emulator::LaneMask __ballot_sync(emulator::LaneMask mask, int predicate, const char* file = __builtin_FILE(),
                                        int line = __builtin_LINE()) {
  return emulator::detail::exchange<emulator::LaneMask>(emulator::detail::WarpOperation::ballot_sync, mask,
                                                        predicate != 0, 0, file, line);
}
inline int __any_sync(emulator::LaneMask mask, int predicate, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  return emulator::detail::exchange<emulator::LaneMask>(emulator::detail::WarpOperation::any_sync, mask, predicate != 0,
                                                        0, file, line) != 0;
}
inline int __all_sync(emulator::LaneMask mask, int predicate, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  return emulator::detail::exchange<emulator::LaneMask>(emulator::detail::WarpOperation::all_sync, mask, predicate != 0,
                                                        0, file, line) != 0;
}

#define warpSize (::emulator::warp_size())
