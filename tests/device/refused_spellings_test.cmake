# Tests that each refused name stops the compiler with its message, and that other names compile.
# COMPILER and OPTIONS: command that compiles a kernel source of this build. SOURCE: refused_spellings.cpp.
# BACKEND: host or hip.
set(sentence_1 "__activemask: which lanes are active together is not defined")
set(sentence_2 "textures are not supported")
set(sentence_3 "cudaTextureObject_t: textures are not supported")
set(sentence_4 "textures are not supported")
set(sentence_5 "this_cluster: clusters of blocks exist only on Hopper")
set(sentence_6 "coalesced_threads: which lanes are active together is not defined")
set(sentence_7 "__popc takes 32 bits, but lane masks have 64: use __popcll")
set(sentence_8 "a tile must have 1, 2, 4, 8, 16 or 32 threads")
set(sentence_9 "__cluster_dims__: clusters of blocks exist only on Hopper")
set(cases 1 2 3 4 5 6 7 8 9)
if(BACKEND STREQUAL "hip")
  set(cases 1 2 3 4 5 9)  # HIP supports the other names, which only the emulator's build refuses
endif()

foreach(case 0 ${cases})
  execute_process(COMMAND ${COMPILER} ${OPTIONS} -fsyntax-only -DREFUSED=${case} ${SOURCE}
                  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(case EQUAL 0)
    if(NOT result EQUAL 0)
      message(SEND_ERROR "what is not refused does not compile:\n${output}")
    endif()
  elseif(result EQUAL 0)
    message(SEND_ERROR "case ${case} compiled")
  else()
    string(FIND "${output}" "${sentence_${case}}" at)
    if(at LESS 0)
      message(SEND_ERROR "case ${case} failed without '${sentence_${case}}':\n${output}")
    endif()
  endif()
endforeach()
