# Writes OUTPUT, a C++ table of what the compiler made of each atomic addition in OBJECT: a native addition or a
# compare-and-swap loop. Whatever cannot be read is "unknown: " and the reason.
#
# OBJDUMP: a disassembler that knows the object's CPU. LISTING in its place: text of one, for tests.
set(native "lock (add|inc|xadd)[bwlq]?|ldadd[alhb]*|stadd[lhb]*|__aarch64_ldadd[0-9]+_[a-z]+|amoadd[.a-z]*")
set(loop "lock cmpxchg[a-z0-9]*|casp?[alhb]*|__aarch64_cas[0-9]+_[a-z]+|stl?xr[hb]?|st[wd]cx\\.|sc\\.[wd][.a-z]*")

set(failure "")
if(DEFINED LISTING)
  file(READ ${LISTING} text)
elseif(NOT OBJDUMP)
  set(failure "there was no objdump when this was built")
else()
  execute_process(COMMAND ${OBJDUMP} -d -r --no-show-raw-insn ${OBJECT}
    OUTPUT_VARIABLE text ERROR_VARIABLE complaint RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    string(REGEX REPLACE "[\n\"\\]" " " complaint "${complaint}")
    set(failure "objdump failed: ${complaint}")
  endif()
endif()

set(table "")
foreach(type u32 u64 f32 f64)
  set(found "unknown: ${failure}")
  if(failure STREQUAL "")
    # From this function's name to the next one's.
    set(found "unknown: update_${type} is not in the disassembly")
    string(REGEX MATCH "<[^>\n]*update_${type}[^>\n]*>:.*" body "${text}")
    if(body)
      string(FIND "${body}" "\n\n" end)
      string(SUBSTRING "${body}" 0 ${end} body)
      # A loop also where both are there: x86's additions of a number are native, and what follows them is not.
      if(body MATCHES "[ \t](${loop})")
        set(found "compare-and-swap loop (${CMAKE_MATCH_1})")
      elseif(body MATCHES "[ \t](${native})")
        set(found "native add (${CMAKE_MATCH_1})")
      else()
        set(found "unknown: no atomic instruction was recognised in update_${type}")
      endif()
    endif()
  endif()
  string(APPEND table "    \"${found}\",\n")
endforeach()

set(reason "the disassembly of ${BACKEND} kernels is not read yet")
if(BACKEND STREQUAL "host")
  set(reason "the kernels are emulated")
endif()
file(WRITE ${OUTPUT} "// Written by read_instructions.cmake.
#include \"microbench/atomics/host_updates.hpp\"

namespace isthmus::microbench::atomics {

std::string host_instruction(Type type) {
  static constexpr const char* kFound[] = {
${table}  };
  return kFound[static_cast<int>(type)];
}

std::string device_instruction(Type, bool) {
  return \"unknown: ${reason}\";
}

}  // namespace isthmus::microbench::atomics
")
