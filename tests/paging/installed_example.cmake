# Checks that the example builds against an installed copy and computes correct results.
# Usage: cmake -DBUILD=… -DSOURCE=… -DWORK=… -P installed_example.cmake
file(REMOVE_RECURSE ${WORK})
foreach(command IN ITEMS
    "${CMAKE_COMMAND};--install;${BUILD};--component;library;--prefix;${WORK}/installed"
    "${CMAKE_COMMAND};-S;${SOURCE}/examples/paging;-B;${WORK}/build;-G;Ninja;-DCMAKE_PREFIX_PATH=${WORK}/installed"
    "${CMAKE_COMMAND};--build;${WORK}/build"
    "${WORK}/build/gather")
  execute_process(COMMAND ${command} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
file(GLOB_RECURSE foreign ${WORK}/installed/*.cmake)
foreach(file IN LISTS foreign)
  file(READ ${file} text)
  string(FIND "${text}" "${SOURCE}" place)
  if(NOT place EQUAL -1)
    message(FATAL_ERROR "${file} names the sources, which need not be there any more")
  endif()
endforeach()
