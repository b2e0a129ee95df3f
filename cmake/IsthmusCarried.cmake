# fmt, nlohmann_json and CLI11 from a folder of sources, for a user who cannot install them.
#
#   -DISTHMUS_LIBRARIES=FOLDER                                        builds with the tarballs of FOLDER only
#   cmake -DISTHMUS_LIBRARIES=FOLDER -P cmake/IsthmusCarried.cmake    only puts the tarballs there, to copy elsewhere
#
# A tarball that FOLDER lacks is downloaded into it. Each must have the SHA-256 in cmake/libraries.txt.

# Downloads URL to a temporary name first, because another configuration may be looking for the same tarball.
function(isthmus_download_tarball tarball url)
  string(RANDOM part)
  file(DOWNLOAD ${url} ${tarball}.${part} STATUS status INACTIVITY_TIMEOUT 30)
  list(POP_FRONT status code why)
  string(REPLACE "\"" "" why "${why}")
  if(NOT code EQUAL 0)
    file(REMOVE ${tarball}.${part})
    message(FATAL_ERROR "${tarball} is missing and could not be downloaded (${why}): download ${url} to that path")
  endif()
  file(RENAME ${tarball}.${part} ${tarball})
endfunction()

# isthmus_carry(LIBRARY STEM HASH URL): puts the tarball into the folder, and verifies it.
function(isthmus_carry library stem hash url)
  set(tarball ${ISTHMUS_LIBRARIES}/${stem}.tar.gz)
  if(NOT EXISTS ${tarball})
    isthmus_download_tarball(${tarball} ${url})
  endif()
  file(SHA256 ${tarball} found)
  if(NOT found STREQUAL hash)
    message(FATAL_ERROR "${tarball} is not the file that cmake/libraries.txt names (its SHA-256 is ${found}): replace it with the one at ${url}")
  endif()
  message(STATUS "${library}: ${tarball}")
endfunction()

# isthmus_unpack(STEM HASH): unpacks the files that a build needs to ${CMAKE_BINARY_DIR}/libraries/STEM, once for each
# hash.
function(isthmus_unpack stem hash)
  set(stamp ${CMAKE_BINARY_DIR}/libraries/${stem}.sha256)
  if(EXISTS ${stamp})
    file(READ ${stamp} unpacked)
  endif()
  if(NOT "${unpacked}" STREQUAL hash)
    set(patterns ${stem}/include/*)
    if(stem MATCHES "^fmt-")
      list(APPEND patterns ${stem}/src/*)
    endif()
    file(REMOVE_RECURSE ${CMAKE_BINARY_DIR}/libraries/${stem})
    file(ARCHIVE_EXTRACT INPUT ${ISTHMUS_LIBRARIES}/${stem}.tar.gz DESTINATION ${CMAKE_BINARY_DIR}/libraries
         PATTERNS ${patterns})
    file(WRITE ${stamp} ${hash})
  endif()
endfunction()

# isthmus_define(LIBRARY FOLDER): defines the target that the library's own CMake package would define.
function(isthmus_define library folder)
  if(library STREQUAL "fmt")
    add_library(isthmus_carried_fmt STATIC ${folder}/src/format.cc)
    target_include_directories(isthmus_carried_fmt SYSTEM PUBLIC ${folder}/include)
    set_target_properties(isthmus_carried_fmt PROPERTIES POSITION_INDEPENDENT_CODE ON)
    add_library(fmt::fmt ALIAS isthmus_carried_fmt)
    add_library(fmt::fmt-header-only ALIAS isthmus_carried_fmt)
  else()
    add_library(${library}::${library} INTERFACE IMPORTED GLOBAL)
    target_include_directories(${library}::${library} INTERFACE ${folder}/include)
  endif()
endfunction()

get_filename_component(ISTHMUS_LIBRARIES "${ISTHMUS_LIBRARIES}" ABSOLUTE)
file(MAKE_DIRECTORY ${ISTHMUS_LIBRARIES})
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/libraries.txt isthmus_carried_lines REGEX "^[^#]")
foreach(isthmus_line IN LISTS isthmus_carried_lines)
  separate_arguments(isthmus_line UNIX_COMMAND "${isthmus_line}")
  isthmus_carry(${isthmus_line})
  if(NOT CMAKE_SCRIPT_MODE_FILE)
    list(GET isthmus_line 0 isthmus_library)
    list(GET isthmus_line 1 isthmus_stem)
    list(GET isthmus_line 2 isthmus_hash)
    isthmus_unpack(${isthmus_stem} ${isthmus_hash})
    isthmus_define(${isthmus_library} ${CMAKE_BINARY_DIR}/libraries/${isthmus_stem})
  endif()
endforeach()
