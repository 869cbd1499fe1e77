// Which server, and which of its versions: a log line or an option means something in a window of versions only.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvcal {

enum class Engine : uint8_t { Unknown, Vllm, Sglang, LlamaCpp, LmDeploy };
std::string_view name_of(Engine server);  // "vLLM", "SGLang", ...

struct EngineVersion {
  int major = 0, minor = 0, patch = 0;
  auto operator<=>(const EngineVersion&) const = default;
};
std::string str(const EngineVersion& version);
/// "vLLM 0.33.0", "vLLM".
std::string str(Engine server, const std::optional<EngineVersion>& version);

/// Versions from `since` on and before `until`; zero: no limit.
struct EngineVersions {
  EngineVersion since{}, until{};
  bool operator==(const EngineVersions&) const = default;
  /// Without a version whether the newest is among them.
  bool hold(const std::optional<EngineVersion>& version) const {
    const bool newest = until == EngineVersion{};
    return version ? *version >= since && (newest || *version < until) : newest;
  }
};

/// "v0.17.1rc1.dev88", "0.33", "0.6.6.post1": the leading numbers, of which there must be two. Nothing for development
/// builds that count from 0.1.dev.
std::optional<EngineVersion> parse_version(std::string_view text);

/// "vllm@0.33.0", "sglang": what a user says. Throws Error for another server or what is no version.
struct NamedEngine {
  Engine server = Engine::Unknown;
  std::optional<EngineVersion> version;
  bool any_patch = false;  // "0.33": the version's last number was not said
};
NamedEngine parse_engine(const std::string& text);

enum class Trait : uint8_t { Unknown, No, Yes };

constexpr Trait trait_of(bool yes) { return yes ? Trait::Yes : Trait::No; }

}  // namespace kvcal
