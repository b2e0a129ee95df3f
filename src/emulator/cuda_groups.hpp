#pragma once

// Cooperative groups that are synonyms for a block, a grid or a mask of a warp.

namespace cooperative_groups {

class thread_block {
 public:
  static void sync(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { __syncthreads(file, line); }
  static unsigned thread_rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
  static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  static unsigned num_threads() { return size(); }
  static dim3 group_index() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
  static dim3 thread_index() { return {threadIdx.x, threadIdx.y, threadIdx.z}; }
};
inline thread_block this_thread_block() {
  return {};
}

class grid_group {
 public:
  static void sync(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    emulator::grid_sync(file, line);
  }
  static unsigned long long thread_rank() {
    const unsigned long long block = blockIdx.x + gridDim.x * (blockIdx.y + std::uint64_t{gridDim.y} * blockIdx.z);
    return block * thread_block::size() + thread_block::thread_rank();
  }
  static unsigned long long size() { return std::uint64_t{gridDim.x} * gridDim.y * gridDim.z * thread_block::size(); }
};
inline grid_group this_grid() {
  return {};
}

/// Tile of `Size` consecutive threads of one warp.
template <unsigned Size>
class thread_block_tile {
  static_assert(Size >= 1 && Size <= 32 && (Size & (Size - 1)) == 0,
                "a tile must have 1, 2, 4, 8, 16 or 32 threads: not every GPU has larger warps");

 public:
  static void sync(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { __syncwarp(mask(), file, line); }
  static unsigned thread_rank() { return static_cast<unsigned>(emulator::lane()) % Size; }
  static constexpr unsigned size() { return Size; }
  static constexpr unsigned num_threads() { return Size; }
  static unsigned meta_group_rank() { return thread_block::thread_rank() / Size; }
  static unsigned meta_group_size() { return (thread_block::size() + Size - 1) / Size; }

  template <class T>
  static T shfl(T value, int source, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return __shfl_sync(mask(), value, source, Size, file, line);
  }
  template <class T>
  static T shfl_up(T value, int delta, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return __shfl_up_sync(mask(), value, static_cast<unsigned>(delta), Size, file, line);
  }
  template <class T>
  static T shfl_down(T value, int delta, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return __shfl_down_sync(mask(), value, static_cast<unsigned>(delta), Size, file, line);
  }
  template <class T>
  static T shfl_xor(T value, int bits, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return __shfl_xor_sync(mask(), value, bits, Size, file, line);
  }
  static int any(int predicate, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return __any_sync(mask(), predicate, file, line);
  }
  static int all(int predicate, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return __all_sync(mask(), predicate, file, line);
  }

 private:
  static int first() { return emulator::lane() & ~static_cast<int>(Size - 1); }
  static emulator::LaneMask mask() { return ((emulator::LaneMask{1} << Size) - 1) << first(); }
};

template <unsigned Size>
thread_block_tile<Size> tiled_partition(const thread_block&) {
  return {};
}

}  // namespace cooperative_groups
