#pragma once

// CUDA names that this project does not support. Each use is rejected at compile time with a sentence, on the backends
// without these names: the emulator and HIP. Every source is also compiled for the emulator, so a kernel that only CUDA
// supports is always noticed.

#define ISTHMUS_REFUSED_FUNCTION(NAME, SENTENCE)      \
  template <class Refused = void, class... Arguments> \
  __host__ __device__ Refused NAME(Arguments&&...) {  \
    static_assert(sizeof(Refused*) == 0, SENTENCE);   \
  }

namespace isthmus::device::refused {

template <int Instance>
struct Texture {
  static_assert(Instance < 0,
                "cudaTextureObject_t: textures are not supported, because their filtering and caches differ between "
                "vendors; pass a const pointer and index it");
  using type = unsigned long long;
};

}  // namespace isthmus::device::refused

#define ISTHMUS_TEXTURE_SENTENCE(NAME) \
  #NAME ": textures are not supported, because caches and filters differ between vendors; index a const pointer"
#define ISTHMUS_REFUSED_TEXTURE(NAME) ISTHMUS_REFUSED_FUNCTION(NAME, ISTHMUS_TEXTURE_SENTENCE(NAME))
#define ISTHMUS_CLUSTER_SENTENCE(NAME) \
  NAME ": clusters of blocks exist only on Hopper and later NVIDIA GPUs; synchronize blocks through global memory"

#define cudaTextureObject_t typename ::isthmus::device::refused::Texture<0>::type
#define cudaSurfaceObject_t typename ::isthmus::device::refused::Texture<0>::type

// A pragma is used, because a template cannot be used where attributes appear. Its literal must fit on one line.
#define __cluster_dims__(...) \
  _Pragma("GCC error \"__cluster_dims__: clusters of blocks exist only on Hopper and later; use global memory\"")

#if defined(ISTHMUS_BACKEND_EMULATOR)
ISTHMUS_REFUSED_FUNCTION(__activemask,
                         "__activemask: which lanes are active together is not defined; name the participating lanes "
                         "by full_warp() or by a mask from __ballot_sync before the branch")
ISTHMUS_REFUSED_TEXTURE(tex1D)
ISTHMUS_REFUSED_TEXTURE(tex1Dfetch)
ISTHMUS_REFUSED_TEXTURE(tex2D)
ISTHMUS_REFUSED_TEXTURE(tex3D)
ISTHMUS_REFUSED_TEXTURE(surf2Dread)
ISTHMUS_REFUSED_TEXTURE(surf2Dwrite)
namespace cooperative_groups {
ISTHMUS_REFUSED_FUNCTION(coalesced_threads,
                         "coalesced_threads: which lanes are active together is not defined; use tiled_partition<N>, "
                         "or full_warp() and a mask from __ballot_sync before the branch")
ISTHMUS_REFUSED_FUNCTION(this_cluster, ISTHMUS_CLUSTER_SENTENCE("this_cluster"))
ISTHMUS_REFUSED_FUNCTION(this_multi_grid,
                         "this_multi_grid: grids of several devices cannot synchronize; let the host order them")
}  // namespace cooperative_groups
#else
// HIP's headers define only some of these names as functions.
namespace isthmus::device::refused {
ISTHMUS_REFUSED_FUNCTION(activemask,
                         "__activemask: which lanes are active together is not defined; name the participating lanes "
                         "by full_warp() or by a mask from __ballot_sync before the branch")
}  // namespace isthmus::device::refused
#define __activemask() ::isthmus::device::refused::activemask()
#define tex1D ::isthmus::device::refused::texture
#define tex1Dfetch ::isthmus::device::refused::texture
#define tex2D ::isthmus::device::refused::texture
#define tex3D ::isthmus::device::refused::texture
namespace isthmus::device::refused {
ISTHMUS_REFUSED_FUNCTION(texture, ISTHMUS_TEXTURE_SENTENCE(tex2D and its like))
}  // namespace isthmus::device::refused
namespace cooperative_groups {
ISTHMUS_REFUSED_FUNCTION(this_cluster, ISTHMUS_CLUSTER_SENTENCE("this_cluster"))
}  // namespace cooperative_groups
#endif

#undef ISTHMUS_REFUSED_TEXTURE
#undef ISTHMUS_REFUSED_FUNCTION
