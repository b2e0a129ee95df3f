# Installation for other projects that use src/paging: libraries, headers, and find_package(isthmus) (docs/paging.md).
# `cmake --install DIR --component library` installs only these.
if(ISTHMUS_LIBRARIES)
  return()  # fmt is part of such a build, not a package that others could find
endif()
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/isthmus)
foreach(library paging memory device host_memory options fmt)
  set_property(TARGET isthmus_${library} PROPERTY EXPORT_NAME ${library})
  install(TARGETS isthmus_${library} EXPORT isthmus ARCHIVE COMPONENT library)
endforeach()
if(TARGET isthmus_gpu_runtime)
  install(TARGETS isthmus_gpu_runtime EXPORT isthmus)
endif()
if(TARGET emulator)
  install(TARGETS emulator EXPORT isthmus ARCHIVE COMPONENT library)
endif()
install(EXPORT isthmus NAMESPACE isthmus:: FILE isthmusTargets.cmake DESTINATION ${package} COMPONENT library)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/device ${PROJECT_SOURCE_DIR}/src/emulator ${PROJECT_SOURCE_DIR}/src/memory ${PROJECT_SOURCE_DIR}/src/paging
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/isthmus COMPONENT library
  FILES_MATCHING PATTERN "*.hpp" PATTERN tests EXCLUDE PATTERN examples EXCLUDE)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/isthmusConfig.cmake.in
  ${PROJECT_BINARY_DIR}/isthmusConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/isthmusConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/isthmusConfig.cmake ${PROJECT_BINARY_DIR}/isthmusConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/IsthmusBackend.cmake ${CMAKE_CURRENT_LIST_DIR}/IsthmusCuda.cmake
  ${CMAKE_CURRENT_LIST_DIR}/IsthmusHip.cmake DESTINATION ${package} COMPONENT library)
