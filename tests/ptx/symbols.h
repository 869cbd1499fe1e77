// Names of this program's own functions by address: kernels have no other link between host and PTX.
#pragma once

#include <map>
#include <string>

namespace ptx {

struct FunctionName {
  std::string file;     // the source, "rope.cu"
  std::string mangled;  // as the host's compiler mangles it
};

/// From the symbol table of the running program, which must not be stripped. Throws Error if there is none.
std::map<const void*, FunctionName> own_functions();

/// nvcc's unnamed namespaces have the source's name in theirs; the host's have not.
std::string as_the_host_mangles(const std::string& name);

}  // namespace ptx
