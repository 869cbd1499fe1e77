// What a text starts: a command, the containers of a compose file, of Kubernetes manifests, of a chart's values or of
// docker inspect, that of a Dockerfile or a Quadlet unit, or a file of options.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/serve_command.h"

namespace kvcal {

struct Launches {
  std::string_view kind = "command";  // "compose file", "Kubernetes manifest", "chart's values", "file of options", ...
  bool options_alone = false;         // of a file that --config names: what the command says goes before it
  std::vector<ServeCommand> commands;  // of several servers: prefill and decode; the first 64
  std::vector<std::string> images;     // of containers, as many
  std::string gpu;                     // that a manifest's nodeSelector asks for; "" where it names none
};

/// Throws Error for a manifest that cannot be read.
Launches read_launches(std::string_view text);

/// Arguments as a list of YAML or JSON, as a manifest has them; those of a container begin with "serve" where its
/// entrypoint is vLLM's. Nothing for a list of other things.
std::optional<ServeCommand> listed_arguments(std::string_view text);

/// What a report shows between lines of ```: manifests and scripts of several lines. `line` is the first of its block.
struct ShownLaunch {
  ServeCommand command;
  size_t line = 0;
};
std::vector<ShownLaunch> launches_in_blocks(std::string_view report);

/// Whether a text is a manifest: by its keys, or because a container in it starts a server; or a file of options.
bool is_manifest(std::string_view text);

}  // namespace kvcal
