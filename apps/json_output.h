// What a verb prints with --json.
#pragma once

#include <string>

#include "base/json.h"

namespace kvcal {

/// Indented, ending in a newline. Names in it come from files of strangers: what is no UTF-8 is replaced.
inline std::string json_output(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace kvcal
