// What a verb prints with --json.
#pragma once

#include <string>

#include "base/json.h"

namespace kvcal {

/// Indented, with a final newline. Names may come from untrusted files: invalid UTF-8 is replaced.
inline std::string json_output(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace kvcal
