#pragma once

// Matrix products by tiles: a block of 256 threads accumulates a tile of C = A·B in its registers from tiles of A and B
// in shared memory (loaded by staging.hpp).

#include "device/kernel/kernel.hpp"

namespace isthmus::device {

inline constexpr unsigned matrix_threads = 256;

/// Shape of the work of a block and of each of its threads: a tile of C with Rows × Columns elements, computed in steps
/// of Depth along k. Groups of 32 threads form a patch of 8 × 4 or 4 × 8 threads, so that each 16-byte read of a column
/// of A or a row of B by the group uses every bank of shared memory at most once; rows of A are padded by one vector
/// for the same reason.
template <unsigned Rows, unsigned Columns, unsigned Depth, unsigned PatchRows = 8,
          unsigned PatchesDown = PatchRows == 8 ? 2 : 4>
struct MatrixTile {
  static constexpr unsigned rows = Rows, columns = Columns, depth = Depth;
  static constexpr unsigned patch_rows = PatchRows, patch_columns = 32 / PatchRows;
  static constexpr unsigned patches_across = matrix_threads / 32 / PatchesDown;
  static constexpr unsigned thread_rows = Rows / (patch_rows * PatchesDown);
  static constexpr unsigned thread_columns = Columns / (patch_columns * patches_across);
  static constexpr unsigned vector = thread_columns < 4 ? thread_columns : 4;
  static constexpr unsigned a_pitch = Depth + 4;
  static constexpr unsigned a_elements = Rows * a_pitch, b_elements = Depth * Columns;
};

/// Position of a thread's elements within the tile.
template <class Tile>
struct TilePlace {
  unsigned row, column;
  __device__ TilePlace() {
    const unsigned patch = threadIdx.x / 32, in_patch = threadIdx.x % 32;
    row = patch / Tile::patches_across * (Tile::patch_rows * Tile::thread_rows) + in_patch / Tile::patch_columns;
    column = patch % Tile::patches_across * (Tile::patch_columns * Tile::thread_columns) +
             in_patch % Tile::patch_columns * Tile::vector;
  }
  // Row and column, within the tile, of the thread's row i and column j.
  __device__ unsigned row_of(unsigned i) const { return row + Tile::patch_rows * i; }
  __device__ unsigned column_of(unsigned j) const {
    return column + j / Tile::vector * (Tile::patch_columns * Tile::vector) + j % Tile::vector;
  }
};

/// Elements of C that one thread accumulates.
template <class Tile>
using TileSums = float[Tile::thread_rows][Tile::thread_columns];

template <class Tile>
__device__ inline void multiply_add(TileSums<Tile>& sums, const float (&a)[Tile::thread_rows],
                                    const float (&b)[Tile::thread_columns]) {
#pragma unroll
  for (unsigned i = 0; i < Tile::thread_rows; ++i) {
#pragma unroll
    for (unsigned j = 0; j < Tile::thread_columns; ++j) sums[i][j] = a[i] * b[j] + sums[i][j];
  }
}

__device__ inline float part(const float4& v, unsigned i) {
  return i == 0 ? v.x : (i == 1 ? v.y : (i == 2 ? v.z : v.w));
}

/// Reads thread_columns values from one row of B; `row` points to the thread's first column.
template <class Tile>
__device__ inline void read_row(float (&b)[Tile::thread_columns], const float* row) {
  if constexpr (Tile::vector == 4) {
#pragma unroll
    for (unsigned j = 0; j < Tile::thread_columns; j += 4) {
      const float4 v = *reinterpret_cast<const float4*>(row + j / 4 * (Tile::patch_columns * 4));
      b[j] = v.x, b[j + 1] = v.y, b[j + 2] = v.z, b[j + 3] = v.w;
    }
  } else {
#pragma unroll
    for (unsigned j = 0; j < Tile::thread_columns; ++j) b[j] = row[j];
  }
}

/// Adds the product of a tile of A, with `a_pitch` elements per row, and a tile of B, with `columns` elements per row.
/// Inlining is forced, because clang would otherwise use more registers than are available to two blocks on an AMD GPU.
template <class Tile>
__device__ __forceinline__ void multiply_tiles(TileSums<Tile>& sums, const TilePlace<Tile>& place, const float* a,
                                               const float* b) {
  const float* a_tile = a + place.row * Tile::a_pitch;
  const float* b_tile = b + place.column;
#pragma unroll
  for (unsigned l = 0; l < Tile::depth; l += 4) {
    float4 a_vectors[Tile::thread_rows];
#pragma unroll
    for (unsigned i = 0; i < Tile::thread_rows; ++i) {
      a_vectors[i] = *reinterpret_cast<const float4*>(a_tile + i * Tile::patch_rows * Tile::a_pitch + l);
    }
#pragma unroll
    for (unsigned q = 0; q < 4; ++q) {
      float a_values[Tile::thread_rows], b_values[Tile::thread_columns];
#pragma unroll
      for (unsigned i = 0; i < Tile::thread_rows; ++i) a_values[i] = part(a_vectors[i], q);
      read_row<Tile>(b_values, b_tile + (l + q) * Tile::columns);
      multiply_add<Tile>(sums, a_values, b_values);
    }
  }
}

}  // namespace isthmus::device
