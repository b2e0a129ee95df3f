#pragma once

// Copies of tiles from global to shared memory: one pipeline for every staging.
//
//   TilePipeline<TileStaging::async, 3> pipeline;
//   pipeline.run(tile_count, [&](auto& copier, unsigned stage, std::uint64_t tile) { copier.run(…); },
//                            [&](unsigned stage, std::uint64_t tile) { … });
//
// `load` describes one tile to the copier, and `compute` uses it. Every thread of the block calls both for the same
// tiles in the same order, and `stage` (below `stages`) is the index of the tile buffer. The pipeline guarantees that
// `compute` finds a complete tile and that no buffer is overwritten while a thread still computes with it. If threads
// exchange data within a tile, `compute` must contain the barriers for that.
//
//   direct  load, store to shared memory, barrier; one buffer. The pattern of a kernel without any special copy.
//   async   Depth buffers filled by async_copy, Depth-1 tiles ahead; one barrier a tile.
//   bulk    the same ring filled by bulk_copy (the Hopper copy engine), arrival counted by one BulkBarrier a buffer.
//
// Addresses: each part of a tile must begin at a multiple of 16 bytes in both memories. Incomplete vectors at the ends,
// and zeros for elements outside the source, are stored by the threads themselves.

#include "device/kernel/kernel.hpp"

namespace isthmus::device {

enum class TileStaging { direct, async, bulk };

/// Part of a tile, in elements, that is inside the source. The rest of the tile is filled with zeros.
struct TileWindow {
  unsigned first_row, last_row, first_column, last_column;
};

/// Copier of the parts of one tile; all threads of the block must make the same calls.
template <TileStaging staging, unsigned Threads = 0>
class TileCopier {
 public:
  static constexpr TileStaging way = staging;
  __device__ explicit TileCopier(BulkBarrier* arrived) : arrived_(arrived) {}

  /// Copies `count` consecutive elements.
  template <class T>
  __device__ void run(T* to, const T* from, unsigned count) {
    constexpr unsigned per_vector = 16 / sizeof(T);
    const unsigned vectors = count / per_vector;
    if constexpr (staging == TileStaging::bulk) {
      if (threadIdx.x == 0 && vectors > 0) bulk_copy(to, from, vectors * 16, *arrived_);
      bytes_ += vectors * 16;
    } else {
#pragma unroll 4
      for (unsigned v = threadIdx.x; v < vectors; v += threads())
        copy_vector(to + v * per_vector, from + v * per_vector);
    }
    for (unsigned i = vectors * per_vector + threadIdx.x; i < count; i += threads()) copy_element(to + i, from + i);
  }

  /// Copies Rows × Columns elements with `pitch` elements per row in shared memory. source(row) returns the address of
  /// column 0 of that row, even if the column is outside the source. The window's column bounds, and Columns, must be
  /// multiples of 16 bytes.
  template <unsigned Rows, unsigned Columns, class T, class Source>
  __device__ void rows(T* to, unsigned pitch, const TileWindow& inside, Source source) {
    constexpr unsigned per_vector = 16 / sizeof(T);
    constexpr unsigned vectors = Columns / per_vector;
    static_assert(Columns % per_vector == 0, "rows of a tile must be multiples of 16 bytes");
    if constexpr (staging == TileStaging::bulk) {
      const unsigned width = inside.last_column > inside.first_column
                                 ? (inside.last_column - inside.first_column) * unsigned{sizeof(T)}
                                 : 0;
      // Only one lane per warp issues copies: the copy engine gets its operands from uniform registers, so several
      // lanes would be serialised.
      if (lane() == 0 && width > 0) {
        const unsigned warps =
            (threads() + static_cast<unsigned>(warp_size()) - 1) / static_cast<unsigned>(warp_size());
#pragma unroll 1
        for (unsigned row = inside.first_row + static_cast<unsigned>(warp_in_block()); row < inside.last_row;
             row += warps) {
          bulk_copy(to + row * pitch + inside.first_column, source(row) + inside.first_column, width, *arrived_);
        }
      }
      if (inside.last_row > inside.first_row) bytes_ += width * (inside.last_row - inside.first_row);
      if (inside.first_row == 0 && inside.last_row == Rows && inside.first_column == 0 &&
          inside.last_column == Columns) {
        return;
      }
    }
    constexpr unsigned block = Threads == 0 ? 1 : Threads;
    if constexpr (staging != TileStaging::bulk && Threads != 0 && block % vectors == 0 && Rows * vectors % block == 0) {
      // Common case of complete tiles: every thread goes down one column of vectors and computes only one address.
      if (inside.first_row == 0 && inside.last_row == Rows && inside.first_column == 0 &&
          inside.last_column == Columns) {
        constexpr unsigned rows_a_step = Threads / vectors;
        const unsigned row = threadIdx.x / vectors, column = threadIdx.x % vectors * per_vector;
        T* target = to + row * pitch + column;
        const T* from = source(row) + column;
        const auto stride = source(row + rows_a_step) - source(row);
#pragma unroll
        for (unsigned step = 0; step < Rows / rows_a_step; ++step) {
          copy_vector(target + step * rows_a_step * pitch, from);
          from += stride;
        }
        return;
      }
    }
    const auto one = [&](unsigned v) {
      const unsigned row = v / vectors, column = v % vectors * per_vector;
      T* target = to + row * pitch + column;
      if (row >= inside.first_row && row < inside.last_row && column >= inside.first_column &&
          column < inside.last_column) {
        if constexpr (staging != TileStaging::bulk) copy_vector(target, source(row) + column);
      } else {
        *reinterpret_cast<float4*>(target) = make_float4(0, 0, 0, 0);
      }
    };
    if constexpr (Threads == 0) {
#pragma unroll 4
      for (unsigned v = threadIdx.x; v < Rows * vectors; v += threads()) one(v);
    } else {
#pragma unroll
      for (unsigned first = 0; first < Rows * vectors; first += Threads) {
        if (first + Threads <= Rows * vectors || first + threadIdx.x < Rows * vectors) one(first + threadIdx.x);
      }
    }
  }

  /// Copies `count` single elements from arbitrary addresses; source(i) returns the address of element i. The copy
  /// engine does not support this.
  template <class T, class Source>
  __device__ void gather(T* to, unsigned count, Source source) {
    static_assert(staging != TileStaging::bulk, "bulk copies need 16 consecutive bytes");
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < count; i += threads()) copy_element(to + i, source(i));
  }

  /// Copies Rows × Columns single elements from arbitrary addresses, with each thread staying in one column;
  /// source(row) returns the address of the thread's element, or null for a zero.
  template <unsigned Rows, unsigned Columns, class T, class Source>
  __device__ void column(T* to, Source source) {
    static_assert(staging != TileStaging::bulk, "bulk copies need 16 consecutive bytes");
    static_assert(Threads % Columns == 0 && Rows % (Threads / Columns) == 0, "a thread must have one column");
#pragma unroll
    for (unsigned row = 0; row < Rows; row += Threads / Columns) {
      T* target = to + row * Columns + threadIdx.x;
      if (const T* from = source(row + threadIdx.x / Columns)) {
        copy_element(target, from);
      } else {
        *target = 0;
      }
    }
  }

  /// Returns how many bytes the copy engine will copy.
  __device__ unsigned bytes() const { return bytes_; }

 private:
  static __device__ unsigned threads() {
    if constexpr (Threads != 0) {
      return Threads;
    } else {
      return blockDim.x;
    }
  }
  template <class T>
  static __device__ void copy_vector(T* to, const T* from) {
    if constexpr (staging == TileStaging::async) {
      async_copy<16>(to, from);
    } else {
      *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
    }
  }
  template <class T>
  static __device__ void copy_element(T* to, const T* from) {
    if constexpr (staging == TileStaging::async) {
      async_copy<sizeof(T)>(to, from);
    } else {
      *to = *from;
    }
  }

  BulkBarrier* arrived_;
  unsigned bytes_ = 0;
};

/// Ring of tile buffers of one block. `Threads`, if not 0, is the block size as a compile-time constant.
/// `PreviousTiles` is the number of tiles before the current tile that remain in their buffers.
template <TileStaging staging, unsigned Depth, unsigned Threads = 0, unsigned PreviousTiles = 0>
class TilePipeline {
 public:
  static_assert(staging == TileStaging::direct ? Depth == 1 && PreviousTiles == 0 : Depth >= 2 + PreviousTiles,
                "direct has one buffer; other stagings have at least 2, and one for each tile in use");
  static constexpr unsigned stages = Depth;
  static constexpr unsigned in_flight = Depth - 1 - PreviousTiles;  ///< tiles in flight while another is being used

  /// Makes the ring; called by all threads of the block. `arrived` points to Depth barriers in shared memory (only for
  /// bulk, otherwise null).
  __device__ explicit TilePipeline(BulkBarrier* arrived) : arrived_(arrived) {
    if constexpr (staging == TileStaging::bulk) {
      // On chips without a copy engine, the host chooses async; the trap removes this code from builds for those chips.
      if (!has_bulk_copy()) __trap();
      if (threadIdx.x == 0) {
        for (unsigned s = 0; s < Depth; ++s) arrived_[s].init(1);
      }
      __syncthreads();
    }
  }

  template <class Load, class Compute>
  __device__ void run(std::uint64_t tiles, Load load, Compute compute) {
    if constexpr (staging == TileStaging::direct) {
      for (std::uint64_t tile = 0; tile < tiles; ++tile) {
        TileCopier<staging, Threads> copier(nullptr);
        load(copier, 0u, tile);
        __syncthreads();
        compute(0u, tile);
        __syncthreads();
      }
    } else {
      for (unsigned ahead = 0; ahead < in_flight; ++ahead) issue(load, ahead, ahead, tiles);
      unsigned stage = 0, free_stage = in_flight;
      for (std::uint64_t tile = 0; tile < tiles; ++tile) {
        wait(stage);
        // After the barrier, all copies of this tile are visible to all threads, and no thread still uses the oldest
        // tile.
        __syncthreads();
        issue(load, free_stage, tile + in_flight, tiles);
        compute(stage, tile);
        if constexpr (PreviousTiles == 0) {
          free_stage = stage;
        } else if (++free_stage == Depth) {
          free_stage = 0;
        }
        if (++stage == Depth) stage = 0;
      }
      if constexpr (staging == TileStaging::bulk) {
        bulk_fence();
      }
      __syncthreads();
    }
  }

 private:
  template <class Load>
  __device__ void issue(Load& load, unsigned stage, std::uint64_t tile, std::uint64_t tiles) {
    if (tile < tiles) {
      TileCopier<staging, Threads> copier(staging == TileStaging::bulk ? arrived_ + stage : nullptr);
      load(copier, stage, tile);
      if constexpr (staging == TileStaging::bulk) {
        if (threadIdx.x == 0) arrived_[stage].expect(copier.bytes());
      }
    }
    if constexpr (staging == TileStaging::async) async_commit();
  }

  __device__ void wait(unsigned stage) {
    if constexpr (staging == TileStaging::async) {
      async_wait<static_cast<int>(in_flight) - 1>();
    } else {
      arrived_[stage].wait(phases_ >> stage & 1);
      phases_ ^= 1u << stage;
      // Orders ordinary accesses to the buffer that is filled next before accesses by the copy engine.
      bulk_fence();
    }
  }

  BulkBarrier* arrived_;
  unsigned phases_ = 0;  // bit s: parity of the phase in which the next tile in buffer s is completed
};

/// Number of shared-memory barriers that a pipeline needs, as a kernel declares them:
///   __shared__ BulkBarrier arrived[pipeline_barriers<staging, Depth>];
template <TileStaging staging, unsigned Depth>
inline constexpr unsigned pipeline_barriers = staging == TileStaging::bulk ? Depth : 1;

}  // namespace isthmus::device
