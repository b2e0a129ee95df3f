# Groups of workloads, each of which a build may leave out: `isthmus-bench list` shows the others. NEEDS is a group that
# this one uses.
function(isthmus_workloads group what)  # FOLDER… [NEEDS group]
  cmake_parse_arguments(PARSE_ARGV 2 with "" NEEDS "")
  string(TOUPPER ISTHMUS_WORKLOADS_${group} chosen)
  option(${chosen} "Workloads ${what}" ON)
  if(NOT ${chosen})
    set_property(GLOBAL APPEND PROPERTY ISTHMUS_LEFT_OUT ${group})
    return()
  endif()
  string(TOUPPER ISTHMUS_WORKLOADS_${with_NEEDS} needed)
  if(with_NEEDS AND DEFINED ${needed} AND NOT ${needed})
    message(FATAL_ERROR "${chosen} needs ${needed}: leave both out or none")
  endif()
  foreach(folder IN LISTS with_UNPARSED_ARGUMENTS)
    add_subdirectory(${folder})
  endforeach()
endfunction()

# Once all groups are known.
function(isthmus_workloads_fit)
  get_property(left_out GLOBAL PROPERTY ISTHMUS_LEFT_OUT)
  if(left_out AND ISTHMUS_TESTS)
    message(FATAL_ERROR "The tests are of all workloads, but ${left_out} are left out: configure with -DISTHMUS_TESTS=OFF")
  endif()
endfunction()
