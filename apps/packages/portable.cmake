# kvcal_older_symbols(kvcal): with KVCAL_PORTABLE, a program or library that runs where glibc and libstdc++ are of 2021: RHEL 9,
# Ubuntu 22.04, Debian 12, later ones.
function(kvcal_older_symbols target)
  if(KVCAL_PORTABLE)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/apps/packages/older_libstdcxx.cpp)
    target_link_options(${target} PRIVATE -Wl,--wrap=_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE)
  endif()
endfunction()

# kvcal_portable(kvcal): and it brings what it is linked with, in lib/kvcal.
function(kvcal_portable target)
  kvcal_older_symbols(${target})
  if(NOT KVCAL_PORTABLE)
    return()
  endif()
  # A RPATH and no RUNPATH: it holds for what these libraries need, too.
  target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/kvcal")
  install(CODE "set(KVCAL_BUNDLED \"$<TARGET_FILE:${target}>\")" COMPONENT libraries)
  install(CODE "set(KVCAL_ROOT \"${CMAKE_FIND_ROOT_PATH}\")" COMPONENT libraries)
  install(SCRIPT ${PROJECT_SOURCE_DIR}/apps/packages/bundle.cmake COMPONENT libraries)
endfunction()

if(KVCAL_PORTABLE)
  set(CMAKE_INSTALL_LIBDIR lib)
endif()
