// Files that describe one container and are no YAML: Dockerfiles, and units of Podman's Quadlet.
#pragma once

#include <string_view>

#include "base/json.h"

namespace kvcal {

struct ContainerFile {
  std::string_view kind = "";  // "Dockerfile", "Quadlet unit"; "" for other texts
  Json container;              // as a manifest has one: "image", "command" of the entrypoint, "args", "env"
};
ContainerFile read_container_file(std::string_view text);

}  // namespace kvcal
