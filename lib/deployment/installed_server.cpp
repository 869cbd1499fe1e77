#include "deployment/installed_server.h"

#include <algorithm>

#include "base/error.h"
#include "base/json_text.h"

namespace kvcal {
namespace {

std::vector<std::string> words(const Json& server, const char* key) {
  std::vector<std::string> found;
  for (const Json& word : list_at(server, key))
    if (word.is_string()) found.push_back(word.get<std::string>());
  return found;
}

InstalledServer read(const Json& server, const std::string& python) {
  return {.server = parse_engine(text_at(server, "server")).server,
          .version = parse_version(text_at(server, "version")),
          .python = python,
          .cache_types = words(server, "cache_types"),
          .backends = words(server, "backends"),
          .architectures = words(server, "architectures")};
}

bool is_meant(EngineVersion version, const NamedEngine& wanted) {
  if (wanted.any_patch) version.patch = wanted.version->patch;
  return version == *wanted.version;
}

}  // namespace

InstalledServer installed_server(const Json& answer, const std::string& python, const NamedEngine& wanted) {
  const std::string option = "--installed " + quoted(python);
  if (!answer.contains("installed") || !answer["installed"].is_array()) fail(option + ": no Python that answers");
  std::vector<InstalledServer> found;
  for (const Json& server : list_at(answer, "installed")) found.push_back(read(server, python));
  if (found.empty()) fail(option + ": neither vLLM nor SGLang is installed there");
  const bool any = wanted.server == Engine::Unknown;
  if (any && found.size() > 1)
    fail(option + ": vLLM and SGLang are installed there; --server vllm or sglang says which is meant");
  const auto meant = std::ranges::find_if(found, [&](const auto& f) { return any || f.server == wanted.server; });
  if (meant == found.end()) fail(option + ": " + std::string(name_of(wanted.server)) + " is not installed there");
  if (wanted.version && meant->version && !is_meant(*meant->version, wanted))
    fail(option + " has " + str(meant->server, meant->version) + ", --server says " + str(*wanted.version));
  return *meant;
}

Trait is_listed(const std::vector<std::string>& names, std::string_view name) {
  return names.empty() ? Trait::Unknown : trait_of(std::ranges::find(names, name) != names.end());
}

}  // namespace kvcal
