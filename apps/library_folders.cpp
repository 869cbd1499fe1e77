#include "library_folders.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>

namespace kvcal {
namespace {

namespace fs = std::filesystem;

/// "site-packages" of site-packages/kvcal/bin/kvcal, where the wheel has it; of a program elsewhere a folder without
/// packages.
fs::path packages_of_program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path().parent_path().parent_path();
}

/// "/usr" of /usr/bin/python3; of an environment its own folder. Empty: there is no python3.
fs::path python_prefix() {
  const char* const variable = std::getenv("PATH");
  std::istringstream path(variable ? variable : "");
  std::error_code error;
  for (std::string folder; std::getline(path, folder, ':');)
    if (!folder.empty() && fs::exists(fs::path(folder) / "python3", error)) return fs::path(folder).parent_path();
  return {};
}

/// Folders in `folder`, sorted; none when there is no such folder.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->is_directory(error)) found.push_back(at->path());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::vector<fs::path> library_folders() {
  std::vector<fs::path> found;
  std::error_code error;
  const auto add_packages = [&](const fs::path& packages) {
    for (const fs::path& package : folders_in(packages / "nvidia"))
      if (fs::is_directory(package / "lib", error)) found.push_back(package / "lib");
  };
  add_packages(packages_of_program());
  const fs::path prefix = python_prefix();
  for (const char* lib : {"lib", "local/lib"}) {  // the latter: pip without an environment on Debian
    if (prefix.empty()) break;
    for (const fs::path& python : folders_in(prefix / lib)) {
      if (!python.filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"}) add_packages(python / packages);
    }
  }
  if (const fs::path toolkit = "/usr/local/cuda/lib64"; fs::is_directory(toolkit, error)) found.push_back(toolkit);
  return found;
}

}  // namespace kvcal
