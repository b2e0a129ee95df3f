#pragma once

// CUDA's bit counts, conversions, roundings and fast functions for host C++, with CUDA's overloads. The fast functions
// (__expf and similar functions) are exact here: the emulator does not reproduce their errors on a GPU.

#include <cmath>
#include <limits>
#include <type_traits>

#include "emulator/vector_types.hpp"

// --- bits ------------------------------------------------------------------------------------------

inline int __popc(unsigned v) {
  return __builtin_popcount(v);
}
inline int __popcll(unsigned long long v) {
  return __builtin_popcountll(v);
}
inline int __ffs(int v) {
  return __builtin_ffs(v);
}
inline int __ffsll(long long v) {
  return __builtin_ffsll(v);
}
inline int __clz(int v) {
  return v == 0 ? 32 : __builtin_clz(static_cast<unsigned>(v));
}
inline int __clzll(long long v) {
  return v == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(v));
}
// Lane masks have 64 bits: functions that count only 32 of them would be correct for only one vendor.
#define EMULATOR_REFUSED_WIDE(NAME, WIDE)                                                                   \
  template <class T>                                                                                        \
    requires(std::is_integral_v<T> && sizeof(T) == 8)                                                       \
  int NAME(T) {                                                                                             \
    static_assert(sizeof(T) != 8, #NAME " takes 32 bits, but lane masks have 64: use " #WIDE " for those"); \
    return 0;                                                                                               \
  }
EMULATOR_REFUSED_WIDE(__popc, __popcll)
EMULATOR_REFUSED_WIDE(__ffs, __ffsll)
EMULATOR_REFUSED_WIDE(__clz, __clzll)
#undef EMULATOR_REFUSED_WIDE
inline unsigned long long __brevll(unsigned long long v) {
  unsigned long long reversed = 0;
  for (int bit = 0; bit < 64; ++bit) reversed |= (v >> bit & 1) << (63 - bit);
  return reversed;
}
inline unsigned __brev(unsigned v) {
  return static_cast<unsigned>(__brevll(v) >> 32);
}
/// Returns four of the eight bytes of (high, low), each selected by one nibble of `selector`.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const unsigned long long bytes = static_cast<unsigned long long>(high) << 32 | low;
  unsigned picked = 0;
  for (int i = 0; i < 4; ++i) {
    picked |= static_cast<unsigned>(bytes >> (selector >> (4 * i) & 7) * 8 & 0xff) << (8 * i);
  }
  return picked;
}
inline int __mulhi(int a, int b) {
  return static_cast<int>(static_cast<long long>(a) * b >> 32);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
inline long long __mul64hi(long long a, long long b) {
  return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}

inline int __float_as_int(float v) {
  return __builtin_bit_cast(int, v);
}
inline unsigned __float_as_uint(float v) {
  return __builtin_bit_cast(unsigned, v);
}
inline float __int_as_float(int v) {
  return __builtin_bit_cast(float, v);
}
inline float __uint_as_float(unsigned v) {
  return __builtin_bit_cast(float, v);
}
inline long long __double_as_longlong(double v) {
  return __builtin_bit_cast(long long, v);
}
inline double __longlong_as_double(long long v) {
  return __builtin_bit_cast(double, v);
}

// --- conversions -----------------------------------------------------------------------------------

namespace emulator {

/// Converts a value that is already integral. Values that are out of range become the nearest representable value, as
/// on NVIDIA's GPUs; NaN becomes `of_nan`.
template <class To>
To saturate(double whole, To of_nan) {
  using Limits = std::numeric_limits<To>;
  if (std::isnan(whole)) return of_nan;
  if (whole <= static_cast<double>(Limits::min())) return Limits::min();
  if (whole >= static_cast<double>(Limits::max())) return Limits::max();
  return static_cast<To>(whole);
}

}  // namespace emulator

#define EMULATOR_TO_INTEGER(FROM_NAME, FROM, TO_NAME, TO, OF_NAN)       \
  inline TO __##FROM_NAME##2##TO_NAME##_rn(FROM v) {                    \
    return ::emulator::saturate<TO>(std::nearbyint(double{v}), OF_NAN); \
  }                                                                     \
  inline TO __##FROM_NAME##2##TO_NAME##_rz(FROM v) {                    \
    return ::emulator::saturate<TO>(std::trunc(double{v}), OF_NAN);     \
  }                                                                     \
  inline TO __##FROM_NAME##2##TO_NAME##_ru(FROM v) {                    \
    return ::emulator::saturate<TO>(std::ceil(double{v}), OF_NAN);      \
  }                                                                     \
  inline TO __##FROM_NAME##2##TO_NAME##_rd(FROM v) {                    \
    return ::emulator::saturate<TO>(std::floor(double{v}), OF_NAN);     \
  }
EMULATOR_TO_INTEGER(float, float, int, int, 0)
EMULATOR_TO_INTEGER(float, float, uint, unsigned, 0)
EMULATOR_TO_INTEGER(float, float, ll, long long, std::numeric_limits<long long>::min())
EMULATOR_TO_INTEGER(float, float, ull, unsigned long long, 1ULL << 63)
EMULATOR_TO_INTEGER(double, double, int, int, std::numeric_limits<int>::min())
EMULATOR_TO_INTEGER(double, double, uint, unsigned, 1u << 31)
EMULATOR_TO_INTEGER(double, double, ll, long long, std::numeric_limits<long long>::min())
EMULATOR_TO_INTEGER(double, double, ull, unsigned long long, 1ULL << 63)
#undef EMULATOR_TO_INTEGER

inline float __int2float_rn(int v) {
  return static_cast<float>(v);
}
inline float __uint2float_rn(unsigned v) {
  return static_cast<float>(v);
}
inline float __ll2float_rn(long long v) {
  return static_cast<float>(v);
}
inline float __ull2float_rn(unsigned long long v) {
  return static_cast<float>(v);
}
inline double __int2double_rn(int v) {
  return v;
}
inline double __ll2double_rn(long long v) {
  return static_cast<double>(v);
}
inline float __double2float_rn(double v) {
  return static_cast<float>(v);
}

// --- arithmetic that the compiler may not contract, and fast functions ------------------------------

inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline float __frcp_rn(float v) {
  return 1.0f / v;
}
inline float __fsqrt_rn(float v) {
  return std::sqrt(v);
}
inline double __dadd_rn(double a, double b) {
  return a + b;
}
inline double __dmul_rn(double a, double b) {
  return a * b;
}
inline double __fma_rn(double a, double b, double c) {
  return std::fma(a, b, c);
}
inline float rsqrtf(float v) {
  return static_cast<float>(1 / std::sqrt(double{v}));
}
inline double rsqrt(double v) {
  return 1 / std::sqrt(v);
}
inline float __saturatef(float v) {
  return v > 0 ? std::fmin(v, 1.0f) : 0.0f;  // returns 0 for NaN
}
inline float __expf(float v) {
  return std::exp(v);
}
inline float __exp10f(float v) {
  return static_cast<float>(std::pow(10.0, double{v}));
}
inline float __logf(float v) {
  return std::log(v);
}
inline float __log2f(float v) {
  return std::log2(v);
}
inline float __log10f(float v) {
  return std::log10(v);
}
inline float __powf(float a, float b) {
  return std::pow(a, b);
}
inline float __sinf(float v) {
  return std::sin(v);
}
inline float __cosf(float v) {
  return std::cos(v);
}
inline float __fdividef(float a, float b) {
  return a / b;
}

// --- min and max -----------------------------------------------------------------------------------

#define EMULATOR_MIN_MAX(TYPE)         \
  constexpr TYPE min(TYPE a, TYPE b) { \
    return b < a ? b : a;              \
  }                                    \
  constexpr TYPE max(TYPE a, TYPE b) { \
    return a < b ? b : a;              \
  }
// Mixed signed and unsigned operands become unsigned, as in expressions.
#define EMULATOR_MIN_MAX_MIXED(SIGNED, UNSIGNED) \
  EMULATOR_MIN_MAX(SIGNED)                       \
  EMULATOR_MIN_MAX(UNSIGNED)                     \
  constexpr UNSIGNED min(SIGNED a, UNSIGNED b) { \
    return min(static_cast<UNSIGNED>(a), b);     \
  }                                              \
  constexpr UNSIGNED min(UNSIGNED a, SIGNED b) { \
    return min(a, static_cast<UNSIGNED>(b));     \
  }                                              \
  constexpr UNSIGNED max(SIGNED a, UNSIGNED b) { \
    return max(static_cast<UNSIGNED>(a), b);     \
  }                                              \
  constexpr UNSIGNED max(UNSIGNED a, SIGNED b) { \
    return max(a, static_cast<UNSIGNED>(b));     \
  }
EMULATOR_MIN_MAX_MIXED(int, unsigned)
EMULATOR_MIN_MAX_MIXED(long, unsigned long)
EMULATOR_MIN_MAX_MIXED(long long, unsigned long long)
#undef EMULATOR_MIN_MAX_MIXED
#undef EMULATOR_MIN_MAX
// For a number and a NaN, the result is the number.
inline float min(float a, float b) {
  return std::fmin(a, b);
}
inline float max(float a, float b) {
  return std::fmax(a, b);
}
inline double min(double a, double b) {
  return std::fmin(a, b);
}
inline double max(double a, double b) {
  return std::fmax(a, b);
}
inline double min(float a, double b) {
  return std::fmin(double{a}, b);
}
inline double min(double a, float b) {
  return std::fmin(a, double{b});
}
inline double max(float a, double b) {
  return std::fmax(double{a}, b);
}
inline double max(double a, float b) {
  return std::fmax(a, double{b});
}

// --- loads and stores with a cache hint ------------------------------------------------------------

namespace emulator {

template <class T, class... Others>
inline constexpr bool is_one_of = (std::is_same_v<T, Others> || ...);
/// Types for which CUDA has such loads and stores; bool, pointers, vectors of three elements and structs are not
/// included.
template <class T>
concept CacheHinted =
    is_one_of<std::remove_cv_t<T>, char, signed char, unsigned char, short, unsigned short, int, unsigned, long,
              unsigned long, long long, unsigned long long, float, double, char2, char4, uchar2, uchar4, short2, short4,
              ushort2, ushort4, int2, int4, uint2, uint4, float2, float4, double2, longlong2, ulonglong2>;

}  // namespace emulator

#define EMULATOR_LOAD(NAME)            \
  template <::emulator::CacheHinted T> \
  T NAME(const T* address) {           \
    return *address;                   \
  }
EMULATOR_LOAD(__ldg)
EMULATOR_LOAD(__ldca)
EMULATOR_LOAD(__ldcg)
EMULATOR_LOAD(__ldcs)
EMULATOR_LOAD(__ldcv)
EMULATOR_LOAD(__ldlu)
#undef EMULATOR_LOAD
#define EMULATOR_STORE(NAME)                             \
  template <::emulator::CacheHinted T>                   \
  void NAME(T* address, std::type_identity_t<T> value) { \
    *address = value;                                    \
  }
EMULATOR_STORE(__stwb)
EMULATOR_STORE(__stcg)
EMULATOR_STORE(__stcs)
EMULATOR_STORE(__stwt)
#undef EMULATOR_STORE
