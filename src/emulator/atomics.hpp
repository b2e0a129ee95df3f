#pragma once

// CUDA's atomic functions for host C++, with exactly CUDA's overloads, so that code that compiles here also compiles
// with CUDA. They do not order other memory; __threadfence() does.

#include "emulator/memory_model.hpp"

namespace emulator {

/// Replaces *address by next(*address) and returns the old value.
template <class T, class Next>
T atomic_update(T* address, Next next) {
  T seen;
  __atomic_load(address, &seen, __ATOMIC_RELAXED);
  for (;;) {
    T wanted = next(seen);
    if (__atomic_compare_exchange(address, &seen, &wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return seen;
  }
}

template <class T>
T atomic_exchange(T* address, T value) {
  T old;
  __atomic_exchange(address, &value, &old, __ATOMIC_RELAXED);
  return old;
}

}  // namespace emulator

#define EMULATOR_ATOMIC(NAME, TYPE, EXPRESSION)          \
  inline TYPE NAME(TYPE* address, TYPE value) {          \
    using namespace ::emulator;                          \
    const AtomicTurn turn(address, Touch::update);       \
    return EXPRESSION;                                   \
  }                                                      \
  inline TYPE NAME##_system(TYPE* address, TYPE value) { \
    return NAME(address, value);                         \
  }                                                      \
  inline TYPE NAME##_block(TYPE* address, TYPE value) {  \
    return NAME(address, value);                         \
  }

#define EMULATOR_ATOMIC_UPDATE(NAME, TYPE, NEXT) \
  EMULATOR_ATOMIC(NAME, TYPE, ::emulator::atomic_update(address, [&](TYPE old) -> TYPE { return NEXT; }))

#define EMULATOR_ATOMIC_CAS(TYPE)                                                                           \
  inline TYPE atomicCAS(TYPE* address, TYPE compare, TYPE value) {                                          \
    using namespace ::emulator;                                                                             \
    AtomicTurn turn(address, Touch::update);                                                                \
    if (!__atomic_compare_exchange(address, &compare, &value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) { \
      turn.only_loaded();                                                                                   \
    }                                                                                                       \
    return compare;                                                                                         \
  }                                                                                                         \
  inline TYPE atomicCAS_system(TYPE* address, TYPE compare, TYPE value) {                                   \
    return atomicCAS(address, compare, value);                                                              \
  }                                                                                                         \
  inline TYPE atomicCAS_block(TYPE* address, TYPE compare, TYPE value) {                                    \
    return atomicCAS(address, compare, value);                                                              \
  }

EMULATOR_ATOMIC(atomicAdd, int, __atomic_fetch_add(address, value, __ATOMIC_RELAXED))
EMULATOR_ATOMIC(atomicAdd, unsigned, __atomic_fetch_add(address, value, __ATOMIC_RELAXED))
EMULATOR_ATOMIC(atomicAdd, unsigned long long, __atomic_fetch_add(address, value, __ATOMIC_RELAXED))
EMULATOR_ATOMIC_UPDATE(atomicAdd, float, old + value)
EMULATOR_ATOMIC_UPDATE(atomicAdd, double, old + value)
EMULATOR_ATOMIC(atomicSub, int, __atomic_fetch_sub(address, value, __ATOMIC_RELAXED))
EMULATOR_ATOMIC(atomicSub, unsigned, __atomic_fetch_sub(address, value, __ATOMIC_RELAXED))
EMULATOR_ATOMIC(atomicExch, int, ::emulator::atomic_exchange(address, value))
EMULATOR_ATOMIC(atomicExch, unsigned, ::emulator::atomic_exchange(address, value))
EMULATOR_ATOMIC(atomicExch, unsigned long long, ::emulator::atomic_exchange(address, value))
EMULATOR_ATOMIC(atomicExch, float, ::emulator::atomic_exchange(address, value))
EMULATOR_ATOMIC_CAS(int)
EMULATOR_ATOMIC_CAS(unsigned)
EMULATOR_ATOMIC_CAS(unsigned long long)
EMULATOR_ATOMIC_UPDATE(atomicMin, int, value < old ? value : old)
EMULATOR_ATOMIC_UPDATE(atomicMin, unsigned, value < old ? value : old)
EMULATOR_ATOMIC_UPDATE(atomicMin, long long, value < old ? value : old)
EMULATOR_ATOMIC_UPDATE(atomicMin, unsigned long long, value < old ? value : old)
EMULATOR_ATOMIC_UPDATE(atomicMax, int, value > old ? value : old)
EMULATOR_ATOMIC_UPDATE(atomicMax, unsigned, value > old ? value : old)
EMULATOR_ATOMIC_UPDATE(atomicMax, long long, value > old ? value : old)
EMULATOR_ATOMIC_UPDATE(atomicMax, unsigned long long, value > old ? value : old)
EMULATOR_ATOMIC(atomicAnd, int, __atomic_fetch_and(address, value, __ATOMIC_RELAXED))
EMULATOR_ATOMIC(atomicAnd, unsigned, __atomic_fetch_and(address, value, __ATOMIC_RELAXED))
EMULATOR_ATOMIC(atomicAnd, unsigned long long, __atomic_fetch_and(address, value, __ATOMIC_RELAXED))
EMULATOR_ATOMIC(atomicOr, int, __atomic_fetch_or(address, value, __ATOMIC_RELAXED))
EMULATOR_ATOMIC(atomicOr, unsigned, __atomic_fetch_or(address, value, __ATOMIC_RELAXED))
EMULATOR_ATOMIC(atomicOr, unsigned long long, __atomic_fetch_or(address, value, __ATOMIC_RELAXED))
EMULATOR_ATOMIC(atomicXor, int, __atomic_fetch_xor(address, value, __ATOMIC_RELAXED))
EMULATOR_ATOMIC(atomicXor, unsigned, __atomic_fetch_xor(address, value, __ATOMIC_RELAXED))
EMULATOR_ATOMIC(atomicXor, unsigned long long, __atomic_fetch_xor(address, value, __ATOMIC_RELAXED))
EMULATOR_ATOMIC_UPDATE(atomicInc, unsigned, old >= value ? 0 : old + 1)
EMULATOR_ATOMIC_UPDATE(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)

#undef EMULATOR_ATOMIC
#undef EMULATOR_ATOMIC_UPDATE
#undef EMULATOR_ATOMIC_CAS
