# Compilers run through ccache where it is found when a build tree is first configured. The choice is kept: with another
# launcher every command is another one, and a ccache that is installed later would have everything compiled again.
if(NOT DEFINED CACHE{ISTHMUS_CCACHE})
  find_program(ccache_found ccache NO_CACHE)
  if(NOT ccache_found)
    set(ccache_found OFF)
  endif()
  set(ISTHMUS_CCACHE ${ccache_found} CACHE FILEPATH "ccache, or OFF; chosen when the tree was first configured")
elseif(ISTHMUS_CCACHE AND NOT EXISTS ${ISTHMUS_CCACHE})
  set(ISTHMUS_CCACHE OFF CACHE FILEPATH "ccache, or OFF" FORCE) # it was removed
endif()
if(ISTHMUS_CCACHE)
  foreach(language CXX CUDA HIP)
    set(CMAKE_${language}_COMPILER_LAUNCHER ${ISTHMUS_CCACHE})
  endforeach()
endif()
