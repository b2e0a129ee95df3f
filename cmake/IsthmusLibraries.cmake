# The libraries we use outside measuring.
#
# ISTHMUS_STATIC: everything but the C library goes into the binary, so that one built on Debian 12 runs on any x86-64
# distribution whose C library is as new (glibc 2.36), such as Ubuntu 24.04. NVML, BLAS and the GPU's driver are loaded
# at run time in any case.
option(ISTHMUS_STATIC "Link everything but the C library statically" OFF)

# ISTHMUS_MPI: the program may be started as several ranks (docs/mpi.md). Started plainly it does without a launcher.
option(ISTHMUS_MPI "Measure with several processes through MPI" OFF)

find_package(fmt REQUIRED)
# Compiled into each file of ours it doubles what many of them take; a static program has no other way, since Debian
# ships no archive of it.
add_library(isthmus_fmt INTERFACE)
target_link_libraries(isthmus_fmt INTERFACE $<IF:$<BOOL:${ISTHMUS_STATIC}>,fmt::fmt-header-only,fmt::fmt>)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Threads REQUIRED)
if(ISTHMUS_STATIC)
  set(ZLIB_USE_STATIC_LIBS ON)
  set(OPENSSL_USE_STATIC_LIBS ON)
endif()
find_package(ZLIB REQUIRED)  # tables beside records, and their hashes
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(PkgConfig REQUIRED)
pkg_check_modules(NUMA REQUIRED IMPORTED_TARGET numa)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)

if(ISTHMUS_STATIC)
  set(Boost_USE_STATIC_LIBS ON)  # the emulator's Boost.Context
  add_link_options(-static-libstdc++ -static-libgcc)

  find_library(ISTHMUS_NUMA_ARCHIVE libnuma.a REQUIRED)
  set_target_properties(PkgConfig::NUMA PROPERTIES INTERFACE_LINK_LIBRARIES ${ISTHMUS_NUMA_ARCHIVE})

  # What this hwloc was built with that has an archive; udev has none.
  find_library(ISTHMUS_HWLOC_ARCHIVE libhwloc.a REQUIRED)
  set(needs "")
  foreach(name IN LISTS HWLOC_STATIC_LIBRARIES)
    if(NOT name MATCHES "^(hwloc|udev|m|c|pthread|dl|rt)$")
      find_library(ISTHMUS_STATIC_${name} lib${name}.a REQUIRED)
      list(APPEND needs ${ISTHMUS_STATIC_${name}})
    endif()
  endforeach()
  if("udev" IN_LIST HWLOC_STATIC_LIBRARIES)
    add_library(isthmus_no_udev STATIC ${CMAKE_CURRENT_LIST_DIR}/static/no_udev.cpp)
    list(APPEND needs isthmus_no_udev)
  endif()
  set_target_properties(PkgConfig::HWLOC PROPERTIES
    INTERFACE_LINK_LIBRARIES "${ISTHMUS_HWLOC_ARCHIVE};${needs};m;${CMAKE_DL_LIBS};Threads::Threads")
endif()
