// Uses one refused CUDA name at a time. refused_spellings_test.cmake compiles this file several times: with REFUSED set
// to the number of a name, compiling must fail; with REFUSED=0, it must succeed.

#include "device/kernel/float16.hpp"

namespace isthmus::device {

#if REFUSED == 9
__global__ void __cluster_dims__(2, 1, 1) in_clusters(int*) {}
#elif REFUSED == 3
__global__ void sample(cudaTextureObject_t, float*) {}
#endif

__global__ void kernel(int* out) {
#if REFUSED == 1
  out[0] = static_cast<int>(__activemask());
#elif REFUSED == 2
  out[0] = static_cast<int>(tex1Dfetch<float>(0, 1));
#elif REFUSED == 4
  out[0] = static_cast<int>(tex2D<float>(0, 0.5f, 0.5f));
#elif REFUSED == 5
  out[0] = cooperative_groups::this_cluster().block_rank();
#elif REFUSED == 6
  out[0] = cooperative_groups::coalesced_threads().size();
#elif REFUSED == 7
  out[0] = __popc(__ballot_sync(full_warp(), 1));
#elif REFUSED == 8
  out[0] = cooperative_groups::tiled_partition<64>(cooperative_groups::this_thread_block()).thread_rank();
#else
  out[0] = __popcll(__ballot_sync(full_warp(), 1));
#endif
}

}  // namespace isthmus::device
