# Debian packages of what is built: `cpack -G DEB` in the build folder, after `cmake --build`.
#
#   millrace          the command with its data; needs openmpi-bin for rings of several processes
#   millrace-xrt      what drives FPGA boards through XRT, and XRT's emulation
#   libmillrace-dev   libraries, headers and the CMake package
#   cpack -G DEB -D CPACK_COMPONENTS_ALL=runtime                   the command alone, when nothing else is built
#
# Which packages they depend on dpkg-shlibdeps reads from the programs, so a package fits the release of Debian that it was built on. What
# needs CUDA is not packaged: its libraries are no Debian packages. A program that links Millrace::gpu needs the toolkit besides.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME millrace)
set(CPACK_PACKAGE_VENDOR Millrace)
set(CPACK_PACKAGE_CONTACT "Millrace <millrace@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL runtime development)
if(MILLRACE_HAS_XRT)
  list(APPEND CPACK_COMPONENTS_ALL xrt)
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME millrace)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS openmpi-bin)
set(CPACK_DEBIAN_XRT_PACKAGE_NAME millrace-xrt)
set(CPACK_DEBIAN_XRT_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_XRT_PACKAGE_DEPENDS "millrace (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libmillrace-dev)
# Static libraries want what they were built with: the packages that MillraceConfig.cmake looks for, those of optional parts when built in.
set(development_needs libprotobuf-dev libfmt-dev libspdlog-dev libdnnl-dev ocl-icd-opencl-dev nlohmann-json3-dev libcli11-dev zlib1g-dev libxxhash-dev
    libopenmpi-dev "cmake (>= 3.25)")
foreach(part KISSFFT=libkissfft-dev JPEG=libjpeg62-turbo-dev PNG=libpng-dev ONNX=libonnx-dev)
  string(REGEX MATCH "^([A-Z0-9]+)=(.*)$" part "${part}")
  if(MILLRACE_HAS_${CMAKE_MATCH_1})
    list(APPEND development_needs ${CMAKE_MATCH_2})
  endif()
endforeach()
list(JOIN development_needs ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS)
include(CPack)
