# millrace_library(NAME [BRIEF] [SEPARATE] [DEPENDS ...] [LINKS ...]): a static library millrace_NAME of every .cpp in this folder, installed
# with its public headers (install_headers.cmake) and exported as Millrace::NAME. A folder without .cpp is a library of interfaces.
# millrace_test(NAME [SEPARATE] [AVX2] [LONG] DEPENDS ... [LABEL ...] [TIMEOUT s]): a GoogleTest binary of every .cpp in this folder, known to
# ctest test by test. LONG: its suites whose names end in Long are labelled `long`, for deploy/check.sh --long.
# A test of several labels has them joined by +, since discovered tests take one word alone.
# AVX2: the tests run once more without AVX-512, as NAME_on_avx2, labelled `avx2` (core/cpu/instruction_set.h).
# With MILLRACE_UNITY several .cpp of a folder are compiled at once, which takes half the time of a build from nothing; folders whose
# files use one name for different things say SEPARATE.
# What runs for moments or orders what others compute (documents, pages, commands, training; in tests/ everything) is compiled with less
# optimisation in a release, which takes half the time: a library says BRIEF.
# millrace_embedded_modules(LIBRARY FUNCTION): the SystemVerilog sources of this folder's `modules`, by name, as what
# const std::vector<RtlModule>& millrace::FUNCTION() returns (fpga/common/rtl/rtl_modules.h): a program can write a design anywhere.
# millrace_declared_kernels(LIBRARY): this folder's kernels.h, of kernels.h.in and one declaration for each make_kernel_for in its sources.
# millrace_embedded_documents(LIBRARY CONSTANT): the .textproto files of this folder, one after the other, as the C string
# millrace::CONSTANT inside the library.
include(GNUInstallDirs)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)  # what users of the libraries need; programs say runtime, xrt or cuda
set(MILLRACE_GENERATED_FOLDER ${CMAKE_BINARY_DIR}/generated)
set(MILLRACE_INSTALLED_HEADERS ${CMAKE_INSTALL_INCLUDEDIR}/millrace)
set(MILLRACE_INSTALL_HEADERS ${CMAKE_CURRENT_LIST_DIR}/install_headers.cmake)

add_library(millrace_flags INTERFACE)
target_include_directories(millrace_flags INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
# GCC begins to collect garbage at 1 GB instead of some 30 MB: a seventh of its time, for memory that the largest files take anyway.
target_compile_options(millrace_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1000000>)
target_compile_options(millrace_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror>)
# One rounding per operation, whatever the compiler and its target: otherwise a*b+c may or may not become one instruction.
target_compile_options(millrace_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
target_compile_definitions(millrace_flags INTERFACE "$<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS;MILLRACE_CHECKED_LOOPS>")
if(MILLRACE_SANITIZE)
  target_compile_definitions(millrace_flags INTERFACE $<$<NOT:$<CONFIG:Debug>>:MILLRACE_CHECKED_LOOPS>)  # core/base/index.h
  target_compile_options(millrace_flags INTERFACE -fsanitize=${MILLRACE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # What GCC inserts to check hides from it that an optional is empty.
  target_compile_options(millrace_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(millrace_flags INTERFACE -fsanitize=${MILLRACE_SANITIZE})
endif()
if(MILLRACE_COVERAGE)
  target_compile_options(millrace_flags INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(millrace_flags INTERFACE --coverage)
endif()

function(millrace_compile_together TARGET SEPARATE)
  if(MILLRACE_UNITY AND NOT SEPARATE)
    set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
    # A type hidden in one .cpp looks as if it were in a header.
    target_compile_options(${TARGET} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

set(MILLRACE_BRIEFLY $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-Og>)
function(millrace_compile_briefly TARGET)
  target_compile_options(${TARGET} PRIVATE ${MILLRACE_BRIEFLY})
endfunction()

function(millrace_library NAME)
  cmake_parse_arguments(ARG "BRIEF;SEPARATE" "" "DEPENDS;LINKS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
  list(TRANSFORM ARG_DEPENDS PREPEND millrace_)
  set(target millrace_${NAME})
  if(sources)
    set(visibility PUBLIC)
    add_library(${target} STATIC ${sources})
    millrace_compile_together(${target} ${ARG_SEPARATE})
    if(ARG_BRIEF)
      millrace_compile_briefly(${target})
    endif()
    target_link_libraries(${target} PUBLIC ${ARG_DEPENDS} PRIVATE $<BUILD_INTERFACE:millrace_flags> ${ARG_LINKS})
  else()  # interfaces only
    set(visibility INTERFACE)
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${ARG_DEPENDS})
  endif()
  target_include_directories(${target} ${visibility} $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<BUILD_INTERFACE:${MILLRACE_GENERATED_FOLDER}>
                             $<INSTALL_INTERFACE:${MILLRACE_INSTALLED_HEADERS}>)
  target_compile_features(${target} ${visibility} cxx_std_20)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${NAME})
  add_library(Millrace::${NAME} ALIAS ${target})

  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  install(TARGETS ${target} EXPORT MillraceTargets)
  install(CODE "include(\"${MILLRACE_INSTALL_HEADERS}\")
install_public_headers(\"${headers}\" \"${MILLRACE_INSTALLED_HEADERS}/${folder}\")" COMPONENT ${CMAKE_INSTALL_DEFAULT_COMPONENT_NAME})
  set_property(GLOBAL APPEND PROPERTY MILLRACE_LIBRARIES ${target})
  set_property(GLOBAL PROPERTY MILLRACE_FOLDER_OF_${target} ${folder})
endfunction()

set(MILLRACE_DECLARE_KERNELS ${CMAKE_CURRENT_LIST_DIR}/declare_kernels.cmake)
function(millrace_declared_kernels LIBRARY)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(header ${MILLRACE_GENERATED_FOLDER}/${folder}/kernels.h)
  set(template ${CMAKE_CURRENT_SOURCE_DIR}/kernels.h.in)
  add_custom_command(OUTPUT ${header} DEPENDS ${sources} ${template} ${MILLRACE_DECLARE_KERNELS} VERBATIM
                     COMMAND ${CMAKE_COMMAND} -DFOLDERS=${CMAKE_CURRENT_SOURCE_DIR} -DTEMPLATE=${template} -DHEADER=${header}
                             -P ${MILLRACE_DECLARE_KERNELS})
  target_sources(millrace_${LIBRARY} PRIVATE ${header})
endfunction()

set(MILLRACE_AVX2_ONLY ONEDNN_MAX_CPU_ISA=AVX2)  # in a test's environment
function(millrace_test NAME)
  cmake_parse_arguments(ARG "SEPARATE;AVX2;LONG" "LABEL;TIMEOUT" "DEPENDS;LINKS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(NOT sources)
    message(WARNING "${CMAKE_CURRENT_SOURCE_DIR} has no test sources")
    return()
  endif()
  add_executable(test_${NAME} ${sources})
  millrace_compile_together(test_${NAME} ${ARG_SEPARATE})
  if(TARGET millrace_test_prelude)
    set(json "")
    if("nlohmann_json::nlohmann_json" IN_LIST ARG_LINKS)
      set(json "json_")
    endif()
    target_precompile_headers(test_${NAME} REUSE_FROM millrace_${json}test_prelude)
  endif()
  list(TRANSFORM ARG_DEPENDS PREPEND millrace_)
  target_link_libraries(test_${NAME} PRIVATE ${ARG_DEPENDS} millrace_flags ${ARG_LINKS} GTest::gmock GTest::gtest_main)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set(also "")  # in front of another label
  if(ARG_LABEL)
    set(also "${ARG_LABEL}+")
  endif()
  set(filter "")
  if(ARG_LONG)
    set(filter "*Long.*:*Long/*")
    gtest_discover_tests(test_${NAME} TEST_PREFIX "${NAME}." DISCOVERY_MODE PRE_TEST TEST_FILTER ${filter}
                         PROPERTIES TIMEOUT 3600 LABELS "${also}long")
    string(PREPEND filter "-")
  endif()
  gtest_discover_tests(test_${NAME} TEST_PREFIX "${NAME}." DISCOVERY_MODE PRE_TEST TEST_FILTER "${filter}"
                       PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABEL}")
  if(ARG_AVX2)
    gtest_discover_tests(test_${NAME} TEST_PREFIX "${NAME}_on_avx2." DISCOVERY_MODE PRE_TEST TEST_FILTER "${filter}"
                         PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${also}avx2" ENVIRONMENT ${MILLRACE_AVX2_ONLY})
  endif()
endfunction()

function(millrace_embedded_documents LIBRARY CONSTANT)
  file(GLOB documents CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.textproto)
  list(SORT documents)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${documents})
  set(text "")
  foreach(document ${documents})
    file(READ ${document} one)
    string(APPEND text "${one}")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${CONSTANT}.cpp @ONLY
       CONTENT "namespace millrace {\nextern const char* const @CONSTANT@;\nconst char* const @CONSTANT@ = R\"documents(@text@)documents\";\n}  // namespace millrace\n")
  target_sources(millrace_${LIBRARY} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/${CONSTANT}.cpp)
endfunction()

function(millrace_embedded_modules LIBRARY FUNCTION)
  file(GLOB modules CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/modules/*.sv)
  list(SORT modules)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${modules})
  set(entries "")
  foreach(module ${modules})
    get_filename_component(name ${module} NAME)
    file(READ ${module} text)
    string(APPEND entries "    {\"${name}\", R\"sv(${text})sv\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${FUNCTION}.cpp @ONLY CONTENT "#include \"fpga/common/rtl/rtl_modules.h\"

namespace millrace {

extern const std::vector<RtlModule>& @FUNCTION@();

const std::vector<RtlModule>& @FUNCTION@() {
  static const std::vector<RtlModule> modules = {
@entries@  };
  return modules;
}

}  // namespace millrace
")
  target_sources(millrace_${LIBRARY} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/${FUNCTION}.cpp)
endfunction()
