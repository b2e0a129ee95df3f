# Tests programs with the library preloaded. LIBRARY: the library. FOLDER: working folder.
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
# A setting that has no effect is reported but does not end the program.
foreach(setting "ISTHMUS_UVM=froce" "ISTHMUS_UVM_PARENT=4x")
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env LD_PRELOAD=${LIBRARY} ISTHMUS_UVM_TRACE=${FOLDER}/run ${setting} sh -c "echo out; exit 3"
    RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err)
  string(REPLACE "=" " is '" said ${setting})
  if(NOT code EQUAL 3 OR NOT out STREQUAL "out\n" OR NOT err MATCHES "^libisthmus-uvm: ${said}'[^\n]*\n$")
    message(FATAL_ERROR "${setting}: exit ${code}, output '${out}', errors '${err}'")
  endif()
endforeach()
# The number of threads shows whether the library observes a process, the program that it becomes by exec, and its
# child.
foreach(parent "own" "other" "")
  set(only "")
  if(parent STREQUAL "own")
    set(only "ISTHMUS_UVM_PARENT=$$")
  elseif(parent STREQUAL "other")
    set(only "ISTHMUS_UVM_PARENT=1")
  endif()
  # The outer shell is the parent. The inner shell starts a child and then becomes another program.
  execute_process(
    COMMAND sh -c "env LD_PRELOAD=${LIBRARY} ISTHMUS_UVM_TRACE=${FOLDER}/run ${only} sh -c 'ls /proc/self/task | wc -l; exec ls /proc/self/task' & wait"
    OUTPUT_VARIABLE out)
  string(STRIP "${out}" out)
  string(REPLACE "\n" ";" lines "${out}")
  list(POP_FRONT lines of_child)
  list(LENGTH lines of_own)
  if(NOT "${parent}:${of_own}:${of_child}" MATCHES "^(own:2:1|other:1:1|:2:2)$")
    message(FATAL_ERROR "ISTHMUS_UVM_PARENT '${parent}': ${of_own} threads of the program, ${of_child} of its child")
  endif()
endforeach()
# The library must need only the C library and zlib.
execute_process(COMMAND ldd ${LIBRARY} OUTPUT_VARIABLE needs)
string(REGEX MATCHALL "lib(stdc\\+\\+|fmt|gcc_s|cuda|isthmus)[^ ]*" others "${needs}")
if(others)
  message(FATAL_ERROR "it brings ${others} into a program that is not ours")
endif()
# The loader searches this library before the program's libraries, so it must not define any symbols.
execute_process(COMMAND nm -D --defined-only ${LIBRARY} OUTPUT_VARIABLE defined)
if(NOT defined STREQUAL "")
  message(FATAL_ERROR "it defines for others: ${defined}")
endif()
