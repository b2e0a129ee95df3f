# One backend per build tree: host (the emulator), cuda or hip. Sets up the language, isthmus_gpu_runtime (the vendor's
# runtime, for host code) and isthmus_kernel_sources().
set(ISTHMUS_BACKEND "host" CACHE STRING "host, cuda or hip")
set_property(CACHE ISTHMUS_BACKEND PROPERTY STRINGS host cuda hip)

if(ISTHMUS_BACKEND STREQUAL "cuda")
  include(IsthmusCuda)
elseif(ISTHMUS_BACKEND STREQUAL "hip")
  include(IsthmusHip)
elseif(NOT ISTHMUS_BACKEND STREQUAL "host")
  message(FATAL_ERROR "ISTHMUS_BACKEND is '${ISTHMUS_BACKEND}': choose host, cuda or hip")
endif()

# Adds .cpp sources that contain kernels; their language follows the backend. The properties are set in the target's own
# folder, because a subfolder may add sources to a target of its parent.
function(isthmus_kernel_sources target)
  target_sources(${target} PRIVATE ${ARGN})
  if(ISTHMUS_BACKEND STREQUAL "cuda")
    set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES LANGUAGE CUDA)
  elseif(ISTHMUS_BACKEND STREQUAL "hip")
    isthmus_hip_sources(${target} ${ARGN})
  elseif(ISTHMUS_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Volatile accesses in kernels count as atomic (docs/decisions/0010-memory-model.md).
    set_property(SOURCE ${ARGN} TARGET_DIRECTORY ${target} APPEND PROPERTY COMPILE_OPTIONS --param=tsan-distinguish-volatile=1)
  endif()
endfunction()
