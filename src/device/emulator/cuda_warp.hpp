#pragma once

// CUDA's spellings of the warp operations, with exactly CUDA's overloads. A mask has as many lanes as the warp: CUDA's
// masks of 32 bits name the lower half of a warp of 64, and the others' call with one is a fault.

inline void __syncwarp(isthmus::device::LaneMask mask = ~isthmus::device::LaneMask{0},
                       const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  using namespace isthmus::device::emulator;
  warp_operation(WarpOperation::syncwarp, mask, nullptr, 0, 0, file, line);
}

namespace isthmus::device::emulator {

/// The lane that a shuffle reads in a warp that `width` cuts into segments. Beyond its own segment's end (and for `up`
/// its beginning) a lane reads itself.
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
  if (width == 0) width = device::warp_size();
  if (width < 1 || width > device::warp_size() || (width & (width - 1)) != 0) {
    misuse(operation, "width", width, "use a power of two up to warpSize", file, line);
  }
  return exchange(operation, mask, value, segment_source(operation, device::lane(), argument, width), file, line);
}

}  // namespace isthmus::device::emulator

// Width 0 stands for warpSize, which is no constant here.
#define ISTHMUS_SHUFFLES(TYPE)                                                                                      \
  inline TYPE __shfl_sync(isthmus::device::LaneMask mask, TYPE value, int source, int width = 0,                    \
                          const char* file = __builtin_FILE(), int line = __builtin_LINE()) {                       \
    using namespace isthmus::device::emulator;                                                                      \
    return segment_shuffle(WarpOperation::shfl_sync, mask, value, source, width, file, line);                       \
  }                                                                                                                 \
  inline TYPE __shfl_up_sync(isthmus::device::LaneMask mask, TYPE value, unsigned delta, int width = 0,             \
                             const char* file = __builtin_FILE(), int line = __builtin_LINE()) {                    \
    using namespace isthmus::device::emulator;                                                                      \
    return segment_shuffle(WarpOperation::shfl_up_sync, mask, value, static_cast<int>(delta), width, file, line);   \
  }                                                                                                                 \
  inline TYPE __shfl_down_sync(isthmus::device::LaneMask mask, TYPE value, unsigned delta, int width = 0,           \
                               const char* file = __builtin_FILE(), int line = __builtin_LINE()) {                  \
    using namespace isthmus::device::emulator;                                                                      \
    return segment_shuffle(WarpOperation::shfl_down_sync, mask, value, static_cast<int>(delta), width, file, line); \
  }                                                                                                                 \
  inline TYPE __shfl_xor_sync(isthmus::device::LaneMask mask, TYPE value, int bits, int width = 0,                  \
                              const char* file = __builtin_FILE(), int line = __builtin_LINE()) {                   \
    using namespace isthmus::device::emulator;                                                                      \
    return segment_shuffle(WarpOperation::shfl_xor_sync, mask, value, bits, width, file, line);                     \
  }

#define ISTHMUS_MATCHES(TYPE)                                                                                         \
  inline isthmus::device::LaneMask __match_any_sync(                                                                  \
      isthmus::device::LaneMask mask, TYPE value, const char* file = __builtin_FILE(), int line = __builtin_LINE()) { \
    using namespace isthmus::device::emulator;                                                                        \
    return exchange(WarpOperation::match_any_sync, mask, bits_of_value(value), 0, file, line);                        \
  }                                                                                                                   \
  inline isthmus::device::LaneMask __match_all_sync(isthmus::device::LaneMask mask, TYPE value, int* same,            \
                                                    const char* file = __builtin_FILE(),                              \
                                                    int line = __builtin_LINE()) {                                    \
    using namespace isthmus::device::emulator;                                                                        \
    *same = exchange(WarpOperation::match_all_sync, mask, bits_of_value(value), 0, file, line) != 0 ? 1 : 0;          \
    return *same != 0 ? mask & isthmus::device::full_warp() : 0;                                                      \
  }

#define ISTHMUS_SHUFFLES_AND_MATCHES(TYPE) ISTHMUS_SHUFFLES(TYPE) ISTHMUS_MATCHES(TYPE)
ISTHMUS_SHUFFLES_AND_MATCHES(int)
ISTHMUS_SHUFFLES_AND_MATCHES(unsigned)
ISTHMUS_SHUFFLES_AND_MATCHES(long)
ISTHMUS_SHUFFLES_AND_MATCHES(unsigned long)
ISTHMUS_SHUFFLES_AND_MATCHES(long long)
ISTHMUS_SHUFFLES_AND_MATCHES(unsigned long long)
ISTHMUS_SHUFFLES_AND_MATCHES(float)
ISTHMUS_SHUFFLES_AND_MATCHES(double)
#undef ISTHMUS_SHUFFLES_AND_MATCHES
#undef ISTHMUS_MATCHES
#undef ISTHMUS_SHUFFLES

inline isthmus::device::LaneMask __ballot_sync(isthmus::device::LaneMask mask, int predicate,
                                               const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  using namespace isthmus::device;
  return emulator::exchange<LaneMask>(emulator::WarpOperation::ballot_sync, mask, predicate != 0, 0, file, line);
}
inline int __any_sync(isthmus::device::LaneMask mask, int predicate, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  using namespace isthmus::device;
  return emulator::exchange<LaneMask>(emulator::WarpOperation::any_sync, mask, predicate != 0, 0, file, line) != 0;
}
inline int __all_sync(isthmus::device::LaneMask mask, int predicate, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  using namespace isthmus::device;
  return emulator::exchange<LaneMask>(emulator::WarpOperation::all_sync, mask, predicate != 0, 0, file, line) != 0;
}

#define warpSize (::isthmus::device::warp_size())
