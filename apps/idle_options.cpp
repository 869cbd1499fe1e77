#include "idle_options.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "output_file.h"

namespace kvcal {

void refuse_idle(const CLI::App& verb, const std::string& with, std::initializer_list<const char*> options) {
  for (const char* name : options)
    if (verb.get_option(name)->count() > 0) fail(verb.get_name() + ": " + name + " has no effect " + with);
}

void refuse_idle_force(const CLI::App& verb, const std::filesystem::path& out) {
  if (is_standard_output(out)) refuse_idle(verb, "with --out -, which replaces no file", {"--force"});
}

}  // namespace kvcal
