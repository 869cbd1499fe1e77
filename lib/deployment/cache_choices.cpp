#include "deployment/cache_choices.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/letter_case.h"
#include "base/word_list.h"
#include "deployment/cache_type.h"

namespace kvcal {
namespace {

/// `absent` is the last version that was looked at and lacks the types, `since` the first that has it; `last` the last
/// that has it, `gone` the first that lacks it again. Zero: none.
struct Choice {
  Engine server;
  std::string_view types;
  EngineVersion absent{}, since{}, last{}, gone{};
};

// config.py, later config/cache.py, of vLLM 0.8.5 to 0.33.0 (every minor version since 0.11); server_args.py, later
// arg_groups/fields/model.py, of SGLang 0.5.8 to 0.5.23.
constexpr std::array kChoices = {
    Choice{Engine::Vllm, "auto fp8 fp8_e4m3 fp8_e5m2"},
    Choice{Engine::Vllm, "fp8_inc", {0, 9, 2}, {0, 10, 2}},
    // See refuses_choice().
    Choice{Engine::Vllm, "bfloat16", {0, 10, 2}, {0, 11, 0}, {0, 11, 0}, {0, 12, 0}},
    Choice{Engine::Vllm, "bfloat16", {0, 14, 1}, {0, 15, 0}},
    Choice{Engine::Vllm, "fp8_ds_mla", {0, 11, 0}, {0, 12, 0}},
    Choice{Engine::Vllm, "float16", {0, 17, 0}, {0, 18, 0}},
    Choice{Engine::Vllm,
           "turboquant_k8v4 turboquant_4bit_nc turboquant_k3v4_nc turboquant_3bit_nc int8_per_token_head "
           "fp8_per_token_head nvfp4",
           {0, 19, 0},
           {0, 20, 0}},
    Choice{Engine::Vllm, "int4_per_token_head", {0, 24, 0}, {0, 25, 1}},
    Choice{Engine::Vllm, "nvfp4_4over6", {0, 27, 1}, {0, 28, 0}},
    Choice{Engine::Vllm, "nvfp4_ds_mla", {0, 29, 0}, {0, 30, 0}},
    Choice{Engine::Vllm, "ultraquant_4bit", {0, 31, 0}, {0, 32, 0}},
    Choice{Engine::Vllm, "octave_k3v4 octave_k3v3 octave_k3v3_compact", {0, 32, 0}, {0, 33, 0}},
    Choice{Engine::Sglang, "auto fp8_e4m3 fp8_e5m2 bf16 bfloat16"},
    Choice{Engine::Sglang, "mxfp8 nvfp4 fp4_mx_block16", {0, 5, 15}, {0, 5, 16}},
    Choice{Engine::Sglang, "fp4_e2m1", {}, {}, {0, 5, 20}, {0, 5, 22}},
};

EngineVersion oldest_of(Engine server) {
  return server == Engine::Vllm ? EngineVersion{0, 8, 5} : EngineVersion{0, 5, 8};
}

Trait has(const Choice& c, const std::optional<EngineVersion>& v) {
  if (!v) return trait_of(c.gone == EngineVersion{});
  if (c.gone != EngineVersion{} && *v > c.last) return *v >= c.gone ? Trait::No : Trait::Unknown;
  if (*v >= c.since) return Trait::Yes;
  return *v <= c.absent ? Trait::No : Trait::Unknown;
}

enum class Models : uint8_t { Any, Plain, Latent };

/// What some versions serve a type on alone. GPUs are families of NVIDIA's compute capability, 12 for 12.x, and of
/// AMD's names. Types that no line is of are not looked into.
struct OnlyOn {
  Engine server;
  std::string_view types;  // one or more; "octave_*": that begin so, "*_head": that end so
  EngineVersions versions;
  std::string_view gpus;          // "": any
  std::string_view backend = "";  // the only one of vLLM's that lists the type; "": several, or not looked into
  std::string_view wide = "";     // of the GPUs those that take no heads of 64 channels
  Models models = Models::Any;
  int least = 0;  // of NVIDIA's GPUs the oldest
};

constexpr std::string_view kOfAmd = "AMD's GPUs";

// supported_kv_cache_dtypes of vLLM's backends in 0.20.0 to 0.33.0, of fp8_ds_mla and of fp8_inc, which none lists, in
// 0.12.0 to 0.33.0; flashinfer.py supports_kv_cache_dtype and supports_combination, config/vllm.py since 0.22.0 of MLA,
// flashmla_sparse.py, rocm_octave_attn.py _kernel_tier (RDNA3, CDNA3). flashinfer.py of 0.20.0 and 0.20.2: "nvfp4 KV
// cache is not yet supported". platforms/cuda.py never chooses ULTRAQUANT. FP8: FlashInfer's floor, 7.5 in 0.16.0 to
// 0.23.0 and 8.0 since; of MLA no backend takes it below 9.0 in 0.16.0 and 0.17.0, 8.9 since, and E5M2 on none of
// NVIDIA's, where Triton's kernels cannot be compiled for E4M3 (triton_attn.py since 0.24.0, mla/triton_mla.py since
// 0.26.0: "requires SM89+"; vllm#35720). SGLang 0.5.16 server_args.py, 0.5.23 kv_cache_hook.py.
constexpr std::array kOnlyOn = {
    OnlyOn{Engine::Vllm, "nvfp4_ds_mla", {{0, 32, 0}, {}}, "10", "", "", Models::Latent},
    OnlyOn{Engine::Vllm, "fp8_ds_mla", {{0, 12, 0}, {}}, "", "", "", Models::Latent},
    OnlyOn{Engine::Vllm, "fp8_inc", {{0, 12, 0}, {}}, "Intel's Gaudi"},
    OnlyOn{Engine::Vllm, "nvfp4_4over6", {{0, 28, 0}, {}}, "10", "FLASHINFER", "", Models::Plain},
    OnlyOn{Engine::Vllm, "nvfp4", {{0, 20, 0}, {0, 21, 0}}, "none", "", "", Models::Plain},
    OnlyOn{Engine::Vllm, "nvfp4", {{0, 21, 0}, {0, 32, 0}}, "10", "FLASHINFER", "", Models::Plain},
    OnlyOn{Engine::Vllm, "nvfp4", {{0, 32, 0}, {}}, "8 9 10 12", "FLASHINFER", "8 9 12", Models::Plain},
    OnlyOn{Engine::Vllm, "octave_*", {{0, 33, 0}, {}}, "gfx11 gfx942", "ROCM_OCTAVE", "", Models::Plain},
    OnlyOn{Engine::Vllm, "turboquant_*", {{0, 20, 0}, {}}, "", "TURBOQUANT", "", Models::Plain},
    OnlyOn{Engine::Vllm, "ultraquant_4bit", {{0, 32, 0}, {}}, kOfAmd, "ULTRAQUANT", "", Models::Plain},
    OnlyOn{Engine::Vllm, "fp8_per_token_head", {{0, 20, 0}, {0, 24, 0}}, "", "TRITON_ATTN", "", Models::Plain},
    OnlyOn{Engine::Vllm, "fp8_per_token_head", {{0, 24, 0}, {}}, "", "TRITON_ATTN", "", Models::Plain, 89},
    OnlyOn{Engine::Vllm, "*_per_token_head", {{0, 20, 0}, {}}, "", "TRITON_ATTN", "", Models::Plain},
    OnlyOn{Engine::Vllm, "fp8 fp8_e4m3", {{}, {0, 16, 0}}, ""},
    OnlyOn{Engine::Vllm, "fp8 fp8_e4m3", {{0, 16, 0}, {0, 18, 0}}, kOfAmd, "", "", Models::Latent},
    OnlyOn{Engine::Vllm, "fp8 fp8_e4m3", {{0, 16, 0}, {0, 18, 0}}, "9 10", "", "", Models::Latent},
    OnlyOn{Engine::Vllm, "fp8 fp8_e4m3", {{0, 18, 0}, {}}, "", "", "", Models::Latent, 89},
    OnlyOn{Engine::Vllm, "fp8 fp8_e4m3", {{0, 16, 0}, {0, 24, 0}}, "", "", "", Models::Plain, 75},
    OnlyOn{Engine::Vllm, "fp8 fp8_e4m3", {{0, 24, 0}, {}}, "", "", "", Models::Plain, 80},
    OnlyOn{Engine::Vllm, "fp8_e5m2", {{}, {0, 16, 0}}, ""},
    OnlyOn{Engine::Vllm, "fp8_e5m2", {{0, 16, 0}, {}}, kOfAmd, "", "", Models::Latent},
    OnlyOn{Engine::Vllm, "fp8_e5m2", {{0, 16, 0}, {0, 24, 0}}, "", "", "", Models::Plain, 75},
    OnlyOn{Engine::Vllm, "fp8_e5m2", {{0, 24, 0}, {}}, "", "", "", Models::Plain, 80},
    OnlyOn{Engine::Sglang, "nvfp4", {{0, 5, 16}, {}}, "10 12"},
    OnlyOn{Engine::Sglang, "mxfp8", {{0, 5, 16}, {}}, "10 11 12"},
};

bool is_of(std::string_view type, std::string_view types) {
  if (types.starts_with("*")) return type.ends_with(types.substr(1));
  return types.ends_with("*") ? type.starts_with(types.substr(0, types.size() - 1)) : has_word(types, type);
}

/// The lines of the closest pattern, the first that fits, that hold in the version: other versions of it say nothing.
std::vector<const OnlyOn*> lines_of(Engine server, const std::optional<EngineVersion>& version, std::string_view type) {
  std::vector<const OnlyOn*> lines;
  if (is_newer_than_known(server, version)) return lines;
  const auto closest =
      std::ranges::find_if(kOnlyOn, [&](const OnlyOn& o) { return o.server == server && is_of(type, o.types); });
  if (closest == kOnlyOn.end()) return lines;
  for (const OnlyOn& o : kOnlyOn)
    if (o.server == server && o.types == closest->types && (!version || o.versions.hold(version))) lines.push_back(&o);
  return lines;
}

/// "12", "gfx942", "gfx11"; "" where it is not known.
std::string family_of(const Gpu& gpu) {
  if (gpu.rocm) return gpu.gfx.starts_with("gfx11") ? "gfx11" : gpu.gfx.empty() ? "AMD" : gpu.gfx;
  return gpu.capability == 0 ? "" : std::to_string(gpu.capability / 10);
}

std::string refusal_by_model(const OnlyOn& o, const CachePlace& place) {
  if (o.models == Models::Plain && place.latent == Trait::Yes) return "no MLA";
  return o.models == Models::Latent && place.latent == Trait::No ? "MLA alone" : "";
}

std::string refusal_by_gpu(const OnlyOn& o, const CachePlace& place) {
  if (o.gpus == "none") return "not in this version yet";
  const std::string family = place.gpu == nullptr ? "" : family_of(*place.gpu);
  if (family.empty()) return "";
  if (!place.gpu->rocm && place.gpu->capability < o.least)
    return "compute capability " + capability_text(o.least) + " or more";
  // A command that names the backend itself goes past what the platform would choose.
  const bool of_amd = o.gpus == kOfAmd && (place.gpu->rocm || (!o.backend.empty() && place.backend == o.backend));
  if (!o.gpus.empty() && !of_amd && !has_word(o.gpus, family)) {
    const bool numbers = o.gpus.front() >= '0' && o.gpus.front() <= '9';
    return std::string(numbers ? "compute capability " : "") + std::string(o.gpus) + " alone";
  }
  return place.head_dim == 64 && has_word(o.wide, family) ? "no heads of 64 channels" : "";
}

/// A backend that both servers have, or that one of them alone has.
struct Backend {
  std::string_view vllm, sglang;
};

// v1/attention/backends/registry.py of vLLM 0.12.0 to 0.33.0; ATTENTION_BACKEND_CHOICES of SGLang 0.5.8 to 0.5.23.
// vLLM has more, which no other server's names look like.
constexpr std::array kBackends = {Backend{"FLASHINFER", "flashinfer"},
                                  Backend{"FLASHMLA", "flashmla"},
                                  Backend{"FLEX_ATTENTION", "flex_attention"},
                                  Backend{"CUTLASS_MLA", "cutlass_mla"},
                                  Backend{"TOKENSPEED_MLA", "tokenspeed_mla"},
                                  Backend{"TRITON_ATTN", "triton"},
                                  Backend{"FLASH_ATTN", "fa3"},
                                  Backend{"FLASH_ATTN", "fa4"},
                                  Backend{"FLASHINFER", "trtllm_mha"},
                                  Backend{"FLASHINFER_MLA", "trtllm_mla"},
                                  Backend{"TRITON_MLA", "triton"},
                                  Backend{"FLASH_ATTN_MLA", "fa3"},
                                  Backend{"FLASHMLA_SPARSE", "dsa"},
                                  Backend{"FLASHMLA_SPARSE", "nsa"},
                                  Backend{"ROCM_AITER_FA", "aiter"},
                                  Backend{"ROCM_AITER_MLA", "aiter"},
                                  Backend{"CPU_ATTN", "intel_amx"},
                                  Backend{"", "torch_native"},
                                  Backend{"", "intel_xpu"},
                                  Backend{"", "ascend"},
                                  Backend{"", "wave"}};

}  // namespace

ServerKind kind_in_tables(Engine server) { return server == Engine::Sglang ? ServerKind::Sglang : ServerKind::Vllm; }

EngineVersion newest_known(Engine server) {
  const Server newest = verified_server(kind_in_tables(server));
  return {newest.major, newest.minor, newest.patch};
}

bool is_newer_than_known(Engine server, const std::optional<EngineVersion>& version) {
  return version && (server == Engine::Vllm || server == Engine::Sglang) && *version > newest_known(server);
}

Trait has_cache_type(Engine server, const std::optional<EngineVersion>& version, std::string_view type) {
  const bool of_shell = type.find('$') != type.npos;  // a variable that is not known
  if (of_shell || (server != Engine::Vllm && server != Engine::Sglang)) return Trait::Unknown;
  if ((version && *version < oldest_of(server)) || is_newer_than_known(server, version)) return Trait::Unknown;
  Trait any = Trait::No;
  for (const Choice& c : kChoices)
    if (c.server == server && has_word(c.types, type) && any != Trait::Yes)
      if (const Trait here = has(c, version); here != Trait::No) any = here;
  return any;
}

bool is_quantized_choice(std::string_view type) {
  return is_quantized_type(type) &&
         std::ranges::any_of(kChoices, [&](const Choice& c) { return has_word(c.types, type); });
}

// Every attention backend of these versions does.
bool refuses_choice(Engine server, const std::optional<EngineVersion>& version, std::string_view type) {
  constexpr EngineVersions kRefused = {{0, 12, 0}, {0, 15, 0}};
  return server == Engine::Vllm && type == "bfloat16" && version && kRefused.hold(version);
}

std::string why_not_served(Engine server, const std::optional<EngineVersion>& version, std::string_view type,
                           const CachePlace& place) {
  std::string by_model, by_gpu;
  for (const OnlyOn* line : lines_of(server, version, type)) {
    const std::string model = refusal_by_model(*line, place);
    const std::string gpu = model.empty() ? refusal_by_gpu(*line, place) : "";
    if (model.empty() && gpu.empty()) return "";
    (model.empty() ? by_gpu : by_model) = model.empty() ? gpu : model;
  }
  return by_gpu.empty() ? by_model : by_gpu;
}

// FlashInferBackend.get_supported_head_sizes.
bool flashinfer_takes_heads(const std::optional<EngineVersion>& version, int64_t width) {
  constexpr EngineVersion kWider = {0, 22, 0};
  return width == 64 || width == 128 || width == 256 || (width == 512 && !(version && *version < kWider));
}

namespace {

/// Heads that FlashInfer does not take, where Triton, which takes any, has no FP8.
std::string refusal_by_width(Engine server, const EngineVersion& version, std::string_view type,
                             const CachePlace& place) {
  const bool taken = place.head_dim == 0 || flashinfer_takes_heads(version, place.head_dim);
  if (server != Engine::Vllm || taken || place.latent == Trait::Yes) return "";
  const bool old = place.gpu != nullptr && place.gpu->capability > 0 && place.gpu->capability < 89;
  const bool fp8 = type == "fp8" || type == "fp8_e4m3" || type == "fp8_e5m2";
  if (only_backend(server, version, type, place.gpu) != "FLASHINFER" && !(fp8 && old)) return "";
  return "no heads of " + std::to_string(place.head_dim) + " channels" + (fp8 ? " below compute capability 8.9" : "");
}

}  // namespace

CacheService cache_service(const NamedEngine& of, std::string_view type, const CachePlace& place) {
  CacheService service = {of.version.value_or(newest_known(of.server))};
  service.served = has_cache_type(of.server, service.version, type);
  if (service.served == Trait::Unknown) service.why = "not known for this version";
  if (service.served == Trait::No) service.why = "no such type";
  if (service.served != Trait::Yes) return service;
  service.why = why_not_served(of.server, service.version, type, place);
  if (service.why.empty()) service.why = refusal_by_width(of.server, service.version, type, place);
  service.served = trait_of(service.why.empty());
  // Triton's kernels for E4M3 begin with 8.9, and of MLA there are no others of Ampere.
  const int least = place.latent == Trait::Yes ? 89 : 80;
  const bool older = place.gpu != nullptr && place.gpu->capability > 0 && place.gpu->capability < least;
  const auto lines = lines_of(of.server, service.version, type);
  const bool checked = std::ranges::any_of(lines, [](const OnlyOn* o) { return o->least > 0; });
  if (service.served != Trait::Yes || !older || checked) return service;
  return {service.version, Trait::Unknown, "not checked below compute capability " + capability_text(least)};
}

std::string_view only_backend(Engine server, const std::optional<EngineVersion>& version, std::string_view type,
                              const Gpu* gpu) {
  // ROCm's platform goes back to its own choice, layer by layer: platforms/rocm.py of 0.28.0 to 0.33.0.
  constexpr EngineVersion kGoesBack = {0, 28, 0};
  const bool mixed = type.starts_with("turboquant_") || type.starts_with("ultraquant_");
  if (mixed && (gpu == nullptr || gpu->rocm) && !(version && *version < kGoesBack)) return "";
  const std::vector<const OnlyOn*> lines = lines_of(server, version, type);
  const bool same = std::ranges::all_of(lines, [&](const OnlyOn* o) { return o->backend == lines[0]->backend; });
  return lines.empty() || !same ? "" : lines[0]->backend;
}

std::optional<std::string_view> backend_of_another(Engine server, std::string_view name) {
  const bool vllm = server == Engine::Vllm;
  if (!vllm && server != Engine::Sglang) return std::nullopt;
  const std::string lower = lower_case(name);
  const auto own = [&](const Backend& b) { return vllm ? lower_case(b.vllm) == lower : b.sglang == name; };
  const auto others = [&](const Backend& b) { return vllm ? b.sglang == lower : lower_case(b.vllm) == lower; };
  if (std::ranges::any_of(kBackends, own)) return std::nullopt;
  const auto other = std::ranges::find_if(kBackends, others);
  if (other != kBackends.end()) return vllm ? other->vllm : other->sglang;
  // SGLang takes no capitals.
  return !vllm && name != lower ? std::optional<std::string_view>("") : std::nullopt;
}

// The option came with 0.13; the variable was read until 0.14.
std::string backend_option(Engine server, const std::optional<EngineVersion>& version, const std::string& name) {
  constexpr EngineVersion kOption = {0, 13, 0};
  const bool of_vllm = std::ranges::none_of(name, [](char c) { return c >= 'a' && c <= 'z'; });
  if (server != Engine::Unknown && of_vllm != (server == Engine::Vllm)) return "";
  if (server == Engine::Vllm && version && *version < kOption) return "VLLM_ATTENTION_BACKEND=" + name;
  return "--attention-backend " + name;
}

}  // namespace kvcal
