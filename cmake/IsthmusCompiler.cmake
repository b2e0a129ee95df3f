# Choice of compiler, included before project(): HIP without ROCm needs clang for everything, because kernels are
# compiled as C++ with -x hip.
if(ISTHMUS_BACKEND STREQUAL "hip" AND NOT DEFINED CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX})
  find_program(ISTHMUS_ROCM_CLANG amdclang++ HINTS ENV ROCM_PATH PATHS /opt/rocm PATH_SUFFIXES bin llvm/bin)
  if(NOT ISTHMUS_ROCM_CLANG)
    find_program(CMAKE_CXX_COMPILER NAMES clang++-19 clang++-20 clang++-21)
    if(NOT CMAKE_CXX_COMPILER)
      message(FATAL_ERROR "The backend is hip but there is neither a ROCm nor clang++-19: run scripts/install-hip-toolchain")
    endif()
  endif()
endif()
