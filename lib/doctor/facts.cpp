#include "doctor/facts.h"

#include <algorithm>
#include <array>

#include "base/letter_case.h"
#include "base/or_nothing.h"
#include "base/word_list.h"
#include "deployment/cache_choices.h"
#include "deployment/cache_type.h"
#include "servers/without_export.h"

namespace kvcal {
namespace {

// Of names as people write them, in lower case without separators: "Qwen/Qwen3.5-35B-A3B" -> "qwenqwen3535ba3b".
std::string squeezed(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (is_letter_or_digit(c)) out += lower_case(c);
  return out;
}

/// Whether a word of the name begins with one of the words: "Darkling-25B" has no "ling25".
bool names_one_of(std::string_view name, std::string_view parts) {
  constexpr size_t kLongest = 40;  // of a part, with what separates its letters
  for (size_t at = 0; at < name.size(); ++at)
    if ((at == 0 || !is_letter_or_digit(name[at - 1])) && begins_with_word(parts, squeezed(name.substr(at, kLongest))))
      return true;
  return false;
}

struct Family {
  std::string_view parts;
  bool hybrid = false, latent = false, multimodal = false, key_bias = false;
  int64_t n_heads = 0;
};

// First match counts: the more special name stands first.
constexpr std::array kFamilies = {
    Family{.parts = "qwen35 qwen36 qwen3827b qwen3next jamba nemotronh nemotron3 falconh1 granite4 bamba zamba2 mamba",
           .hybrid = true},
    Family{.parts = "kimilinear ling25 ling26 ring25 ring26", .hybrid = true, .latent = true},
    Family{.parts = "kimik2 deepseekv2 deepseekv3 deepseekr1", .latent = true},
    Family{.parts = "glm47flash", .latent = true, .n_heads = 20},
    Family{.parts = "minicpm3 mistrallarge3", .latent = true},
    Family{.parts = "qwen25vl qwen2vl", .multimodal = true, .key_bias = true},
    Family{.parts = "qwen3vl", .multimodal = true},
    Family{.parts = "qwen2", .key_bias = true},
};

}  // namespace

const Flag* Facts::flag(std::string_view name) const {
  const auto found = flags.find(name);
  return found == flags.end() ? nullptr : &found->second;
}

std::string Facts::flag_value(std::string_view name) const {
  const Flag* found = flag(name);
  return found == nullptr ? "" : found->value;
}

std::string Facts::variable(std::string_view name) const {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

Trait Facts::before(const EngineVersion& limit) const {
  if (!version) return Trait::Unknown;
  return *version < limit ? Trait::Yes : Trait::No;
}

Trait Facts::keeps_prefixes() const {
  if (flag("no-enable-prefix-caching") != nullptr) return Trait::No;
  if (flag("enable-prefix-caching") != nullptr) return Trait::Yes;
  const Trait older = before({0, 28, 0});
  return older == Trait::Unknown ? older : trait_of(older == Trait::No);
}

std::string Facts::cache_text() const {
  return (cache.name.empty() ? format_of(cache) : cache.shown()) +
         (cache.decided_by.empty() ? "" : ", by " + std::string(cache.decided_by));
}

void Facts::take_logged_type(std::string_view type) {
  if (logged_dtype.empty())
    logged_dtype = type;
  else if (is_quantized_type(type) != is_quantized_type(logged_dtype))
    logged_other = type;
}

bool knows_flags(const Facts& facts) { return facts.command.has_value() || !facts.flags.empty(); }

std::string named_backend(std::string_view value) {
  value.remove_prefix(value.find('.') + 1);
  return std::string(value.substr(0, value.find(':')));
}

const Flag* backend_flag(const Facts& f) {
  for (const char* name : {"dsa-decode-backend", "nsa-decode-backend", "decode-attention-backend", "attention-backend"})
    if (const Flag* flag = f.flag(name); flag != nullptr && !flag->value.empty()) return flag;
  return nullptr;
}

// SGLang 0.5.9 to 0.5.23, and no backend of decoding or of prompts alone.
bool replaces_fa3(const Facts& f) {
  return f.is(Engine::Sglang) && f.flag_value("attention-backend") == "fa3" &&
         f.flag_value("kv-cache-dtype") == "fp8_e5m2";
}

std::string backend_of(const Facts& f) {
  if (const Flag* flag = backend_flag(f)) {
    const std::string given = named_backend(flag->value);
    if (flag == f.flag("attention-backend") && replaces_fa3(f)) return "triton";
    return f.is(Engine::Vllm) ? upper_case(given) : given;  // it takes small letters, too
  }
  const std::string variable = f.variable("VLLM_ATTENTION_BACKEND");
  const bool read = f.is(Engine::Vllm) && f.before({0, 15, 0}) != Trait::No && !variable.empty();
  return read ? variable : f.backend;
}

bool has_options_elsewhere(const Facts& f) { return f.flag("config") != nullptr && f.flag("") == nullptr; }

bool has_platform_of_its_own(const Facts& f) { return f.of_ascend || f.flag_value("quantization") == "ascend"; }

namespace {

std::string value_type_of_llama(const Facts& f) {
  const std::string type = f.flag_value("cache-type-v");
  return type.empty() ? f.flag_value("ctv") : type;
}

/// llama.cpp has a type for keys and one for values, each F16 where nothing is said: "f16/q8_0".
std::string asked_of_llama(const Facts& f) {
  const std::string keys = key_type_of_llama(f), values = value_type_of_llama(f);
  if (keys == values || (!is_quantized_type(keys) && !is_quantized_type(values))) return keys;
  return (keys.empty() ? "f16" : keys) + "/" + (values.empty() ? "f16" : values);
}

}  // namespace

std::string key_type_of_llama(const Facts& f) {
  const std::string type = f.flag_value("cache-type-k");
  return type.empty() ? f.flag_value("ctk") : type;
}

CacheRequest cache_request(const Facts& f) {
  CacheRequest r;
  r.server = f.server;
  r.version = f.version;
  r.options_known = knows_flags(f);
  r.options_elsewhere = has_options_elsewhere(f) && f.flag("kv-cache-dtype") == nullptr;
  if (const std::string value = f.flag_value("kv-cache-dtype"); value != "auto") r.asked = value;
  if (f.is(Engine::LlamaCpp) || (f.is(Engine::Unknown) && r.asked.empty())) r.asked = asked_of_llama(f);
  if (const std::string bits = f.flag_value("quant-policy"); bits == "4" || bits == "8") r.asked = "int" + bits;
  r.logged = f.logged_dtype;
  r.logged_quantized = f.seen("LG2");
  const bool two_types = r.logged_quantized && !r.logged.empty() && !is_quantized_type(r.logged);
  r.logged_too = two_types && f.logged_other.empty() ? "a quantized one" : f.logged_other;
  r.declared = f.checkpoint ? &f.checkpoint->declaration : nullptr;
  const std::string& architecture = f.model.architecture;
  const bool sparse = f.model.sparse == Trait::Yes;
  r.own_default = sparse || architecture.starts_with("DeepseekV4") || architecture.starts_with("MuseSpark") ||
                  has_platform_of_its_own(f);
  r.latent = f.model.latent;
  r.sparse_latent = sparse && f.model.latent == Trait::Yes;
  r.backend = backend_of(f);
  r.capability = f.gpu ? f.gpu->capability : 0;
  return r;
}

namespace {

ScaleReader scale_reader(const Facts& f) {
  return {.server = f.server,
          .version = f.version,
          .backend = backend_of(f),
          .asked = !cache_request(f).asked.empty(),
          .latent = f.model.latent == Trait::Yes,
          .sparse = f.model.sparse == Trait::Yes,
          .head_dim = f.model.head_dim,
          .declared = f.checkpoint ? &f.checkpoint->declaration : nullptr,
          .gpu = f.gpu ? &*f.gpu : nullptr};
}

/// By the table of servers, where it knows the class.
bool none_arrives(const Facts& f) {
  const std::optional<ServerSupport> support = support_of(f);
  return support && !loads(effect_of(*support, support->write, 'k')) && !uses_plugin(f);
}

/// The newest version of the class takes none of the names that the checkpoint's scales have.
bool takes_no_name(const Facts& f) {
  const auto served = f.checkpoint->served.find(kind_in_tables(f.server));
  if (served == f.checkpoint->served.end() || uses_plugin(f)) return false;
  const auto n =
      std::ranges::count_if(served->second.findings, [](const Finding& found) { return found.rule == "C16"; });
  return n > 0 && static_cast<size_t>(n) >= f.checkpoint->n_scales();
}

}  // namespace

bool uses_plugin(const Facts& f) { return f.flag_value("load-format") == "kv_cache_scales" || f.seen("LG70"); }

ScaleUse scale_use_with(const Facts& f, const CacheType& cache) {
  const bool loads = f.is(Engine::Vllm) || f.is(Engine::Sglang);
  if (!loads && f.server != Engine::Unknown) return ScaleUse::Nowhere;
  if (!f.checkpoint || f.flag("quantization-param-path") != nullptr) return ScaleUse::Unknown;
  const CheckpointFacts& c = *f.checkpoint;
  const bool none = c.has_tensors ? c.n_scales() == c.n_unit : !c.declaration.declares_cache();
  if (none || (cache.quantized == Trait::Yes && none_arrives(f))) return ScaleUse::Nowhere;
  if (takes_no_name(f)) return server_of_table(f) ? ScaleUse::Nowhere : ScaleUse::Unknown;
  const ScaleUse use = scale_use(scale_reader(f), cache);
  // A row of MLA is divided by the scale of keys.
  const bool unequal = std::ranges::any_of(c.report.findings, [](const Finding& found) { return found.rule == "C05"; });
  return unequal && use == ScaleUse::Both ? ScaleUse::Unknown : use;
}

std::optional<Server> server_of_table(const Facts& f) {
  if ((!f.is(Engine::Vllm) && !f.is(Engine::Sglang)) || has_platform_of_its_own(f)) return std::nullopt;
  const Server of = verified_server(kind_in_tables(f.server));
  const bool other = f.version && *f.version != EngineVersion{of.major, of.minor, of.patch};
  return other ? std::nullopt : std::optional(of);
}

std::optional<ServerSupport> support_of(const Facts& f) {
  const std::optional<Server> of = server_of_table(f);
  if (!f.checkpoint || !of) return std::nullopt;
  const KvCarrier carrier = carrier_of(f.checkpoint->declaration, of->kind);
  return or_nothing([&] { return std::optional(server_support(*of, f.model.architecture, carrier)); });
}

std::optional<ServerSupport> support_of_export(const Facts& f, ServerKind server) {
  const KvCarrier carrier = f.checkpoint ? carrier_of(f.checkpoint->declaration, server) : KvCarrier::None;
  const bool by_name = f.model.architecture.empty() && f.model.latent == Trait::Yes;
  const std::string architecture = by_name ? "DeepseekV3ForCausalLM" : f.model.architecture;
  return or_nothing([&] { return std::optional(support_of_export(server, architecture, carrier)); });
}

std::string control_of(const Facts& f) {
  const ScaleUse use = scale_use_with(f, {.name = "bfloat16", .quantized = Trait::No});
  const Trait felt = use == ScaleUse::Unknown ? Trait::Unknown : trait_of(use == ScaleUse::ReadAlone);
  return control_text({cache_request(f), f.cache, felt, f.model.weights_type});
}

StateRequest state_request(const Facts& f) {
  StateRequest r = f.model.state;
  r.server = f.server;
  r.version = f.version;
  r.computed = f.flag_value("dtype");
  r.capability = f.gpu ? f.gpu->capability : 0;
  r.asked = f.flag_value(f.is(Engine::Sglang) ? "mamba-ssm-dtype" : "mamba-ssm-cache-dtype");
  r.options_elsewhere = has_options_elsewhere(f);
  r.asked_of_both = f.flag_value("mamba-cache-dtype");
  r.variable = f.variable("SGLANG_MAMBA_SSM_DTYPE");
  r.variable_of_conv = f.variable("SGLANG_MAMBA_CONV_DTYPE");
  return r;
}

void resolve(Facts& facts) {
  facts.model.family = squeezed(facts.model.architecture.empty() ? facts.model_path : facts.model.architecture);
  facts.cache = cache_type(cache_request(facts));
  facts.scale_use = scale_use_with(facts, facts.cache);
  facts.state = state_type(state_request(facts));
}

bool has_calibrated_scales(const Facts& facts) {
  const bool inside = facts.checkpoint && facts.checkpoint->n_scales() > facts.checkpoint->n_unit;
  return inside || (facts.scales && facts.scales->n_unit < facts.scales->n_sites);
}

void take_model_name(const std::string& name, ModelTraits& model) {
  if (model.from_config) return;
  const auto family = std::ranges::find_if(kFamilies, [&](const Family& f) { return names_one_of(name, f.parts); });
  if (family == kFamilies.end()) return;
  model.hybrid = family->hybrid ? Trait::Yes : Trait::No;
  model.latent = family->latent ? Trait::Yes : Trait::No;
  model.multimodal = family->multimodal ? Trait::Yes : Trait::Unknown;
  model.key_bias = family->key_bias ? Trait::Yes : Trait::No;
  model.n_heads = family->n_heads;
}

std::vector<Facts> with_each_version(const Facts& facts) {
  std::vector<Facts> each;
  const bool vllm = facts.is(Engine::Vllm);
  if (facts.version || (!vllm && !facts.is(Engine::Sglang))) return each;
  const std::string asked = cache_request(facts).asked;
  EngineVersion version = vllm ? EngineVersion{0, 9, 0} : EngineVersion{0, 5, 8};
  for (; version <= newest_known(facts.server); ++(vllm ? version.minor : version.patch)) {
    // Not one that lacks the type that was asked for.
    if (!asked.empty() && has_cache_type(facts.server, version, asked) == Trait::No) continue;
    each.push_back(facts);
    each.back().version = version;
    resolve(each.back());
  }
  return each;
}

std::string versions_where(const std::vector<Facts>& each, const std::function<bool(size_t)>& holds) {
  std::vector<size_t> found;
  for (size_t i = 0; i < each.size(); ++i)
    if (holds(i)) found.push_back(i);
  if (found.empty() || found.size() == each.size()) return "";
  const std::string name = std::string(name_of(each[0].server)) + " ";
  const auto version = [&](size_t i) { return str(*each[i].version); };
  const size_t first = found.front(), last = found.back();
  if (last - first + 1 != found.size()) return "some versions of " + std::string(name_of(each[0].server));
  if (first == last) return name + version(first);
  if (last + 1 == each.size()) return name + version(first) + " or later";
  return first == 0 ? name + "before " + version(last + 1) : name + version(first) + " to " + version(last);
}

}  // namespace kvcal
