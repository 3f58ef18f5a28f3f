# Installs the headers that are for users: one whose opening comment says "Internal to <its folder>" stays behind.
# Called when installing (millrace_library): what a header says then counts, not what it said when the build was configured.
function(install_public_headers HEADERS DESTINATION)
  foreach(header ${HEADERS})
    file(READ ${header} text LIMIT 8000)
    string(REGEX REPLACE "#pragma once.*" "" opening "${text}")
    string(REGEX REPLACE "[ /\n]+" " " opening "${opening}")
    if(NOT opening MATCHES "nternal to ")
      file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/${DESTINATION} TYPE FILE FILES ${header})
    endif()
  endforeach()
endfunction()
