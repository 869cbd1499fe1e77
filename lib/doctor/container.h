// Containers that a server runs in, as docker run and its kin, compose files and manifests describe them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "doctor/serve_command.h"

namespace kvcal {

struct Container {
  std::string image;
  std::vector<std::string> entrypoint;  // in place of the image's
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;
  std::string written;  // as the user has it
};

/// Where "docker run ...", "podman run ...", "apptainer exec ..." begins; npos: nowhere.
size_t find_container_run(std::string_view text);
Container read_container_run(std::string_view text, size_t at);

/// What it starts: a program that its words name, else the image's. Nothing where that is no server.
std::optional<ServeCommand> command_of(const Container& container);

struct ContainerFile {
  std::string_view kind = "";  // "Dockerfile", "Quadlet unit"; "" for other texts
  Json container;              // as a manifest has one: "image", "command" of the entrypoint, "args", "env"
};
ContainerFile read_container_file(std::string_view text);

}  // namespace kvcal
