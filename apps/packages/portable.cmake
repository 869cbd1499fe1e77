# kvcal_portable(kvcal): with KVCAL_PORTABLE, the program brings what it is linked with, in lib/kvcal, and runs where glibc and
# libstdc++ are of 2021: RHEL 9, Ubuntu 22.04, Debian 12, later ones.
function(kvcal_portable target)
  if(NOT KVCAL_PORTABLE)
    return()
  endif()
  target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/apps/packages/older_libstdcxx.cpp)
  target_link_options(${target} PRIVATE -Wl,--wrap=_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE)
  # A RPATH and no RUNPATH: it holds for what these libraries need, too.
  target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/kvcal")
  install(CODE "set(KVCAL_BUNDLED \"$<TARGET_FILE:${target}>\")" COMPONENT libraries)
  install(SCRIPT ${PROJECT_SOURCE_DIR}/apps/packages/bundle.cmake COMPONENT libraries)
endfunction()

if(KVCAL_PORTABLE)
  set(CMAKE_INSTALL_LIBDIR lib)
endif()
