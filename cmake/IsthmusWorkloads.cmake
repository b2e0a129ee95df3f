# Adds a group of workloads. A build may leave it out, and `isthmus-bench list` then lacks it. NEEDS names another group
# that this one uses.
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

# Fails if the tests are built although groups are left out. It is called after all groups have been added.
function(isthmus_workloads_fit)
  get_property(left_out GLOBAL PROPERTY ISTHMUS_LEFT_OUT)
  if(left_out AND ISTHMUS_TESTS)
    message(FATAL_ERROR "The tests need all workloads, but ${left_out} are left out: configure with -DISTHMUS_TESTS=OFF")
  endif()
endfunction()
