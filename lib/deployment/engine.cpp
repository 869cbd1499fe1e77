#include "deployment/engine.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "base/error.h"

namespace kvcal {

std::string_view name_of(Engine server) {
  constexpr std::array<std::string_view, 5> kNames = {"unknown server", "vLLM", "SGLang", "llama.cpp", "LMDeploy"};
  return kNames.at(static_cast<size_t>(server));
}

std::string str(const EngineVersion& version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor) + "." + std::to_string(version.patch);
}

std::string str(Engine server, const std::optional<EngineVersion>& version) {
  return std::string(name_of(server)) + (version ? " " + str(*version) : "");
}

std::optional<EngineVersion> parse_version(std::string_view text) {
  if (text.starts_with("v")) text.remove_prefix(1);
  std::array<int, 3> numbers = {0, 0, 0};
  size_t n = 0;
  while (n < numbers.size()) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), numbers[n]);
    if (error != std::errc() || numbers[n] < 0) break;
    ++n;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.starts_with(".")) break;
    text.remove_prefix(1);
  }
  if (n < 2 || (n == 2 && numbers[0] == 0 && numbers[1] == 1 && text.starts_with("dev"))) return std::nullopt;
  return EngineVersion{numbers[0], numbers[1], numbers[2]};
}

NamedEngine parse_engine(const std::string& text) {
  const size_t at = text.find('@');
  const std::string name = text.substr(0, at);
  NamedEngine named;
  if (name == "vllm") named.server = Engine::Vllm;
  if (name == "sglang") named.server = Engine::Sglang;
  if (name == "llama.cpp") named.server = Engine::LlamaCpp;
  if (name == "lmdeploy") named.server = Engine::LmDeploy;
  if (named.server == Engine::Unknown)
    fail_unknown("server", name, std::vector<std::string>{"vllm", "sglang", "llama.cpp", "lmdeploy"});
  if (at == std::string::npos) return named;
  named.version = parse_version(std::string_view(text).substr(at + 1));
  named.any_patch = std::count(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), '.') < 2;
  if (!named.version) fail("--server " + quoted(text) + ": expected a version such as vllm@0.33.0");
  return named;
}

}  // namespace kvcal
