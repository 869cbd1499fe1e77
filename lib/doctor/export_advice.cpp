#include "doctor/export_advice.h"

#include <algorithm>

namespace kvcal {
namespace {

constexpr std::string_view kEither = "--to vllm (or sglang)";

bool has(std::string_view text, std::string_view what) { return text.find(what) != text.npos; }

bool is_export(std::string_view part) { return has(part, "kvcal export") || has(part, "--to "); }

/// By the target that is named, or else by the server that runs.
std::vector<ServerKind> servers_of(std::string_view part, const Facts& f) {
  const bool either = has(part, kEither);
  if (!either && has(part, "--to sglang")) return {ServerKind::Sglang};
  if (!either && has(part, "--to vllm")) return {ServerKind::Vllm};
  if ((!either && has(part, "--to ")) || has(part, "--also-for")) return {};
  if (f.is(Engine::Vllm)) return {ServerKind::Vllm};
  if (f.is(Engine::Sglang)) return {ServerKind::Sglang};
  return f.is(Engine::Unknown) ? std::vector{ServerKind::Vllm, ServerKind::Sglang} : std::vector<ServerKind>{};
}

/// What the table says of the servers that an export would be for; none where it does not know the class.
std::vector<ServerSupport> supports_of(std::string_view part, const Facts& f) {
  std::vector<ServerSupport> all;
  for (const ServerKind kind : servers_of(part, f))
    if (const std::optional<ServerSupport> support = support_of_export(f, kind)) all.push_back(*support);
  return all;
}

bool takes(std::string_view part, const ServerSupport& s) { return has(part, "sglang-json") ? s.json : s.loads; }

std::string plugin_text(const ServerSupport& s) {
  const std::string how =
      s.server.kind == ServerKind::Vllm
          ? R"(--load-format kv_cache_scales --additional-config '{"kv_cache_scales": "/path/kv-cache-scales.json"}')"
          : "KV_CACHE_SCALES=/path/kv-cache-scales.json before the command";
  return "serve with the plug-in " + s.plugin + " that comes with kvcal (docs/plugins.md): " + how;
}

/// "" where no scales reach such a cache.
std::string other_way(const std::vector<ServerSupport>& supports, const Facts& f) {
  std::string text;
  for (const ServerSupport& s : supports)
    if (!s.plugin.empty()) text += (text.empty() ? "" : " or ") + plugin_text(s);
  const bool served = std::ranges::any_of(supports, &ServerSupport::served);
  if (f.checkpoint && f.checkpoint->foldable && !f.checkpoint->fold && served)
    text += std::string(text.empty() ? "" : "; or ") +
            "kvcal fold ORIGINAL --stats run.kvstats -o FOLDED on the model without scales, where its weights allow it";
  return text;
}

std::string in_place_of(const FixPart& part, const std::string& way) {
  const std::string_view connectives[] = {"then ", "or ", "and "};
  for (const std::string_view word : connectives)
    if (part.text.starts_with(word)) return part.before + std::string(word) + way;
  return part.before + way;
}

/// What follows an export speaks of it, but for another way.
bool is_of_export(const FixPart& part) { return is_export(part.text) || !part.text.starts_with("or "); }

constexpr std::string_view kJson = "--to sglang-json --tp N";

/// Of a class of which SGLang reads no such file, but scales of the checkpoint.
void prefer_checkpoint(std::string& part, const std::vector<ServerSupport>& supports) {
  const size_t at = part.find(kJson);
  if (at != part.npos && supports.size() == 1 && !supports[0].json && supports[0].loads)
    part.replace(at, kJson.size(), "--to sglang");
}

void name_target(std::string& part, const std::vector<ServerSupport>& supports) {
  const size_t at = part.find(kEither);
  const auto n = std::ranges::count_if(supports, &ServerSupport::loads);
  if (at == part.npos || n != 1) return;
  const bool vllm = std::ranges::find_if(supports, &ServerSupport::loads)->server.kind == ServerKind::Vllm;
  part.replace(at, kEither.size(), vllm ? "--to vllm" : "--to sglang");
}

}  // namespace

std::vector<FixPart> parts_of(std::string_view text) {
  std::vector<FixPart> parts = {{"", ""}};
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    const bool cut = depth == 0 && (text[i] == ',' || text[i] == ';') && i + 1 < text.size() && text[i + 1] == ' ';
    if (!cut) {
      parts.back().text += text[i];
      continue;
    }
    parts.push_back({std::string(text.substr(i, 2)), ""});
    ++i;
  }
  return parts;
}

std::string export_advice(std::string_view fix, const Facts& facts) {
  std::string text;
  bool replaced = false;
  for (FixPart& part : parts_of(fix)) {
    const std::vector<ServerSupport> supports = supports_of(part.text, facts);
    prefer_checkpoint(part.text, supports);
    const auto takes_it = [&](const ServerSupport& s) { return takes(part.text, s); };
    const bool refused = is_export(part.text) && !supports.empty() && std::ranges::none_of(supports, takes_it);
    if (!refused) {
      if (replaced && is_of_export(part)) continue;
      name_target(part.text, supports);
      if (part.text == "or --to sglang" && text.ends_with("--to sglang")) continue;
      text += part.before + part.text;
      continue;
    }
    if (replaced || !has(part.text, "kvcal export")) continue;
    replaced = true;
    const std::string way = other_way(supports, facts);
    // There is nothing to calibrate for.
    if (way.empty() && has(text, "kvcal calibrate"))
      text = "{control}";
    else
      text += in_place_of(part, way.empty() ? "{control}" : way);
  }
  return text;
}

}  // namespace kvcal
