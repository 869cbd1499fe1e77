// What to do about a finding: its text filled in for these inputs, without what is in effect already and without what
// another rule would refuse.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "deployment/cache_choices.h"
#include "doctor/diagnose.h"
#include "model/architecture.h"
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

namespace {

// Options that {command} is shown without.
const std::vector<std::string> kHarmful = {"calculate-kv-scales", "kv-cache-scales-path", "quantization-param-path"};

void replace_all(std::string& text, std::string_view what, const std::string& with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

/// TensorRT-LLM has these in a file, under names of its own.
std::string with_options_of_tensorrt(std::string text) {
  replace_all(text, "another --attention-backend", "another attention backend");
  replace_all(text, "{eager}", "no CUDA graphs");
  replace_all(text, "{control}", "kv_cache_config: {dtype: auto} in the file of --config");
  return text;
}

std::string with_options(std::string text, const Facts& facts) {
  if (facts.is(Engine::Unknown) && facts.seen("LG83")) text = with_options_of_tensorrt(std::move(text));
  const std::string asked = facts.flag_value("kv-cache-dtype");
  replace_all(text, "{type}", asked.empty() || is_quantized_type(asked) ? "{fp8}" : "{control}");
  replace_all(text, "{eager}", facts.is(Engine::Sglang) ? "--disable-cuda-graph" : "--enforce-eager");
  replace_all(text, "{control}", control_of(facts));
  if (backend_option(facts.server, facts.version, "X").starts_with("VLLM_"))
    replace_all(text, "another --attention-backend", "another VLLM_ATTENTION_BACKEND");
  const std::optional<std::string_view> own =
      backend_of_another(facts.server, named_backend(facts.flag_value("attention-backend")));
  replace_all(
      text, "{backend}",
      own && !own->empty() ? "--attention-backend " + std::string(*own) : "the command without --attention-backend");
  replace_all(text, "{fp8}", facts.is(Engine::Sglang) ? "--kv-cache-dtype fp8_e4m3" : "--kv-cache-dtype fp8");
  return text;
}

std::string with_names(std::string text, const Facts& facts) {
  replace_all(text, "{model}", model_name(facts));
  replace_all(text, "{command}",
              facts.command ? command_without(*facts.command, kHarmful) : "the serve command without it");
  return text;
}

bool stops(const CombinationRule& rule, const Facts& facts) {
  return applies(rule, facts).all == Trait::Yes && found_by_rule(rule, facts).holds;
}

bool stops_only_with(const Facts& after, const Facts& before) {
  for (const auto rules : rule_tables())
    for (const CombinationRule& rule : rules)
      if (rule.entry.severity == Severity::Fatal && stops(rule, after) && !stops(rule, before)) return true;
  return false;
}

/// An option that a part of a fix advises, with its value: "--kv-cache-dtype fp8".
struct Advice {
  std::string name, value;
};
// What stands in parentheses is said of other inputs.
std::vector<Advice> advice_in(std::string_view part) {
  std::vector<Advice> all;
  part = part.substr(0, part.find('('));
  for (const std::string_view name : {"kv-cache-dtype", "attention-backend", "tensor-parallel-size"}) {
    const std::string option = "--" + std::string(name) + " ";
    const size_t at = part.find(option);
    if (at == std::string_view::npos || part.substr(0, at).ends_with("another ")) continue;
    const std::string_view rest = part.substr(at + option.size());
    const std::string value(rest.substr(0, rest.find_first_of(" ,;)")));
    if (!value.empty()) all.push_back({std::string(name), value});
  }
  return all;
}

/// In effect already, unknown to this version, or it would stop the server where it starts now, or have scales
/// applied on one side alone.
bool is_useless(const Advice& advice, const Facts& facts) {
  const bool of_backend = advice.name == "attention-backend";
  if (of_backend && backend_option(facts.server, facts.version, advice.value).empty()) return true;
  // Over an index of tokens vLLM takes backends for that alone.
  const bool other = of_backend && facts.is(Engine::Vllm) && advice.value.find("SPARSE") == advice.value.npos;
  if (other && facts.model.sparse == Trait::Yes && facts.model.latent == Trait::Yes) return true;
  if (advice.name == "tensor-parallel-size" && knows_flags(facts))
    return advice.value == std::to_string(n_ranks(facts));
  const bool of_type = advice.name == "kv-cache-dtype";
  if (of_type && !why_not_served(facts.server, facts.version, advice.value, place_of(facts)).empty()) return true;
  const std::string in_effect = of_backend ? backend_of(facts) : facts.flag_value(advice.name);
  const bool left_out = advice.value == "auto" && in_effect.empty() && knows_flags(facts);
  if (advice.value == in_effect || left_out) return true;
  Facts after = facts;
  after.flags.insert_or_assign(advice.name, Flag{advice.value, {}});
  after.logged_dtype = after.logged_other = "";
  resolve(after);
  const auto misread = [](const Facts& f) {
    return f.scale_use == ScaleUse::ReadAlone || f.scale_use == ScaleUse::WrittenAlone;
  };
  return (misread(after) && !misread(facts)) || stops_only_with(after, facts);
}

/// What kvcal-torch does, in place of what the program measures itself, where it does not know the class.
std::string by_torch(std::string_view fix, const Facts& facts) {
  const std::string& name = facts.model.architecture;
  const auto measures = [](const FixPart& p) {
    return p.text.find("kvcal calibrate") != p.text.npos || p.text.find("kvcal evaluate") != p.text.npos;
  };
  const bool known =
      name.empty() || std::ranges::find(architectures(), name, &Architecture::name) != architectures().end();
  std::string text;
  bool replaced = false;
  for (const FixPart& part : parts_of(fix)) {
    const bool here = !known && measures(part);
    if (here && !replaced)
      text += part.before + "kvcal-torch calibrate measures most decoders that transformers runs (docs/torch.md)";
    replaced |= here;
    if (!here && !(replaced && part.text.starts_with("then "))) text += part.before + part.text;
  }
  return text;
}

/// Neither config.json nor the command quantizes them.
bool has_plain_weights(const Facts& facts) {
  const bool declared = !facts.checkpoint || !facts.checkpoint->declaration.source.empty();
  return !declared && knows_flags(facts) && facts.flag("quantization") == nullptr;
}

/// Variables begin with the name of the server that reads them.
bool is_of_another(std::string_view part, const Facts& facts) {
  part = part.substr(0, part.find('('));
  const bool known = !facts.is(Engine::Unknown);
  return (known && !facts.is(Engine::Vllm) && part.find("VLLM_") != part.npos) ||
         (known && !facts.is(Engine::Sglang) && part.find("SGLANG_") != part.npos);
}

std::string without_connective(std::string text) {
  for (const std::string_view word : {"or ", "and ", "else ", "then "})
    if (text.starts_with(word)) text.erase(0, word.size());
  return text;
}

}  // namespace

std::string model_name(const Facts& facts) { return facts.model_path.empty() ? "MODEL" : printable(facts.model_path); }

std::string fix_text(const Entry& entry, const Facts& facts) {
  std::string text;
  for (FixPart& part : parts_of(with_options(export_advice(by_torch(entry.fix, facts), facts), facts))) {
    const std::vector<Advice> advice = advice_in(part.text);
    if (is_of_another(part.text, facts)) continue;
    if (part.text.ends_with("unquantized weights") && has_plain_weights(facts)) continue;
    if (std::ranges::any_of(advice, [&](const Advice& a) { return is_useless(a, facts); })) continue;
    for (const Advice& a : advice)
      if (a.name == "attention-backend")
        replace_all(part.text, "--attention-backend " + a.value, backend_option(facts.server, facts.version, a.value));
    text += text.empty() ? without_connective(part.text) : part.before + part.text;
  }
  return printable(with_names(std::move(text), facts));
}

std::string general_fix(const Entry& entry) { return fix_text(entry, Facts{}); }

}  // namespace kvcal
