#include "idle_options.h"

#include <CLI/CLI.hpp>

#include "base/error.h"

namespace kvcal {

void refuse_idle(const CLI::App& verb, const std::string& with, std::initializer_list<const char*> options) {
  for (const char* name : options)
    if (verb.get_option(name)->count() > 0) fail(verb.get_name() + ": " + name + " has no effect " + with);
}

}  // namespace kvcal
