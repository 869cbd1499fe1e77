#include "deployment/state_type.h"

#include <algorithm>
#include <array>

#include "base/json_text.h"
#include "base/word_list.h"

namespace kvcal {
namespace {

/// Types that versions take. vLLM 0.10.1 to 0.33.0 config/cache.py MambaDType; SGLang 0.5.2 to 0.5.23 server_args.py,
/// arg_groups/fields/exec_.py.
struct Types {
  Engine server;
  EngineVersions versions;
  std::string_view names;
};
constexpr std::array kTypes = {
    Types{Engine::Vllm, {{0, 10, 1}, {0, 13, 0}}, "auto, float32"},
    Types{Engine::Vllm, {{0, 13, 0}, {0, 22, 0}}, "auto, float32, float16"},
    Types{Engine::Vllm, {{0, 22, 0}, {}}, "auto, float32, float16, bfloat16"},
    Types{Engine::Sglang, {{0, 5, 2}, {0, 5, 9}}, "float32, bfloat16"},
    Types{Engine::Sglang, {{0, 5, 9}, {}}, "float32, bfloat16, float16"},
};

/// Classes whose state vLLM does not keep in the type of the convolution's window: in what a member of config.json
/// says, else in `otherwise` ("": as the window). vLLM 0.13.0 to 0.33.0 model_executor/models/config.py.
struct Special {
  std::string_view classes;  // begin so
  EngineVersions versions;
  std::string StateRequest::*declared;
  std::string_view otherwise;
};
constexpr std::array kSpecial = {
    Special{
        "NemotronHForCausalLM NemotronHPuzzle", {{0, 13, 0}, {0, 20, 0}}, &StateRequest::declared_of_cache, "float16"},
    Special{"NemotronHForCausalLM NemotronHPuzzle NemotronH_Nano_VL",
            {{0, 20, 0}, {}},
            &StateRequest::declared_of_cache,
            "float32"},
    Special{"Qwen3_5", {{0, 17, 0}, {}}, &StateRequest::declared, ""},
    Special{"Qwen4Exp", {{0, 32, 0}, {}}, &StateRequest::declared, ""},
};

/// Classes of delta rules by channel that take no option for their state. vLLM 0.33.0 bailing_moe_v3.py, alice_ai.py.
constexpr std::string_view kDeaf = "BailingMoeV3 AliceAI";

/// SGLang reads mamba_ssm_dtype of these. 0.5.23 configs: calls of mamba2_state_dtype(self).
constexpr std::string_view kReadsConfig = "Qwen3Next Qwen3_5 Qwen4Exp NemotronH FalconH1 JetNemotron Lfm2";

/// SGLang copies states of these aside while it decodes. 0.5.23 arg_groups/overrides.py.
constexpr std::string_view kExtraBuffer =
    "KimiLinear KimiK3 Qwen3_5 Qwen3Next Qwen4Exp InternS2 MiniCPMV4_ Bailing FalconH1 GraniteMoeHybrid Glm5Next "
    "NemotronH Inkling";

/// Kinds of recurrent layers by class, of those that servers have: the program itself does not read all of them.
constexpr std::array<std::pair<std::string_view, LayerKind>, 6> kKinds = {{
    {"Qwen3_5 Qwen3Next Qwen4Exp OlmoHybrid", LayerKind::GatedDeltaNet},
    {"KimiLinear KimiK3 Glm5Next BailingMoeV3 AliceAI", LayerKind::KimiDeltaAttention},
    {"BailingMoeV2_5 MiniMaxM1 MiniMaxText01", LayerKind::LightningAttention},
    {"NemotronH GraniteMoeHybrid FalconH1 Zamba2 Mamba2", LayerKind::Mamba2},
    {"Jamba FalconMamba", LayerKind::Mamba},
    {"Lfm2", LayerKind::ShortConv},
}};

bool is_given(const std::string& type) { return !type.empty() && type != "auto"; }

bool before(const std::optional<EngineVersion>& version, const EngineVersion& limit) {
  return version && *version < limit;
}

std::string settles_type(const StateRequest& r) {
  return r.options_elsewhere ? "the file that the command's --config names: give it beside the command"
                             : "config.json: the type that the model computes in";
}

ServedState conv_of_vllm(const StateRequest& r) {
  if (is_given(r.asked_of_both)) return {r.asked_of_both, r.asked_of_both, "option"};
  const std::string computed = computed_type(r);
  ServedState type = {computed, computed, "default"};
  if (computed.empty()) type.open = settles_type(r);
  return type;
}

ServedState in_vllm(const StateRequest& r) {
  ServedState type = conv_of_vllm(r);
  const bool asked = is_given(r.asked);
  const std::string_view option = "mamba-ssm-cache-dtype";
  // mamba_utils.py gated_delta_net_state_dtype() takes the option since 0.17.0.
  const bool old_delta = r.kind == LayerKind::GatedDeltaNet && before(r.version, {0, 17, 0});
  if (r.kind == LayerKind::ShortConv || r.kind == LayerKind::LightningAttention || old_delta) {
    if (asked) type.ignored = option;
    return type;
  }
  if (r.kind == LayerKind::KimiDeltaAttention) {
    const bool deaf = before(r.version, {0, 30, 0}) || begins_with_word(kDeaf, r.architecture);
    if (asked && deaf) type.ignored = option;
    const bool obeyed = asked && !deaf;
    return {obeyed ? r.asked : "float32", type.conv, obeyed ? "option" : "default", type.ignored, ""};
  }
  if (asked) return {r.asked, type.conv, "option", "", ""};
  for (const Special& s : kSpecial) {
    if (!begins_with_word(s.classes, r.architecture) || !s.versions.hold(r.version)) continue;
    if (const std::string& declared = r.*s.declared; is_given(declared)) return {declared, type.conv, "config.json"};
    if (!s.otherwise.empty()) return {std::string(s.otherwise), type.conv, "default"};
  }
  if (!r.kind) return {"", type.conv, "", "", "config.json: which kind of recurrent layers the model has"};
  return type;
}

ServedState in_sglang(const StateRequest& r) {
  ServedState type = {"float32", is_given(r.variable_of_conv) ? r.variable_of_conv : "bfloat16", "default"};
  if (r.kind == LayerKind::ShortConv) {
    if (is_given(r.asked)) type.ignored = "mamba-ssm-dtype";
    type.name = type.conv;
    return type;
  }
  const bool reads = begins_with_word(kReadsConfig, r.architecture) && !before(r.version, {0, 5, 9});
  for (const auto& [name, by] : {std::pair{r.asked, "option"}, std::pair{r.variable, "environment"},
                                 std::pair{reads ? r.declared : std::string(), "config.json"}})
    if (is_given(name)) return {name, type.conv, by};
  return type;
}

const Types* types_of(Engine server, const std::optional<EngineVersion>& version) {
  const auto found =
      std::ranges::find_if(kTypes, [&](const Types& t) { return t.server == server && t.versions.hold(version); });
  return found == kTypes.end() ? nullptr : &*found;
}

// In the order in which servers look: the language model's part goes before the whole.
std::string said_in(const Json& config, std::initializer_list<const char*> keys) {
  for (const char* part : {"text_config", "llm_config", "language_config", ""}) {
    const Json& inner = *part == '\0' ? config : object_at(config, part);
    for (const char* key : keys)
      if (std::string value = text_at(inner, key); !value.empty()) return value;
  }
  return "";
}

}  // namespace

void take_config(const Json& config, StateRequest& request) {
  if (!config.is_object()) return;
  request.declared = said_in(config, {"mamba_ssm_dtype"});
  request.declared_of_cache = said_in(config, {"mamba_ssm_cache_dtype"});
  request.weights_type = said_in(config, {"dtype", "torch_dtype"});
  if (request.weights_type.empty()) request.weights_type = "float32";  // what servers assume
  const Json& classes = list_at(config, "architectures");
  if (!classes.empty() && classes.front().is_string()) request.architecture = classes.front().get<std::string>();
  for (const auto& [beginnings, kind] : kKinds)
    if (begins_with_word(beginnings, request.architecture)) request.kind = kind;
}

void take_layers(const ModelSpec& spec, StateRequest& request) {
  for (const LayerSpec& layer : spec.layers)
    if (layer.state_bytes > 0 && (!request.kind || layer.has_long_state())) request.kind = layer.state_kind();
}

// vLLM 0.10.2 to 0.33.0 config/model.py _resolve_auto_dtype: unasked it computes in 16 bits.
std::string computed_type(const StateRequest& r) {
  if (r.computed == "half") return "float16";
  if (r.computed == "float") return "float32";
  if (is_given(r.computed)) return r.computed;
  if (r.options_elsewhere) return "";
  const bool before_ampere = r.capability > 0 && r.capability < 80;
  const bool other = r.weights_type == "float32" || (before_ampere && r.weights_type == "bfloat16");
  if (r.server != Engine::Vllm || !other) return r.weights_type;
  return before_ampere ? "float16" : "bfloat16";
}

ServedState state_type(const StateRequest& request) {
  const bool vllm = request.server == Engine::Vllm;
  if (!vllm && request.server != Engine::Sglang)
    return {"", "", "", "", "--server vllm or sglang: of others it is not known"};
  if (request.options_elsewhere && !is_given(request.asked)) return {"", "", "", "", settles_type(request)};
  return vllm ? in_vllm(request) : in_sglang(request);
}

Trait takes_state_type(Engine server, const std::optional<EngineVersion>& version, std::string_view type) {
  const Types* types = types_of(server, version);
  if (types == nullptr) return Trait::Unknown;
  const std::string list = ", " + std::string(types->names) + ",";
  return trait_of(list.find(", " + std::string(type) + ",") != std::string::npos);
}

std::string state_types(Engine server, const std::optional<EngineVersion>& version) {
  const Types* types = types_of(server, version);
  return types == nullptr ? "" : std::string(types->names);
}

// vLLM 0.15.0 to 0.33.0 v1/kv_cache_interface.py MambaSpec; hybrids have prefix caching by default since 0.28.0,
// engine/arg_utils.py; 0.26 and 0.27 keep it opt-in. SGLang 0.5.23 kv_cache_configurator.py _calculate_mamba_ratio,
// allocation_sizing.py; server_args.py until 0.5.13 makes no_buffer of "auto", 0.5.14 extra_buffer.
StateSlots state_slots(Engine server, const std::optional<EngineVersion>& version, std::string_view architecture) {
  if (server == Engine::Vllm && !before(version, {0, 28, 0}))
    return {2, "its own and the last checkpoint of prefix caching"};
  if (server != Engine::Sglang) return {1, "its own: without prefix caching"};
  if (!before(version, {0, 5, 14}) && begins_with_word(kExtraBuffer, architecture))
    return {5, "its own, two of the radix cache and two that are written in turns"};
  return {3, "its own and two of the radix cache"};
}

}  // namespace kvcal
