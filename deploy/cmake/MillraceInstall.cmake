# `cmake --install BUILD --prefix P`: the command, the libraries with their headers, the data (core/data), and a CMake package.
# A program then says find_package(Millrace) and links Millrace::graph, or Millrace::core for all of core;
# our headers are included as in this tree: #include "core/graph/graph.h".
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Millrace)

# One target for each top-level folder that holds several libraries.
get_property(libraries GLOBAL PROPERTY MILLRACE_LIBRARIES)
foreach(library ${libraries})
  get_property(folder GLOBAL PROPERTY MILLRACE_FOLDER_OF_${library})
  if(folder MATCHES "^([^/]+)/")
    set(top ${CMAKE_MATCH_1})
    if(NOT TARGET millrace_${top})
      add_library(millrace_${top} INTERFACE)
      add_library(Millrace::${top} ALIAS millrace_${top})
      set_target_properties(millrace_${top} PROPERTIES EXPORT_NAME ${top})
      install(TARGETS millrace_${top} EXPORT MillraceTargets)
    endif()
    target_link_libraries(millrace_${top} INTERFACE ${library})
  endif()
endforeach()
if(TARGET millrace_protos)
  set_target_properties(millrace_protos PROPERTIES EXPORT_NAME protos)
  install(TARGETS millrace_protos EXPORT MillraceTargets)
endif()
install(FILES ${MILLRACE_GENERATED_FOLDER}/core/base/build_info.h DESTINATION ${MILLRACE_INSTALLED_HEADERS}/core/base)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/millrace COMPONENT runtime)

install(EXPORT MillraceTargets NAMESPACE Millrace:: DESTINATION ${package_folder})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/MillraceConfig.cmake.in ${CMAKE_BINARY_DIR}/MillraceConfig.cmake
                              INSTALL_DESTINATION ${package_folder} PATH_VARS CMAKE_INSTALL_DATADIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/MillraceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/MillraceConfig.cmake ${CMAKE_BINARY_DIR}/MillraceConfigVersion.cmake DESTINATION ${package_folder})
