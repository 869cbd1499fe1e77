// What starts a server, by name: programs and container images. Also those that this program has no rules for.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "deployment/engine.h"

namespace kvcal {

struct Program {
  std::string_view needle;     // how the command begins
  Engine server;               // Unknown for one without rules
  std::string_view uncovered;  // what such a one is: "TensorRT-LLM's server"
};
std::span<const Program> known_programs();

/// `uncovered` of lm_eval, whose --model names the server.
constexpr std::string_view kByModelOption = "by --model";

/// "trtllm-serve: this program has no rules for TensorRT-LLM's server, only for ...".
std::string refusal_of(std::string_view name, std::string_view uncovered);

struct ServerImage {
  Engine server = Engine::Unknown;
  std::string_view program;    // what its arguments are given to: "vllm serve"; "": a shell
  std::string_view uncovered;  // as of a Program
  std::optional<EngineVersion> version;
};

/// "registry/owner/name:tag", also with "docker://" in front or as the file that Apptainer makes of it. Nothing for an
/// image that is not known to hold a server. The version is that of the tag where such tags name the server's.
std::optional<ServerImage> known_image(std::string_view name);

/// How its server is started where nothing else is known: "vllm serve"; "" for one that is not covered.
std::string_view program_of(Engine server);

}  // namespace kvcal
