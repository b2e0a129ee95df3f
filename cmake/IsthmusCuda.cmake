# NVIDIA: CUDA 12.0 or later.
#
# The default of CMAKE_CUDA_ARCHITECTURES is the GPU of this machine if it has one, otherwise sm_80 and sm_90.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  if(EXISTS /dev/nvidiactl)
    set(CMAKE_CUDA_ARCHITECTURES native)
  else()
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  endif()
endif()

if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(ISTHMUS_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH ENV CUDA_ROOT PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(NOT ISTHMUS_NVCC)
    message(FATAL_ERROR "The backend is cuda but there is no nvcc: run scripts/install-cuda-toolchain, set CUDACXX, or choose the preset host")
  endif()
  set(CMAKE_CUDA_COMPILER ${ISTHMUS_NVCC})
endif()

enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake up to 3.25.1 does not support C++20 with nvcc
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
find_package(CUDAToolkit 12.0 REQUIRED)

# The runtime is linked statically, so that a binary needs only the driver.
add_library(isthmus_gpu_runtime INTERFACE)
target_link_libraries(isthmus_gpu_runtime INTERFACE CUDA::cudart_static)
target_include_directories(isthmus_gpu_runtime SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
