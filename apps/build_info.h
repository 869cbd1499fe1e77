// What this program is made of, for --version and for the records it writes.
#pragma once

#include <string>

namespace kvcal {

struct BuildInfo {
  const char* version;     // "0.1.0"
  const char* commit;      // abbreviated hash of the tree it was configured from, "unknown" outside a repository
  const char* compiler;    // "GNU 12.2.0"
  const char* build_type;  // "Release"
  const char* sanitizers;  // as for -fsanitize=; "" for none
  const char* libraries;   // "oneDNN 2.6.3, Eigen 3.4.0": what the CPU backend computes with
  const char* libraries_from_bin;  // from the program's folder to its own libraries when installed, "../lib/kvcal"
  const char* site;                // address of the published site, ending in '/'; "" for none
};

const BuildInfo& build_info();

/// What --version prints: several lines, the first is "kvcal VERSION (COMMIT)".
std::string version_text();

}  // namespace kvcal
