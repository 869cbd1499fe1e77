# Sourced, from the root: the tools of .ci/dist.txt in PATH, and what makes builds repeatable.
sh .ci/packages.sh build dist
python3 .ci/newest.py
tools=build/dist-tools
. .ci/python_environment.sh
python_environment $tools .ci/dist.txt --only-binary=:all:
PATH=$PWD/$tools/bin:$PATH
umask 022
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
CMAKE_BUILD_PARALLEL_LEVEL=$(sh .ci/jobs.sh)
LC_ALL=C.UTF-8 TZ=UTC
# By the name that CMake's presets find: ccache takes objects of another name for those of another compiler.
CXX=${CXX:-c++}
export PATH SOURCE_DATE_EPOCH CMAKE_BUILD_PARALLEL_LEVEL LC_ALL TZ CXX
