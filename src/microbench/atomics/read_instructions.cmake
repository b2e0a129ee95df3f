# Writes OUTPUT, C++ tables of what the compilers made of each atomic addition: a native addition or a compare-and-swap
# loop. Whatever cannot be read is "unknown: " and the reason.
#
# OBJECT, OBJDUMP: the CPU's updates, and a disassembler that knows its CPU. DEVICE_OBJECT, CUOBJDUMP: the GPU's, and
# NVIDIA's. LISTING, DEVICE_LISTING in the place of a disassembler: its text, for tests.

# Sets `text` to what a disassembler says, or `failure`.
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

# What the bodies of the functions whose heads match are made of, one word for each machine that was compiled for.
function(instruction_of variable text head end native loop)
  set(found "")
  while(text MATCHES "${head}")
    string(FIND "${text}" "${CMAKE_MATCH_0}" at)
    string(LENGTH "${CMAKE_MATCH_0}" length)
    math(EXPR at "${at} + ${length}")
    string(SUBSTRING "${text}" ${at} -1 text)
    string(FIND "${text}" "${end}" length)
    string(SUBSTRING "${text}" 0 ${length} body)
    # A loop also where both are there: x86's additions of a number are native, and what follows them is not.
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
string(REPLACE ";" " " text "${text}")  # or CMake takes them for lists
set(device_table "")
foreach(letter j y f d)  # as they are mangled: unsigned, unsigned long long, float, double
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
