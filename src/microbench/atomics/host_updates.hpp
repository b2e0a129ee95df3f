#pragma once

// Atomic updates by one thread of the CPU. Each type has its own function, whose machine code the build inspects.

#include <cstdint>
#include <string>

#include "microbench/atomics/bins.hpp"

namespace isthmus::microbench::atomics {

enum class Type { u32, u64, f32, f64 };

/// Adds 1 to `count` bins, beginning at position `start` of the order.
void update_u32(std::uint32_t* bins, Order order, std::uint64_t start, std::uint64_t count);
void update_u64(unsigned long long* bins, Order order, std::uint64_t start, std::uint64_t count);
void update_f32(float* bins, Order order, std::uint64_t start, std::uint64_t count);
void update_f64(double* bins, Order order, std::uint64_t start, std::uint64_t count);

inline void update(std::uint32_t* bins, Order order, std::uint64_t start, std::uint64_t count) {
  update_u32(bins, order, start, count);
}
inline void update(unsigned long long* bins, Order order, std::uint64_t start, std::uint64_t count) {
  update_u64(bins, order, start, count);
}
inline void update(float* bins, Order order, std::uint64_t start, std::uint64_t count) {
  update_f32(bins, order, start, count);
}
inline void update(double* bins, Order order, std::uint64_t start, std::uint64_t count) {
  update_f64(bins, order, start, count);
}

/// Returns the instruction to which the compiler translated the addition: "native add (lock addl)", "compare-and-swap
/// loop (lock cmpxchg)", or "unknown: " and the reason. The build reads it from the disassembly.
std::string host_instruction(Type type);
std::string device_instruction(Type type, bool system_scope);

}  // namespace isthmus::microbench::atomics
