// What a server that is installed says of itself: its version, and the names that it takes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "deployment/engine.h"

namespace kvcal {

struct InstalledServer {
  Engine server = Engine::Unknown;
  std::optional<EngineVersion> version;
  std::string python;                                             // which was asked
  std::vector<std::string> cache_types, backends, architectures;  // empty: its sources do not tell
};

/// Of the answer of apps/installed_server.py the server that is wanted, or the only one. Throws Error where there is
/// none, or where two are and neither is wanted.
InstalledServer installed_server(const Json& answer, const std::string& python, const NamedEngine& wanted);

/// Whether a name is among those of a list; not known of an empty one.
Trait is_listed(const std::vector<std::string>& names, std::string_view name);

}  // namespace kvcal
