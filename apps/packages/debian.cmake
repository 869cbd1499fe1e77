# `cpack` (make dist): a package for the Debian or Ubuntu that it is built on, from a build folder with prefix /usr.
set(folder ${PROJECT_BINARY_DIR}/debian)
find_program(DPKG_SHLIBDEPS dpkg-shlibdeps)
if(NOT DPKG_SHLIBDEPS OR KVCAL_PORTABLE)
  return()
endif()

set(CPACK_PACKAGE_CONTACT "Maintainers of kvcal <kvcal@example.org>")
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)

# What Debian wants in forms of its own: a changelog and a copyright file, and the manual compressed without a time.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # that of SOURCE_DATE_EPOCH, if there is one
configure_file(apps/packages/changelog.in ${folder}/changelog.Debian @ONLY)
add_custom_target(debian_files
  COMMAND gzip -9nc ${PROJECT_SOURCE_DIR}/apps/kvcal.1 > kvcal.1.gz
  COMMAND gzip -9nc ${PROJECT_SOURCE_DIR}/CHANGELOG.md > changelog.gz
  COMMAND gzip -9nc changelog.Debian > changelog.Debian.gz
  WORKING_DIRECTORY ${folder} VERBATIM)
set(debian COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES ${folder}/kvcal.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 ${debian})
install(FILES ${folder}/changelog.gz ${folder}/changelog.Debian.gz apps/packages/copyright
  DESTINATION ${CMAKE_INSTALL_DOCDIR} ${debian})

set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "offline calibrator of FP8 KV-cache scales")
set(CPACK_PACKAGE_DESCRIPTION "Measures what a language model puts into its KV cache, and writes the
scales that an FP8 or INT8 cache needs. It says for every layer whether its
scale matters and whether FP8 is safe there, and exports checkpoints that
vLLM and SGLang load.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_CMAKE_PROJECTS)
foreach(component program completion documents debian)
  list(APPEND CPACK_INSTALL_CMAKE_PROJECTS ${PROJECT_BINARY_DIR} kvcal ${component} /)
endforeach()
include(CPack)
