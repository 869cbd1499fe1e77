# Installs the libraries that KVCAL_BUNDLED is linked with into lib/kvcal, under the names by which they are asked for, and the
# licenses that Debian has of them beside. What every Linux has stays out: it must fit the machine's own. For another processor
# KVCAL_ROOT is where Debian's packages were unpacked; dpkg-query is told of them by DPKG_ADMINDIR.
file(GLOB folders ${KVCAL_ROOT}/lib/*-linux-gnu ${KVCAL_ROOT}/usr/lib/*-linux-gnu)
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${KVCAL_BUNDLED} RESOLVED_DEPENDENCIES_VAR libraries DIRECTORIES ${folders}
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|gcc_s|z|stdc\\+\\+)\\.so")
foreach(library ${libraries})
  get_filename_component(name ${library} NAME)
  if(KVCAL_ROOT)
    # This machine may have the same one, which is found first.
    find_file(${name} ${name} PATHS ${folders} NO_DEFAULT_PATH REQUIRED)
    set(library ${${name}})
  endif()
  file(REAL_PATH ${library} file)
  file(INSTALL ${file} DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/kvcal RENAME ${name} USE_SOURCE_PERMISSIONS)
  execute_process(COMMAND dpkg-query --search ${file} OUTPUT_VARIABLE owner COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE ":.*" "" package ${owner})
  file(REAL_PATH ${KVCAL_ROOT}/usr/share/doc/${package}/copyright terms)
  file(INSTALL ${terms} DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/kvcal/licenses RENAME ${package})
endforeach()
