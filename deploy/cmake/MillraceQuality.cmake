# Targets that look at the code instead of building it; each exists when its tool does.
#   tidy       clang-tidy over core, gpu and deploy (MILLRACE_TIDY_FOLDERS says otherwise)
#   format     clang-format over every source
#   coverage   a report of what the tests reached: build and run them with the coverage preset first
set(MILLRACE_TIDY_FOLDERS core gpu deploy CACHE STRING "what the target tidy looks at")

find_program(CLANG_TIDY NAMES clang-tidy clang-tidy-14)
find_program(RUN_CLANG_TIDY NAMES run-clang-tidy run-clang-tidy-14)
find_program(CLANG_FORMAT NAMES clang-format-14 clang-format)
find_program(GCOVR gcovr)
mark_as_advanced(CLANG_TIDY RUN_CLANG_TIDY CLANG_FORMAT GCOVR)

if(CLANG_TIDY AND RUN_CLANG_TIDY)
  list(JOIN MILLRACE_TIDY_FOLDERS "|" folders)
  add_custom_target(tidy COMMAND ${RUN_CLANG_TIDY} -quiet -clang-tidy-binary ${CLANG_TIDY} -p ${CMAKE_BINARY_DIR} "^${CMAKE_SOURCE_DIR}/(${folders})/.*[.]cpp$"
                    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} USES_TERMINAL VERBATIM)
endif()

if(CLANG_FORMAT)
  file(GLOB_RECURSE formatted CONFIGURE_DEPENDS core/*.h core/*.cpp transport/*.h transport/*.cpp partitioner/*.h partitioner/*.cpp fpga/*.h fpga/*.cpp
       gpu/*.h gpu/*.cpp gpu/*.cu node/*.h node/*.cpp deploy/*.h deploy/*.cpp tests/*.h tests/*.cpp)
  add_custom_target(format COMMAND ${CLANG_FORMAT} -i ${formatted} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} VERBATIM)
endif()

if(MILLRACE_COVERAGE AND GCOVR)
  add_custom_target(coverage
                    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/coverage
                    COMMAND ${GCOVR} --root ${CMAKE_SOURCE_DIR} --filter ${CMAKE_SOURCE_DIR}/core/ --filter ${CMAKE_SOURCE_DIR}/deploy/ --filter ${CMAKE_SOURCE_DIR}/gpu/
                            --exclude-throw-branches --print-summary --html-details ${CMAKE_BINARY_DIR}/coverage/index.html --xml ${CMAKE_BINARY_DIR}/coverage/cobertura.xml
                            --object-directory ${CMAKE_BINARY_DIR} ${CMAKE_BINARY_DIR}
                    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} USES_TERMINAL VERBATIM
                    COMMENT "the report will be ${CMAKE_BINARY_DIR}/coverage/index.html")
endif()
