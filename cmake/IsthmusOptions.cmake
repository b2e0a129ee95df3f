# Standard, warnings, sanitizers and static linking for our own code.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# Warnings are errors for developers (scripts/test and CI set WERROR=ON), but not for users, whose compilers and
# libraries we may not have tested.
set(werror OFF)
if(DEFINED ENV{WERROR})
  set(werror $ENV{WERROR})
endif()
option(ISTHMUS_WERROR "Warnings are errors" ${werror})
set(ISTHMUS_PACKAGE "" CACHE STRING "What a package manager calls this build, for its records")
set(ISTHMUS_SANITIZE "" CACHE STRING "address,undefined or thread")
set(EMULATOR_SANITIZE ${ISTHMUS_SANITIZE})

include(IsthmusCcache)

# ISTHMUS_KERNEL_REPORTS keeps the compiler's report of registers, shared memory and spills next to each object
# (scripts/kernel-report).
option(ISTHMUS_KERNEL_REPORTS "Keep the compiler's report of each kernel" OFF)
if(ISTHMUS_KERNEL_REPORTS)
  foreach(language CXX CUDA HIP)
    list(PREPEND CMAKE_${language}_COMPILER_LAUNCHER ${CMAKE_CURRENT_LIST_DIR}/keep-kernel-report)
  endforeach()
endif()

set(warnings -Wall -Wextra -Wshadow -Wnon-virtual-dtor)
if(ISTHMUS_WERROR)
  list(APPEND warnings -Werror)
endif()
# GCC 12 wrongly warns of overlapping copies in every "text" + string (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND warnings -Wno-restrict)
endif()
string(REPLACE ";" "," warnings_for_nvcc "${warnings}")

add_library(isthmus_options INTERFACE)
target_include_directories(isthmus_options INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:include/isthmus>)
target_compile_features(isthmus_options INTERFACE cxx_std_20)
target_compile_options(
  isthmus_options
  INTERFACE # Warnings for our own code only: users of an installation have their own.
            "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX,HIP>:${warnings}>>"
            # -lineinfo lets profilers and sanitizers name our source lines and does not change the code. Fast-math is
            # not used anywhere.
            "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${warnings_for_nvcc};-lineinfo;$<$<BOOL:${ISTHMUS_WERROR}>:--Werror=all-warnings>>>"
            # Kernels may call constexpr functions, as clang allows for HIP.
            $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
if(ISTHMUS_KERNEL_REPORTS)
  target_compile_options(isthmus_options INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-v>
                         $<$<COMPILE_LANGUAGE:HIP>:-Rpass-analysis=kernel-resource-usage>)
endif()
if(ISTHMUS_BACKEND STREQUAL "cuda")
  target_compile_definitions(isthmus_options INTERFACE ISTHMUS_BACKEND_CUDA)
elseif(ISTHMUS_BACKEND STREQUAL "hip")
  target_compile_definitions(isthmus_options INTERFACE ISTHMUS_BACKEND_HIP)
else()
  target_compile_definitions(isthmus_options INTERFACE ISTHMUS_BACKEND_EMULATOR)
  # Kernels contain `#pragma unroll`, which GPU compilers support and g++ does not.
  target_compile_options(isthmus_options INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-unknown-pragmas>)
endif()
# Symbols are resolved at start-up. A symbol that is looked up at its first call would add to the measured time of that
# call, for example to the metric `first` of alloc/*.
target_link_options(isthmus_options INTERFACE LINKER:-z,now)

if(ISTHMUS_SANITIZE)
  # -O1 and line tables halve the build time and slow the tests down only a little. The presets do not set a build type,
  # so assertions stay enabled. A folder may append -O0.
  add_compile_options(-O1 -g1)
  # Without -fno-sanitize-recover, UBSan prints its report and continues, and the test passes. The null and vptr checks
  # are off, because they take a tenth of the build time and ASan detects accesses through null pointers.
  target_compile_options(isthmus_options INTERFACE -fsanitize=${ISTHMUS_SANITIZE} -fno-sanitize=null,vptr
                         -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(isthmus_options INTERFACE -fsanitize=${ISTHMUS_SANITIZE})
endif()
