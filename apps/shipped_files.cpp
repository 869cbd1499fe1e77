#include "shipped_files.h"

#include <system_error>

#include "base/error.h"
#include "build_info.h"

namespace kvcal {

std::filesystem::path shipped_file(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  // Relative to the program, so that an installation can be moved.
  const fs::path installed = (folder / build_info().data_from_bin / name).lexically_normal();
  const fs::path in_tree = (folder / "../.." / name).lexically_normal();
  for (const fs::path& path : {installed, in_tree})
    if (fs::exists(path, error)) return path;
  fail(quoted(name) + ", which is part of the program, is neither at " + quoted(installed.string()) + " nor " +
       quoted(in_tree.string()));
}

}  // namespace kvcal
