// Options that were given and would change nothing are refused: who gives one means it.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>

namespace CLI {
class App;
}

namespace kvcal {

/// Throws "solve: --headroom has no effect with --policy mse" for the first of these options, by the names that the
/// verb gives them, that was given. `with`: what makes them idle.
void refuse_idle(const CLI::App& verb, const std::string& with, std::initializer_list<const char*> options);

/// For --force of a verb whose only output is `out`: on standard output there is nothing to replace.
void refuse_idle_force(const CLI::App& verb, const std::filesystem::path& out);

}  // namespace kvcal
