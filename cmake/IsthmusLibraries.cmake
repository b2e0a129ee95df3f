# Libraries that the tree uses outside of measurements.
#
# ISTHMUS_STATIC: links everything except the C library into the binary. A binary built on Debian 12 then runs on any
# x86-64 distribution whose C library is as new (glibc 2.36), such as Ubuntu 24.04. NVML, BLAS and the GPU's driver are
# loaded at run time in any case.
option(ISTHMUS_STATIC "Link everything but the C library statically" OFF)

# ISTHMUS_MPI: the program may be started as several ranks (docs/mpi.md), and still runs without a launcher.
option(ISTHMUS_MPI "Measure with several processes through MPI" OFF)

# ISTHMUS_LIBRARIES is for users who cannot install libraries (docs/building.md, "Without root").
set(ISTHMUS_LIBRARIES "" CACHE PATH
    "Folder of pinned sources of fmt, nlohmann_json and CLI11; empty: those of the system, a module or Spack")

option(ISTHMUS_TESTS "Build the C++ tests" ON)

set(isthmus_missing "")
# isthmus_find(NAME ARGUMENTS…): calls find_package; missing packages are reported together at the end.
macro(isthmus_find name)
  find_package(${name} ${ARGN} QUIET)
  if(NOT ${name}_FOUND)
    list(APPEND isthmus_missing ${name})
  endif()
endmacro()
macro(isthmus_find_by_pkg_config prefix name)
  pkg_check_modules(${prefix} QUIET IMPORTED_TARGET ${name})
  if(NOT ${prefix}_FOUND)
    list(APPEND isthmus_missing ${name})
  endif()
endmacro()

if(ISTHMUS_STATIC)
  set(ZLIB_USE_STATIC_LIBS ON)
  set(OPENSSL_USE_STATIC_LIBS ON)
  set(Boost_USE_STATIC_LIBS ON)
endif()
if(ISTHMUS_LIBRARIES)
  include(IsthmusCarried)
else()
  isthmus_find(fmt)
  isthmus_find(nlohmann_json)
  isthmus_find(CLI11)
endif()
isthmus_find(ZLIB)  # for the tables next to records, and their checksums
isthmus_find(OpenSSL COMPONENTS Crypto)
if(ISTHMUS_BACKEND STREQUAL "host")
  isthmus_find(Boost 1.74 COMPONENTS context)  # the emulator's fibers
endif()
isthmus_find(PkgConfig)
if(PkgConfig_FOUND)
  isthmus_find_by_pkg_config(NUMA numa)
  isthmus_find_by_pkg_config(HWLOC hwloc)
endif()
if(ISTHMUS_TESTS)
  isthmus_find(GTest)
endif()
if(isthmus_missing)
  set(isthmus_hint "load their modules, or build with Spack (docs/spack.md)")
  if(isthmus_missing MATCHES "fmt|nlohmann_json|CLI11")
    string(APPEND isthmus_hint "; fmt, nlohmann_json and CLI11 also come from pinned sources with ISTHMUS_LIBRARIES=FOLDER (docs/building.md, 'Without root')")
  endif()
  if("GTest" IN_LIST isthmus_missing)
    string(APPEND isthmus_hint "; GTest is for the tests, -DISTHMUS_TESTS=OFF does without")
  endif()
  list(JOIN isthmus_missing ", " isthmus_missing)
  message(FATAL_ERROR "Missing: ${isthmus_missing}: ${isthmus_hint}")
endif()
find_package(Threads REQUIRED)

# Header-only fmt doubles the compile time of many sources. A static program has to use it, because Debian does not ship
# an archive of fmt.
add_library(isthmus_fmt INTERFACE)
target_link_libraries(isthmus_fmt INTERFACE $<IF:$<BOOL:${ISTHMUS_STATIC}>,fmt::fmt-header-only,fmt::fmt>)

if(ISTHMUS_STATIC)
  add_link_options(-static-libstdc++ -static-libgcc)

  find_library(ISTHMUS_NUMA_ARCHIVE libnuma.a REQUIRED)
  set_target_properties(PkgConfig::NUMA PROPERTIES INTERFACE_LINK_LIBRARIES ${ISTHMUS_NUMA_ARCHIVE})

  # Archives of the libraries that hwloc was built with; udev is not available as an archive.
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
