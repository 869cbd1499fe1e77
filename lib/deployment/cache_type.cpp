#include "deployment/cache_type.h"

#include <algorithm>
#include <array>

#include "base/word_list.h"
#include "deployment/cache_choices.h"

namespace kvcal {
namespace {

enum class Declares : uint8_t { Nothing, CompressedTensors, ModelOptFp8, ModelOptNvfp4, Fp8 };

/// What a declaration becomes under "auto", and whether it overrides an option that asks for something else.
struct Line {
  Engine server;
  Declares declares;
  EngineVersions versions;
  std::string_view becomes;
  bool overrides = false;
  bool of_latent = false;  // of MLA alone, whose lines stand first
};

constexpr EngineVersion kVllmObeysOption = {0, 22, 0};

// Read in the wheels: vLLM 0.8.5 to 0.33.0 attention.py (layer.py) and torch_utils.py, SGLang 0.5.4 to 0.5.23
// compressed_tensors.py, fp8.py and configure_kv_cache_dtype. What no line covers is not known.
// vLLM's layers of attention look for the scheme, those of MLA do not: 0.15.0 to 0.33.0 mla_attention.py (layer.py).
constexpr std::array kLines = {
    Line{Engine::Vllm, Declares::CompressedTensors, {}, "auto", false, true},
    Line{Engine::Vllm, Declares::CompressedTensors, {{0, 8, 5}, {0, 15, 0}}, "auto"},
    Line{Engine::Vllm, Declares::CompressedTensors, {{0, 15, 0}, kVllmObeysOption}, "fp8", true},
    Line{Engine::Vllm, Declares::CompressedTensors, {kVllmObeysOption, {}}, "fp8"},
    Line{Engine::Vllm, Declares::ModelOptFp8, {{0, 10, 2}, {0, 14, 0}}, "auto"},
    Line{Engine::Vllm, Declares::ModelOptFp8, {{0, 14, 0}, {}}, "fp8_e4m3"},
    Line{Engine::Vllm, Declares::ModelOptNvfp4, {{0, 20, 0}, {}}, "nvfp4"},
    Line{Engine::Sglang, Declares::CompressedTensors, {{0, 5, 8}, {0, 5, 19}}, "auto"},
    Line{Engine::Sglang, Declares::CompressedTensors, {{0, 5, 19}, {}}, "fp8_e4m3"},
    Line{Engine::Sglang, Declares::ModelOptFp8, {{0, 5, 6}, {}}, "fp8_e4m3"},
    Line{Engine::Sglang, Declares::Fp8, {{0, 5, 8}, {0, 5, 18}}, "auto"},
    Line{Engine::Sglang, Declares::Fp8, {{0, 5, 18}, {}}, "fp8_e4m3"},
};

// By what the newest version makes of it; older ones differ in the lines above alone.
Declares declares(const KvDeclaration& d, Engine server) {
  const std::string type = auto_cache_type(d, kind_in_tables(server));
  if (type.empty()) return Declares::Nothing;
  if (d.is_compressed_tensors()) return Declares::CompressedTensors;
  if (!d.is_modelopt()) return Declares::Fp8;
  return type == "nvfp4" ? Declares::ModelOptNvfp4 : Declares::ModelOptFp8;
}

/// Without a version that of the newest releases, as everywhere.
const Line* line_of(const CacheRequest& r, Declares declared) {
  if (is_newer_than_known(r.server, r.version)) return nullptr;
  const auto found = std::ranges::find_if(kLines, [&](const Line& line) {
    const bool of_rows = !line.of_latent || r.latent == Trait::Yes;
    return of_rows && line.server == r.server && line.declares == declared && line.versions.hold(r.version);
  });
  return found == kLines.end() ? nullptr : &*found;
}

CacheType known(std::string name, std::string_view by) {
  const Trait quantized = trait_of(is_quantized_type(name));
  return {.name = std::move(name), .quantized = quantized, .decided_by = by};
}

CacheType not_known(std::string open) { return {.open = std::move(open)}; }

// An option that asks for the model's type, or for another that is not quantized: vLLM did not always obey it.
CacheType plain_option(const CacheRequest& r) {
  if (r.server != Engine::Vllm || (r.version && *r.version >= kVllmObeysOption)) return known(r.asked, "option");
  if (r.latent == Trait::Yes) return known(r.asked, "option");
  if (r.declared && declares(*r.declared, r.server) != Declares::CompressedTensors) return known(r.asked, "option");
  if (!r.version)
    return not_known(
        "the version (--server vllm@VERSION): before 0.22 vLLM stores FP8 whatever the option says where " +
        std::string(r.declared ? "" : "a compressed-tensors ") + "config.json declares it");
  if (!r.declared)
    return not_known(
        "config.json (--model): vLLM 0.15 to 0.21 stores FP8 whatever the option says where it declares it");
  const Line* line = line_of(r, Declares::CompressedTensors);
  return line != nullptr && line->overrides ? known(std::string(line->becomes), "checkpoint")
                                            : known(r.asked, "option");
}

CacheType left_to_server(const CacheRequest& r) {
  if (r.options_elsewhere) return not_known("the file that the command's --config names: give it beside the command");
  const bool has_auto = r.server == Engine::Vllm || r.server == Engine::Sglang;
  if (!has_auto && r.server != Engine::Unknown)
    return r.options_known ? known("auto", "default") : not_known("the serve command");
  if (!r.declared) return not_known("config.json (--model): a checkpoint that declares FP8 makes FP8 of auto");
  const Declares declared = declares(*r.declared, r.server);
  if (declared == Declares::Nothing) {
    if (r.own_default) return not_known("the server's log: it may choose a type of its own here");
    if (r.server == Engine::Unknown || !r.options_known) return not_known("the serve command");
    return known("auto", "default");
  }
  if (r.server == Engine::Unknown) {
    const bool both = auto_is_fp8(*r.declared, ServerKind::Vllm) && auto_is_fp8(*r.declared, ServerKind::Sglang);
    return both ? known("fp8", "checkpoint") : not_known("which server it is (--server)");
  }
  if (const Line* line = line_of(r, declared)) return known(std::string(line->becomes), "checkpoint");
  return not_known("the server's log: what this version makes of the declared cache was not checked");
}

CacheType asked_for(const CacheRequest& r) {
  if (r.asked.find('$') != r.asked.npos) return not_known("what " + r.asked + " stands for, or the server's log");
  if (r.asked.empty() || r.asked == "auto") return left_to_server(r);
  return is_quantized_type(r.asked) ? known(r.asked, "option") : plain_option(r);
}

/// How a backend of sparse MLA stores E4M3: rows with scales of their own, by 128 values, or plain ones.
struct SparseBackend {
  std::string_view name;
  bool one_scale;
};

// vLLM 0.24.0 and 0.33.0 mla_attention.py, SGLang 0.5.23 kv_cache_configurator.py and arg_groups/overrides.py.
constexpr std::array kSparseBackends = {
    SparseBackend{"FLASHMLA_SPARSE", false}, SparseBackend{"FLASHINFER_MLA_SPARSE_SM120", false},
    SparseBackend{"flashmla_kv", false},     SparseBackend{"flashmla_sparse", false},
    SparseBackend{"trtllm", true},           SparseBackend{"FLASHINFER_MLA_SPARSE", true},
};

// server_args.py of 0.5.12, arg_groups/overrides.py of 0.5.23.
std::string_view sparse_backend(const CacheRequest& r) {
  const bool chooses = r.server == Engine::Sglang && (!r.version || *r.version >= EngineVersion{0, 5, 12});
  if (!r.backend.empty() || !chooses) return r.backend;
  if (r.capability >= 100 && r.capability < 120) return "trtllm";
  return r.capability >= 80 && r.capability < 100 ? "flashmla_kv" : "";
}

void settle_scale(const CacheRequest& r, CacheType& type) {
  if (type.name.empty()) return;
  const bool e4m3 = type.name == "fp8" || type.name == "fp8_e4m3" || type.name == "torch.float8_e4m3fn";
  type.one_scale = trait_of(e4m3);
  if (!e4m3 || !r.sparse_latent) return;
  const auto backend = std::ranges::find(kSparseBackends, sparse_backend(r), &SparseBackend::name);
  type.one_scale = backend == kSparseBackends.end() ? Trait::Unknown : trait_of(backend->one_scale);
  if (type.one_scale == Trait::Unknown)
    type.open = "the backend of sparse attention (the server's log, --gpu): some store a scale with every 128 values";
}

CacheType other_run(const CacheRequest& r, const std::string& logged) {
  return {.open = "inputs of one run: the options ask for " + r.asked + ", the log names " + logged,
          .contradicted = true};
}

// By vLLM's "scaling factor 1.0 for fp8_e4m3", which it says of an NVFP4 cache, too.
CacheType quantized_type(const CacheRequest& r, CacheType asked) {
  if (asked.quantized == Trait::Yes) return asked;
  if (asked.decided_by == "option") return other_run(r, "a quantized one");
  return {.quantized = Trait::Yes, .decided_by = "log", .open = "the serve command, or config.json (--model)"};
}

CacheType settled_type(const CacheRequest& request) {
  const CacheType asked = asked_for(request);
  if (request.logged.empty()) return request.logged_quantized ? quantized_type(request, asked) : asked;
  if (!request.logged_too.empty())
    return {.open = "the log of one run: this one names " + request.logged + " and " + request.logged_too,
            .contradicted = true};
  const CacheType logged = known(request.logged, "log");
  const bool explicitly = asked.decided_by == "option";
  if (!explicitly || asked.quantized == logged.quantized) return explicitly ? asked : logged;
  return other_run(request, request.logged);
}

}  // namespace

CacheType cache_type(const CacheRequest& request) {
  CacheType type = settled_type(request);
  settle_scale(request, type);
  return type;
}

bool is_quantized_type(std::string_view type) {
  if (type.starts_with("torch.")) type.remove_prefix(6);
  return !type.empty() && !has_word("auto bf16 bfloat16 float16 fp16 f16 f32 float32 half float none", type);
}

bool holds_fp8(std::string_view type) {
  if (type.starts_with("torch.")) type.remove_prefix(6);
  return type.starts_with("fp8") || type.starts_with("float8");
}

std::string format_of(const CacheType& type) {
  if (type.quantized != Trait::Yes || type.name.empty()) return "quantized";
  if (holds_fp8(type.name)) return "FP8";
  return type.name.starts_with("nvfp4") ? "NVFP4" : type.name;
}

namespace {

/// "with this one auto is NVFP4, and "; "" where auto may well be the model's own type.
std::string auto_too(CacheRequest r) {
  r.asked.clear();
  r.logged.clear();
  const CacheType left = cache_type(r);
  if (left.quantized != Trait::Yes) return "";
  return "with this one auto is " + format_of(left) + ", and ";
}

/// What the option asks for, or does not get, is not to outlive the declaration.
std::string without_option(const CacheRequest& r, bool taken, const std::string& own) {
  if (r.asked.empty() || (taken && !is_quantized_type(r.asked))) return "";
  return r.own_default && taken ? "and " + own + " as its --kv-cache-dtype; " : "and without --kv-cache-dtype; ";
}

}  // namespace

std::string control_text(const ControlRequest& r) {
  const std::string own = r.model_type.empty() ? "bfloat16" : r.model_type;
  if (r.in_effect.quantized == Trait::No && r.scales_felt == Trait::No)
    return "another --attention-backend (the cache is not quantized already)";
  if (r.cache.server == Engine::LlamaCpp) return "--cache-type-k f16 --cache-type-v f16";
  if (r.cache.server == Engine::LmDeploy) return "--quant-policy 0";
  if (r.cache.declared == nullptr && r.cache.options_known && r.cache.asked.empty())
    return "the checkpoint without KV scales, if its config.json declares a cache (--kv-cache-dtype auto is in effect)";
  if (r.cache.declared == nullptr)
    return "a cache that is not quantized (--kv-cache-dtype auto; where config.json declares one, with the checkpoint "
           "without KV scales)";
  if (!r.cache.declared->declares_cache() && r.scales_felt != Trait::Yes)
    return r.cache.own_default ? "--kv-cache-dtype " + own : "--kv-cache-dtype auto";
  CacheRequest plain = r.cache;
  plain.asked = own;
  plain.logged.clear();
  // Where scales may be multiplied in all the same, another type is no comparison.
  const bool obeyed = cache_type(plain).quantized == Trait::No;
  const bool taken = has_cache_type(r.cache.server, r.cache.version, own) != Trait::No;
  if (r.scales_felt == Trait::No && obeyed && taken) return "--kv-cache-dtype " + own;
  return "the checkpoint without KV scales (" + without_option(r.cache, taken, own) + auto_too(r.cache) +
         std::string(!taken   ? "this version has no --kv-cache-dtype " + own + ")"
                     : obeyed ? "other types may apply its scales all the same)"
                              : "other types may not be obeyed)");
}

}  // namespace kvcal
