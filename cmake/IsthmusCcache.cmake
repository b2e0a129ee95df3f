# Compilers run through ccache if it is found when a build tree is first configured. The choice is kept, because a
# different launcher changes every command, so that using a ccache installed later would compile everything again.
if(NOT DEFINED CACHE{ISTHMUS_CCACHE})
  find_program(ccache_found ccache NO_CACHE)
  if(NOT ccache_found)
    set(ccache_found OFF)
  endif()
  set(ISTHMUS_CCACHE ${ccache_found} CACHE FILEPATH "ccache, or OFF; chosen when the tree was first configured")
elseif(ISTHMUS_CCACHE AND NOT EXISTS ${ISTHMUS_CCACHE})
  set(ISTHMUS_CCACHE OFF CACHE FILEPATH "ccache, or OFF" FORCE) # ccache was removed
endif()
if(ISTHMUS_CCACHE)
  foreach(language CXX CUDA HIP)
    set(CMAKE_${language}_COMPILER_LAUNCHER ${ISTHMUS_CCACHE})
  endforeach()
endif()
