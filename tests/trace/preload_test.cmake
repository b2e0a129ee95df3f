# A program with the library preloaded: LIBRARY, FOLDER to work in.
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env LD_PRELOAD=${LIBRARY} ISTHMUS_UVM_TRACE=${FOLDER}/run
          sh -c "grep -q libisthmus-uvm /proc/self/maps && (sleep 0.05; echo child) && echo out && echo err >&2; exit 3"
  RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err)
file(GLOB left ${FOLDER}/*)
if(NOT code EQUAL 3 OR NOT out STREQUAL "child\nout\n" OR NOT err STREQUAL "err\n" OR left)
  message(FATAL_ERROR "exit ${code}, output '${out}', errors '${err}', files '${left}'")
endif()
# What it needs of a machine: the C library and zlib.
execute_process(COMMAND ldd ${LIBRARY} OUTPUT_VARIABLE needs)
string(REGEX MATCHALL "lib(stdc\\+\\+|fmt|gcc_s|cuda|isthmus)[^ ]*" others "${needs}")
if(others)
  message(FATAL_ERROR "it brings ${others} into a program that is not ours")
endif()
# It is searched before the program's own libraries, so it must not define what they do.
execute_process(COMMAND nm -D --defined-only ${LIBRARY} OUTPUT_VARIABLE defined)
if(NOT defined STREQUAL "")
  message(FATAL_ERROR "it defines for others: ${defined}")
endif()
