#include "doctor/export_advice.h"

#include <algorithm>
#include <array>

#include "servers/without_export.h"

namespace kvcal {
namespace {

/// What a fix asks of export, by the word that stands for it there.
struct ExportForm {
  std::string_view word, command;
  std::string_view to = "";  // its target; "": of the server that runs; "?": that, and it is shown
};
constexpr std::string_view kOfFile = "kvcal export kv-cache-scales.json --model {model}";
constexpr std::array kForms = {
    ExportForm{"{export}", "kvcal export"},
    ExportForm{"{export here}", kOfFile, "?"},
    ExportForm{"{export to vllm}", kOfFile, "vllm"},
    ExportForm{"{export to sglang}", kOfFile, "sglang"},
    ExportForm{"{export json}", kOfFile, "sglang-json"},
    ExportForm{"{export per tensor}", "kvcal export ... --granularity tensor"},
    ExportForm{"{export per tensor to sglang}", "kvcal export ... --granularity tensor", "sglang"},
};

std::vector<ServerKind> servers_of(const ExportForm& form, const Facts& f) {
  if (form.to.starts_with("sglang")) return {ServerKind::Sglang};
  if (form.to == "vllm" || f.is(Engine::Vllm)) return {ServerKind::Vllm};
  if (f.is(Engine::Sglang)) return {ServerKind::Sglang};
  return f.is(Engine::Unknown) ? std::vector{ServerKind::Vllm, ServerKind::Sglang} : std::vector<ServerKind>{};
}

/// What the table says of the servers that an export would be for; none where it does not know the class.
std::vector<ServerSupport> supports_of(const ExportForm& form, const Facts& f) {
  std::vector<ServerSupport> all;
  for (const ServerKind kind : servers_of(form, f))
    if (const std::optional<ServerSupport> support = support_of_export(f, kind)) all.push_back(*support);
  return all;
}

/// The targets to name; "" where export refuses them all.
std::string targets_of(const ExportForm& form, const std::vector<ServerSupport>& supports) {
  const auto takes = [&](ServerKind kind, bool ServerSupport::*what) {
    return std::ranges::any_of(supports, [&](const ServerSupport& s) { return s.server.kind == kind && s.*what; });
  };
  const bool open = supports.empty();
  const bool vllm = open || takes(ServerKind::Vllm, &ServerSupport::loads);
  const bool sglang = open || takes(ServerKind::Sglang, &ServerSupport::loads);
  if (form.to == "sglang-json") {
    const bool json = open || takes(ServerKind::Sglang, &ServerSupport::json);
    if (!sglang) return json ? "sglang-json --tp N" : "";
    return json ? "sglang-json --tp N; or --to sglang, into the checkpoint" : "sglang, into the checkpoint";
  }
  if (form.to == "vllm" || form.to == "sglang") return (form.to == "vllm" ? vllm : sglang) ? std::string(form.to) : "";
  return vllm && sglang ? "vllm (or sglang)" : vllm ? "vllm" : sglang ? "sglang" : "";
}

/// The command; "" where export refuses.
std::string command_of(const ExportForm& form, const std::vector<ServerSupport>& supports, const Facts& f) {
  const std::string targets = targets_of(form, supports);
  if (targets.empty()) return "";
  const bool replaces = f.checkpoint && f.checkpoint->n_scales() > 0 && !targets.starts_with("sglang-json");
  return std::string(form.command) + (replaces ? " --replace-scales" : "") +
         (form.to.empty() ? "" : " --to " + targets);
}

std::string in_place_of(const FixPart& part, const std::string& way) {
  const std::string_view connectives[] = {"then ", "or ", "and "};
  for (const std::string_view word : connectives)
    if (part.text.starts_with(word)) return part.before + std::string(word) + way;
  return part.before + way;
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
    const auto form =
        std::ranges::find_if(kForms, [&](const ExportForm& f) { return part.text.find(f.word) != part.text.npos; });
    if (form == kForms.end()) {
      // What follows an export speaks of it, but for another way.
      if (!replaced || part.text.starts_with("or ")) text += part.before + part.text;
      continue;
    }
    const std::vector<ServerSupport> supports = supports_of(*form, facts);
    if (const std::string command = command_of(*form, supports, facts); !command.empty()) {
      text += part.before + part.text.replace(part.text.find(form->word), form->word.size(), command);
      continue;
    }
    if (replaced) continue;
    const bool may_fold = facts.checkpoint && facts.checkpoint->foldable && !facts.checkpoint->fold;
    const std::string way = way_without_export(supports, may_fold);
    // There is nothing to calibrate for.
    if (way.empty() && text.find("kvcal calibrate") != text.npos)
      text = "{control}";
    else
      text += in_place_of(part, way.empty() ? "{control}" : way);
    replaced = true;
  }
  return text;
}

}  // namespace kvcal
