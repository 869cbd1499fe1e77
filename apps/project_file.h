// kvcal.toml in the current folder: what the verbs of a project would be told each time.
#pragma once

namespace CLI {
class App;
}

namespace kvcal {

constexpr const char* kProjectFile = "kvcal.toml";

bool has_project_file();

/// Makes what the file says the defaults of this verb's options, before the command line is parsed: what is given there
/// wins. Nothing for a verb that the file is not about. Throws Error with the line of what is wrong.
void take_project_defaults(CLI::App& verb);

}  // namespace kvcal
