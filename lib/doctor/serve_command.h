// A server's command line, as typed into a shell, written into a file, or printed into a log.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deployment/engine.h"

namespace kvcal {

struct ServeCommand {
  Engine server = Engine::Unknown;
  std::vector<std::string> words;            // from the program on; the environment in front is apart
  std::map<std::string, std::string> flags;  // "kv-cache-dtype" -> "fp8"; a switch has ""; the first one counts
  std::map<std::string, std::string> environment;
  std::string model;                     // "" when it is not said
  std::string image;                     // of the container that it runs in
  std::optional<EngineVersion> version;  // by the image's tag
  std::string refusal;                   // why there are no rules for it: another server, a client; `server` is Unknown
  std::string written;                   // the text itself, where `words` are made of another form
};

/// The first command in `text` that starts a server: vllm serve, python -m sglang.launch_server and the other programs
/// of launch_names.cpp; in a container's arguments (docker run and its kin), in a script for sh -c, or as a call of
/// LLM(...) or sgl.Engine(...). Quotes, backslashes and line continuations are read as a shell does; nothing is
/// expanded. The command ends with its line, or at ; | & # and the like.
std::optional<ServeCommand> find_serve_command(std::string_view text);

/// The same of programs and scripts alone.
std::optional<ServeCommand> find_program(std::string_view text);

/// "--model X --kv-cache-dtype fp8": options alone, of a server that is not known. Nothing where the text begins
/// otherwise.
std::optional<ServeCommand> bare_arguments(std::string_view text);

/// Puts the program of a server in front of them.
void give_program(ServeCommand& command, Engine server);

/// Sets `flags` and `model` by `words`, of which the first are the program.
void read_flags(ServeCommand& command);

/// "kv-cache-dtype" of "--kv_cache_dtype".
std::string flag_name(std::string_view word);

/// The command again, fit for a shell, without these options and their values.
std::string command_without(const ServeCommand& command, const std::vector<std::string>& flags);

/// The value of a key in what Python prints of dictionaries and data classes: 'key': 'value', key='value', key=value,
/// key={...} with its braces; the same of JSON.
/// Nothing when it is not there or None.
std::optional<std::string> printed_value(std::string_view text, std::string_view key);

/// Where the first such call begins; npos: nowhere.
size_t find_python_call(std::string_view text);

/// Its arguments as the options of the server that takes the same; those that are no literals are left out. Nothing
/// where no argument names a model.
std::optional<ServeCommand> read_python_call(std::string_view text, size_t at);

}  // namespace kvcal
