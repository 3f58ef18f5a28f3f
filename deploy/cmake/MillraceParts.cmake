# The libraries and tools that Millrace stands on. Each one is a "part": what was found, what it is for and the Debian
# package that brings it. The same table is printed when configuring (MillraceSummary), compiled into the program
# (core/base/build_info.h) and shown by `millrace doctor`.
#
# Required parts are looked up together, so that one configure run names everything that is missing.
# Optional parts follow MILLRACE_WITH_<part>; MILLRACE_HAS_<part> says the outcome.

set(millrace_parts "")  # names; each has millrace_part_<name>_{version,purpose,package,need}

# need: required, optional or later (reported, but nothing is built with it yet).
function(millrace_part NAME NEED VERSION PURPOSE PACKAGE)
  set(millrace_parts ${millrace_parts} ${NAME} PARENT_SCOPE)
  set(millrace_part_${NAME}_need ${NEED} PARENT_SCOPE)
  set(millrace_part_${NAME}_version "${VERSION}" PARENT_SCOPE)
  set(millrace_part_${NAME}_purpose "${PURPOSE}" PARENT_SCOPE)
  set(millrace_part_${NAME}_package "${PACKAGE}" PARENT_SCOPE)
endfunction()

# millrace_required(NAME purpose package find_package-arguments...): a macro, because find_package sets variables.
macro(millrace_required NAME PURPOSE PACKAGE)
  find_package(${ARGN} QUIET)
  if(${ARGV3}_FOUND)
    set(version_of_part found)
    foreach(variable ${ARGV3}_VERSION_STRING ${ARGV3}_CXX_VERSION ${ARGV3}_VERSION)  # the last one wins
      if(${variable})
        set(version_of_part ${${variable}})
      endif()
    endforeach()
    millrace_part(${NAME} required "${version_of_part}" "${PURPOSE}" ${PACKAGE})
  else()
    string(REPLACE "," " " packages_of_part ${PACKAGE})
    string(APPEND millrace_missing "\n  ${NAME} (${PURPOSE}): ${packages_of_part}")
    string(APPEND millrace_missing_packages " ${packages_of_part}")
  endif()
endmacro()

# Records an optional part that was looked for when its option is not OFF; ON and not found is an error.
macro(millrace_optional NAME OPTION FOUND VERSION PURPOSE PACKAGE)
  set(MILLRACE_HAS_${NAME} OFF)
  if(${OPTION} STREQUAL OFF)
    millrace_part(${NAME} optional "" "${PURPOSE}" "${PACKAGE}")
  elseif(${FOUND})
    set(MILLRACE_HAS_${NAME} ON)
    millrace_part(${NAME} optional "${VERSION}" "${PURPOSE}" "${PACKAGE}")
  elseif(${OPTION} STREQUAL ON)
    message(FATAL_ERROR "${OPTION} is ON, and ${NAME} (${PURPOSE}) was not found. It comes with: ${PACKAGE}. "
                        "Where it lies somewhere else, name that place in CMAKE_PREFIX_PATH, or set ${OPTION} to AUTO.")
  else()
    millrace_part(${NAME} optional "" "${PURPOSE}" "${PACKAGE}")
  endif()
endmacro()

# millrace_find_by_header(TARGET t HEADER h LIBRARIES names... [SUFFIXES ...] [HINTS ...] [VERSION_HEADER h] VERSION_MACROS m...)
# For libraries without a CMake package: an imported target, and its version read from the macros of a header.
# Sets <variable>_FOUND and <variable>_VERSION.
function(millrace_find_by_header VARIABLE)
  cmake_parse_arguments(ARG "" "TARGET;HEADER;VERSION_HEADER" "LIBRARIES;SUFFIXES;HINTS;VERSION_MACROS" ${ARGN})
  set(${VARIABLE}_FOUND FALSE PARENT_SCOPE)
  find_path(${VARIABLE}_INCLUDE_DIR ${ARG_HEADER} HINTS ${ARG_HINTS} PATH_SUFFIXES include ${ARG_SUFFIXES})
  find_library(${VARIABLE}_LIBRARY NAMES ${ARG_LIBRARIES} NAMES_PER_DIR HINTS ${ARG_HINTS} PATH_SUFFIXES lib lib64)
  mark_as_advanced(${VARIABLE}_INCLUDE_DIR ${VARIABLE}_LIBRARY)
  if(NOT ${VARIABLE}_INCLUDE_DIR OR NOT ${VARIABLE}_LIBRARY)
    return()
  endif()
  if(NOT ARG_VERSION_HEADER)
    set(ARG_VERSION_HEADER ${ARG_HEADER})
  endif()
  file(READ ${${VARIABLE}_INCLUDE_DIR}/${ARG_VERSION_HEADER} text)
  set(numbers "")
  foreach(name ${ARG_VERSION_MACROS})
    if(text MATCHES "${name}[ =]+\"?([0-9.]+)")
      list(APPEND numbers ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(JOIN numbers "." version)
  if(NOT version)
    set(version "unknown version")
  endif()
  add_library(${ARG_TARGET} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(${ARG_TARGET} PROPERTIES IMPORTED_LOCATION ${${VARIABLE}_LIBRARY})
  target_include_directories(${ARG_TARGET} SYSTEM INTERFACE ${${VARIABLE}_INCLUDE_DIR})
  set(${VARIABLE}_FOUND TRUE PARENT_SCOPE)
  set(${VARIABLE}_VERSION "${version}" PARENT_SCOPE)
endfunction()

set(MILLRACE_CUDA_ARCHITECTURES "" CACHE STRING "GPU architectures to compile for, as 80;90a; empty: all that the compiler knows")
# --- CUDA: the compiler is asked first, because enable_language without one ends the configuration. libcuda is never
# linked: a program that needs it does not even start on a machine without a driver.
if(NOT MILLRACE_WITH_CUDA STREQUAL OFF)
  include(CheckLanguage)
  find_package(CUDAToolkit 12.0 QUIET)
  if(CUDAToolkit_FOUND)
    if(NOT CMAKE_CUDA_COMPILER)
      set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
    endif()
    # Machine code and PTX for each: Ampere (also 8.6 to 8.9), Hopper with its own instructions, and from 12.8 on Blackwell in
    # servers (10.0 and 10.3) and at home (12.0 and 12.1). What is newer compiles the PTX of 8.0 or 12.0 when it starts; tests read
    # all of it.
    if(MILLRACE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES ${MILLRACE_CUDA_ARCHITECTURES})
    elseif(NOT CMAKE_CUDA_ARCHITECTURES)
      if(CUDAToolkit_VERSION VERSION_LESS 12.8)
        set(CMAKE_CUDA_ARCHITECTURES 80 90a)
      else()
        set(CMAKE_CUDA_ARCHITECTURES 80 90a 100 120)
      endif()
    endif()
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      enable_language(CUDA)
      # CMake 3.25 does not know that nvcc speaks C++20.
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA_STANDARD 20)
      set(millrace_cuda_works TRUE)
    endif()
  endif()
endif()
millrace_optional(CUDA MILLRACE_WITH_CUDA millrace_cuda_works "${CMAKE_CUDA_COMPILER_VERSION}" "RNN kernels and CNN layers on NVIDIA GPUs"
                  "CUDA toolkit 12 or newer (from NVIDIA)")
if(MILLRACE_GPU_ONLY)
  return()
endif()

set(cuda_places ${CUDAToolkit_LIBRARY_ROOT} ${CUDAToolkit_TARGET_DIR} ENV CUDA_HOME)
if(NOT MILLRACE_WITH_NCCL STREQUAL OFF AND MILLRACE_HAS_CUDA)
  millrace_find_by_header(NCCL TARGET NCCL::nccl HEADER nccl.h LIBRARIES nccl libnccl.so.2 HINTS ${cuda_places}
                          VERSION_MACROS NCCL_MAJOR NCCL_MINOR NCCL_PATCH)
endif()
millrace_optional(NCCL MILLRACE_WITH_NCCL NCCL_FOUND "${NCCL_VERSION}" "streams and reductions between GPUs" "NCCL 2 (from NVIDIA)")
if(NOT MILLRACE_WITH_CUDNN STREQUAL OFF AND MILLRACE_HAS_CUDA)
  millrace_find_by_header(CUDNN TARGET CUDNN::cudnn HEADER cudnn.h LIBRARIES cudnn libcudnn.so.9 HINTS ${cuda_places}
                          VERSION_HEADER cudnn_version.h VERSION_MACROS CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL)
endif()
millrace_optional(CUDNN MILLRACE_WITH_CUDNN CUDNN_FOUND "${CUDNN_VERSION}" "convolutions on GPUs" "cuDNN 9 (from NVIDIA)")

# --- FPGA boards. XRT has no CMake package, and its pkg-config names a folder that does not exist.
if(NOT MILLRACE_WITH_XRT STREQUAL OFF)
  millrace_find_by_header(XRT TARGET XRT::xrt HEADER xrt/xrt_device.h LIBRARIES xrt_coreutil libxrt_coreutil.so.2 SUFFIXES include/xrt xrt
                          HINTS ENV XILINX_XRT VERSION_HEADER version.h VERSION_MACROS XRT_DRIVER_VERSION)
endif()
millrace_optional(XRT MILLRACE_WITH_XRT XRT_FOUND "${XRT_VERSION}" "FPGA boards" libxrt-dev)
if(NOT MILLRACE_WITH_VERILATOR STREQUAL OFF)
  find_package(verilator QUIET HINTS /usr/share/verilator)
endif()
millrace_optional(VERILATOR MILLRACE_WITH_VERILATOR verilator_FOUND "${verilator_VERSION}" "generated RTL checked by simulation" verilator)
foreach(tool ICARUS YOSYS)  # programs that tests run
  set(program_ICARUS iverilog)
  set(program_YOSYS yosys)
  set(version_of_tool "")
  if(NOT MILLRACE_WITH_${tool} STREQUAL OFF)
    find_program(${tool}_PROGRAM ${program_${tool}})
    mark_as_advanced(${tool}_PROGRAM)
    if(${tool}_PROGRAM)
      execute_process(COMMAND ${${tool}_PROGRAM} -V OUTPUT_VARIABLE text ERROR_QUIET)
      string(REGEX MATCH "[0-9]+[.][0-9]+" version_of_tool "${text}")
    endif()
  endif()
  set(version_of_${tool} "${version_of_tool}")
endforeach()
millrace_optional(ICARUS MILLRACE_WITH_ICARUS ICARUS_PROGRAM "${version_of_ICARUS}" "a second simulator for the generated RTL" iverilog)
millrace_optional(YOSYS MILLRACE_WITH_YOSYS YOSYS_PROGRAM "${version_of_YOSYS}" "resources of the generated RTL checked by synthesis" yosys)

# --- Formats of other frameworks.
if(NOT MILLRACE_WITH_ONNX STREQUAL OFF)
  millrace_find_by_header(ONNX TARGET ONNX::proto HEADER onnx/onnx_pb.h LIBRARIES onnx_proto VERSION_HEADER onnx/common/version.h
                          VERSION_MACROS LAST_RELEASE_VERSION)
endif()
millrace_optional(ONNX MILLRACE_WITH_ONNX ONNX_FOUND "${ONNX_VERSION}" "models read from and written to ONNX" libonnx-dev)
if(NOT MILLRACE_WITH_HDF5 STREQUAL OFF)
  millrace_find_by_header(HDF5 TARGET HDF5::c HEADER hdf5.h LIBRARIES hdf5_serial hdf5 SUFFIXES include/hdf5/serial hdf5/serial
                          VERSION_HEADER H5public.h VERSION_MACROS H5_VERS_MAJOR H5_VERS_MINOR H5_VERS_RELEASE)
endif()
millrace_optional(HDF5 MILLRACE_WITH_HDF5 HDF5_FOUND "${HDF5_VERSION}" "weights read from Keras" libhdf5-dev)

# --- Pictures.
if(NOT MILLRACE_WITH_JPEG STREQUAL OFF)
  find_package(JPEG QUIET)
endif()
millrace_optional(JPEG MILLRACE_WITH_JPEG JPEG_FOUND "${JPEG_VERSION}" "pictures read from JPEG" libjpeg62-turbo-dev)
if(NOT MILLRACE_WITH_PNG STREQUAL OFF)
  find_package(PNG QUIET)
endif()
millrace_optional(PNG MILLRACE_WITH_PNG PNG_FOUND "${PNG_VERSION_STRING}" "pictures read from PNG" libpng-dev)

# --- Sound.
if(NOT MILLRACE_WITH_KISSFFT STREQUAL OFF)
  find_package(kissfft CONFIG QUIET COMPONENTS SHARED)
  if(NOT TARGET kissfft::kissfft-float)
    set(kissfft_FOUND FALSE)
  endif()
endif()
millrace_optional(KISSFFT MILLRACE_WITH_KISSFFT kissfft_FOUND "${kissfft_VERSION}" "speech heard by networks" libkissfft-dev)

# --- Required.
millrace_required(Threads "threads" libc6-dev Threads)
millrace_required(fmt "messages" libfmt-dev fmt)
millrace_required(spdlog "the log" libspdlog-dev spdlog)
millrace_required(Protobuf "models, clusters, plans and jobs" libprotobuf-dev,protobuf-compiler Protobuf)
# A oneDNN built with its OpenCL runtime, as Debian's is, ends the configuration when OpenCL's headers are missing: looked up
# first, so that they are named among the rest.
find_package(OpenCL QUIET)
if(OpenCL_FOUND)
  millrace_required(oneDNN "the CPU engine" libdnnl-dev dnnl CONFIG)
else()
  string(APPEND millrace_missing "\n  oneDNN with OpenCL's headers (the CPU engine): libdnnl-dev ocl-icd-opencl-dev")
  string(APPEND millrace_missing_packages " libdnnl-dev ocl-icd-opencl-dev")
endif()
millrace_required(OpenMP "threads of the CPU engine" g++ OpenMP COMPONENTS CXX)
millrace_required(zlib "compressed data files" zlib1g-dev ZLIB)
millrace_required(nlohmann_json "JSON results" nlohmann-json3-dev nlohmann_json)
millrace_required(CLI11 "the command line" libcli11-dev CLI11)
set(MPI_CXX_SKIP_MPICXX ON)
millrace_required(MPI "rings over several processes and hosts" libopenmpi-dev,openmpi-bin MPI 3.1 COMPONENTS CXX)
find_path(XXHASH_INCLUDE_DIR xxhash.h)
mark_as_advanced(XXHASH_INCLUDE_DIR)
if(XXHASH_INCLUDE_DIR)
  file(STRINGS ${XXHASH_INCLUDE_DIR}/xxhash.h xxhash_lines REGEX "define XXH_VERSION_(MAJOR|MINOR|RELEASE)")
  string(REGEX REPLACE "[^0-9;]" "" xxhash_numbers "${xxhash_lines}")
  list(JOIN xxhash_numbers "." xxhash_version)
  millrace_part(xxHash required "${xxhash_version}" "checksums" libxxhash-dev)
else()
  string(APPEND millrace_missing "\n  xxHash (checksums): libxxhash-dev")
  string(APPEND millrace_missing_packages " libxxhash-dev")
endif()
if(millrace_missing)
  message(FATAL_ERROR "Millrace needs what is not installed here:${millrace_missing}\nInstall it with: apt-get install${millrace_missing_packages}\n"
                      "or let deploy/quickstart.sh do everything.")
endif()

if(NOT MILLRACE_TESTS STREQUAL OFF)
  find_package(GTest QUIET)
  if(GTest_FOUND AND NOT TARGET GTest::gmock)
    set(GTest_FOUND FALSE)
  endif()
endif()
millrace_optional(TESTS MILLRACE_TESTS GTest_FOUND "${GTest_VERSION}" "the tests (GoogleTest)" "libgtest-dev libgmock-dev")
