# Writes OUTPUT, C++ tables of the instructions that the compilers chose for each atomic addition: a native addition or
# a compare-and-swap loop. An entry that cannot be determined is "unknown: " and the reason.
#
# OBJECT, OBJDUMP: the CPU's updates, and a disassembler for its instructions. DEVICE_OBJECT, CUOBJDUMP: the GPU's
# updates, and NVIDIA's disassembler. LISTING, DEVICE_LISTING: output that tests pass instead of running a disassembler.

# Sets `text` to a disassembler's output, or `failure` to the reason why there is none.
function(disassemble name tool listing)
  set(text "" PARENT_SCOPE)
  set(failure "" PARENT_SCOPE)
  if(listing)
    file(READ ${listing} found)
    set(text "${found}" PARENT_SCOPE)
  elseif(NOT tool)
    set(failure "there was no ${name} when this was built" PARENT_SCOPE)
  else()
    execute_process(COMMAND ${tool} ${ARGN} OUTPUT_VARIABLE found ERROR_VARIABLE complaint RESULT_VARIABLE code)
    set(text "${found}" PARENT_SCOPE)
    if(NOT code EQUAL 0)
      string(REGEX REPLACE "[\n\"\\]" " " complaint "${complaint}")
      set(failure "${name} failed: ${complaint}" PARENT_SCOPE)
    endif()
  endif()
endfunction()

# Sets `variable` to the kinds of instruction in the bodies of the functions whose heads match `head`. There is one such
# function per compiled architecture.
function(instruction_of variable text head end native loop)
  set(found "")
  while(text MATCHES "${head}")
    string(FIND "${text}" "${CMAKE_MATCH_0}" at)
    string(LENGTH "${CMAKE_MATCH_0}" length)
    math(EXPR at "${at} + ${length}")
    string(SUBSTRING "${text}" ${at} -1 text)
    string(FIND "${text}" "${end}" length)
    string(SUBSTRING "${text}" 0 ${length} body)
    # A loop takes precedence if a body contains both: on x86 a native addition of a number may be followed by
    # instructions that are not native.
    if(body MATCHES "[ \t](${loop})")
      list(APPEND found "compare-and-swap loop (${CMAKE_MATCH_1})")
    elseif(body MATCHES "[ \t](${native})")
      list(APPEND found "native add (${CMAKE_MATCH_1})")
    else()
      list(APPEND found "unknown: no atomic instruction was recognised")
    endif()
  endwhile()
  if(NOT found)
    set(found "unknown: the function is not in the disassembly")
  endif()
  list(REMOVE_DUPLICATES found)
  list(JOIN found ", " found)
  set(${variable} "${found}" PARENT_SCOPE)
endfunction()

disassemble(objdump "${OBJDUMP}" "${LISTING}" -d -r --no-show-raw-insn ${OBJECT})
set(native "lock (add|inc|xadd)[bwlq]?|ldadd[alhb]*|stadd[lhb]*|__aarch64_ldadd[0-9]+_[a-z]+|amoadd[.a-z]*")
set(loop "lock cmpxchg[a-z0-9]*|casp?[alhb]*|__aarch64_cas[0-9]+_[a-z]+|stl?xr[hb]?|st[wd]cx\\.|sc\\.[wd][.a-z]*")
set(host_table "")
foreach(type u32 u64 f32 f64)
  set(found "unknown: ${failure}")
  if(failure STREQUAL "")
    instruction_of(found "${text}" "<[^>\n]*update_${type}[^>\n]*>:" "\n\n" "${native}" "${loop}")
  endif()
  string(APPEND host_table "    \"${found}\",\n")
endforeach()

if(BACKEND STREQUAL "cuda")
  disassemble(cuobjdump "${CUOBJDUMP}" "${DEVICE_LISTING}" -sass ${DEVICE_OBJECT})
elseif(BACKEND STREQUAL "host")
  set(failure "the kernels are emulated")
else()
  set(failure "no disassembler of ${BACKEND} kernels is known to the build")
endif()
string(REPLACE ";" " " text "${text}")  # otherwise CMake would read it as a list
set(device_table "")
foreach(letter j y f d)  # mangled types: unsigned, unsigned long long, float, double
  string(APPEND device_table "    {\n")
  foreach(system_scope 0 1)
    set(found "unknown: ${failure}")
    if(failure STREQUAL "")
      instruction_of(found "${text}" "Function : [^\n]*update_binsI${letter}Lb${system_scope}E[^\n]*\n" "Function : "
        "(RED|ATOM)[GS]?\\.[A-Z0-9.]*ADD[A-Z0-9.]*" "ATOM[GS]?\\.[A-Z0-9.]*CAS[A-Z0-9.]*")
    endif()
    string(APPEND device_table "      \"${found}\",\n")
  endforeach()
  string(APPEND device_table "    },\n")
endforeach()

file(WRITE ${OUTPUT} "// Written by read_instructions.cmake.
#include \"microbench/atomics/host_updates.hpp\"

namespace isthmus::microbench::atomics {

std::string host_instruction(Type type) {
  static constexpr const char* kFound[] = {
${host_table}  };
  return kFound[static_cast<int>(type)];
}

std::string device_instruction(Type type, bool system_scope) {
  static constexpr const char* kFound[][2] = {
${device_table}  };
  return kFound[static_cast<int>(type)][system_scope ? 1 : 0];
}

}  // namespace isthmus::microbench::atomics
")
