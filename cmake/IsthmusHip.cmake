# AMD: ROCm 5 or later; without ROCm, Debian's HIP headers and library with clang 19 (scripts/install-hip-toolchain).
# Sets isthmus_gpu_runtime and isthmus_hip_sources().
if(NOT CMAKE_HIP_ARCHITECTURES)
  set(CMAKE_HIP_ARCHITECTURES gfx90a gfx942 CACHE STRING "AMD chips to compile for")
endif()
add_library(isthmus_gpu_runtime INTERFACE)

if(ISTHMUS_ROCM_CLANG OR EXISTS "$ENV{ROCM_PATH}/bin/hipcc" OR EXISTS /opt/rocm/bin/hipcc)
  # ROCm is installed, so CMake supports the language HIP.
  list(APPEND CMAKE_PREFIX_PATH $ENV{ROCM_PATH} /opt/rocm)
  enable_language(HIP)
  set(CMAKE_HIP_STANDARD 20)
  set(CMAKE_HIP_STANDARD_REQUIRED ON)
  set(CMAKE_HIP_EXTENSIONS OFF)
  find_package(hip CONFIG REQUIRED)
  target_link_libraries(isthmus_gpu_runtime INTERFACE hip::host)

  function(isthmus_hip_sources target)
    set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES LANGUAGE HIP)
  endfunction()
else()
  # With Debian's packages every variant of enable_language(HIP) fails, so kernels are C++ for CMake, and clang gets
  # -x hip.
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "Without ROCm the hip backend needs clang as the C++ compiler, not ${CMAKE_CXX_COMPILER}: configure with -DCMAKE_CXX_COMPILER=clang++-19")
  endif()
  find_path(ISTHMUS_HIP_INCLUDE hip/hip_runtime_api.h REQUIRED)
  find_library(ISTHMUS_HIP_LIBRARY amdhip64 REQUIRED)
  # The newest installed bitcode is used, because Debian 12's own (llvm 14) does not support gfx942.
  file(GLOB bitcode_files /usr/lib/llvm-*/lib/clang/*/amdgcn/bitcode/ockl.bc)
  list(SORT bitcode_files COMPARE NATURAL ORDER DESCENDING)
  if(NOT bitcode_files)
    message(FATAL_ERROR "There are no AMD device libraries (ockl.bc): run scripts/install-hip-toolchain")
  endif()
  list(GET bitcode_files 0 bitcode)
  cmake_path(GET bitcode PARENT_PATH bitcode)
  set(ISTHMUS_HIP_BITCODE ${bitcode} CACHE PATH "Folder of AMD's device libraries")

  # clang warns about libstdc++ 12's own use of std::get_temporary_buffer in std::stable_sort.
  add_compile_options(-Wno-deprecated-declarations)

  target_include_directories(isthmus_gpu_runtime SYSTEM INTERFACE ${ISTHMUS_HIP_INCLUDE})
  target_compile_definitions(isthmus_gpu_runtime INTERFACE __HIP_PLATFORM_AMD__)
  target_link_libraries(isthmus_gpu_runtime INTERFACE ${ISTHMUS_HIP_LIBRARY})

  set(ISTHMUS_HIP_OPTIONS -x hip --rocm-device-lib-path=${ISTHMUS_HIP_BITCODE} -Wno-unused-command-line-argument)
  foreach(architecture IN LISTS CMAKE_HIP_ARCHITECTURES)
    list(APPEND ISTHMUS_HIP_OPTIONS --offload-arch=${architecture})
  endforeach()
  if(ISTHMUS_KERNEL_REPORTS)
    list(APPEND ISTHMUS_HIP_OPTIONS -Rpass-analysis=kernel-resource-usage)
  endif()
  function(isthmus_hip_sources target)
    set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES COMPILE_OPTIONS "${ISTHMUS_HIP_OPTIONS}")
  endfunction()
endif()
