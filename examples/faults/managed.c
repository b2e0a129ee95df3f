// An allocator for PyTorch (torch.cuda.memory.CUDAPluggableAllocator) that allocates managed memory.
//
//   gcc -shared -fPIC -I$CUDA_HOME/include managed.c -o managed.so -L$CUDA_HOME/lib64 -lcudart

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <sys/types.h>

void* managed_malloc(ssize_t bytes, int device, cudaStream_t stream) {
  (void)device, (void)stream;
  void* memory = NULL;
  return cudaMallocManaged(&memory, (size_t)bytes, cudaMemAttachGlobal) == cudaSuccess ? memory : NULL;
}

void managed_free(void* memory, ssize_t bytes, int device, cudaStream_t stream) {
  (void)bytes, (void)device, (void)stream;
  cudaFree(memory);
}
