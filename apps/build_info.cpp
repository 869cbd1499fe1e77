#include "build_info.h"

#include "device.h"

namespace kvcal {

std::string version_text() {
  const BuildInfo& build = build_info();
  std::string text = std::string("kvcal ") + build.version + " (" + build.commit + ")\n";
  text += std::string("compiler  ") + build.compiler + ", " + build.build_type;
  if (*build.sanitizers != '\0') text += std::string(", sanitizers ") + build.sanitizers;
  text += '\n';
  for (const Backend& backend : backends()) {
    const char* state = !backend.built ? "not built in" : backend.found ? "found" : "built in, not found";
    text += "backend   " + backend.name + ": " + state;
    if (!backend.note.empty()) text += " (" + backend.note + ")";
    text += '\n';
  }
  return text;
}

}  // namespace kvcal
