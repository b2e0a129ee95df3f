#include "memory/host_cache.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "memory/parallel.hpp"

namespace isthmus::memory {

namespace {

// Smallest cache line of the CPUs below, in bytes; on CPUs with longer lines, flushing a line twice costs little.
constexpr std::size_t kLine = 64;

#if defined(__x86_64__)

constexpr bool kCanFlush = true;

__attribute__((target("clflushopt"))) void flush_unordered(const std::byte* begin, const std::byte* end) {
  for (; begin < end; begin += kLine) _mm_clflushopt(const_cast<std::byte*>(begin));
  _mm_sfence();
}

void flush(const std::byte* begin, const std::byte* end) {
  static const bool unordered = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_CLFLUSHOPT) != 0;
  }();
  if (unordered) return flush_unordered(begin, end);
  for (; begin < end; begin += kLine) _mm_clflush(begin);
  _mm_mfence();
}

#elif defined(__aarch64__)

constexpr bool kCanFlush = true;

void flush(const std::byte* begin, const std::byte* end) {
  for (; begin < end; begin += kLine) __asm__ volatile("dc civac, %0" ::"r"(begin) : "memory");
  __asm__ volatile("dsb sy" ::: "memory");
}

#elif defined(__powerpc64__)

constexpr bool kCanFlush = true;

void flush(const std::byte* begin, const std::byte* end) {
  for (; begin < end; begin += kLine) __asm__ volatile("dcbf 0, %0" ::"r"(begin) : "memory");
  __asm__ volatile("sync" ::: "memory");
}

#else

constexpr bool kCanFlush = false;

void flush(const std::byte*, const std::byte*) {}

#endif

}  // namespace

bool flush_host_caches(const std::byte* begin, std::size_t bytes) {
  if (!kCanFlush || bytes == 0) return kCanFlush;
  const std::size_t before = reinterpret_cast<std::uintptr_t>(begin) % kLine;
  const std::size_t lines = (before + bytes + kLine - 1) / kLine;
  parallel_for(lines, std::size_t{1} << 14, [&](std::size_t first, std::size_t last) {
    flush(std::max(begin, begin - before + first * kLine), std::min(begin + bytes, begin - before + last * kLine));
  });
  return true;
}

std::size_t host_line_bytes() {
  constexpr std::size_t kMostCommon = 64;
  const long line_bytes = sysconf(_SC_LEVEL1_DCACHE_LINESIZE);
  if (line_bytes > 0) return static_cast<std::size_t>(line_bytes);
  std::ifstream stream("/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size");
  std::size_t bytes = 0;
  return stream >> bytes && bytes > 0 ? bytes : kMostCommon;
}

}  // namespace isthmus::memory
