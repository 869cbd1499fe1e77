// C and S: the checkpoint, its quantization_config and its scales; and a scale file beside them.
#include <algorithm>
#include <array>

#include "check/artifact_checks.h"
#include "check/folder_checks.h"
#include "deployment/cache_choices.h"
#include "doctor/rules.h"
#include "servers/server_support.h"

namespace kvcal {
namespace {

using enum Severity;
using enum Confidence;

constexpr std::string_view kIsOneEnough =
    "kvcal calibrate {model} shows whether 1.0 is enough, kvcal evaluate {model} measures it on the whole model";
constexpr std::string_view kCompareAnswers =
    "kvcal evaluate {model} --generate compares the model's answers with those of a 16-bit cache";
constexpr std::string_view kInvalid = "calibrate again; kvcal validate EXPORT names every layer";

bool has(const Facts& f, std::string_view rule) { return !found_by(f, rule).empty(); }

// Without a scheme and without scale tensors nothing can arrive from this checkpoint.
Found no_scales_anywhere(const Facts& f) {
  const CheckpointFacts& c = *f.checkpoint;
  const bool given = f.flag("quantization-param-path") != nullptr && !f.is(Engine::Vllm);
  if (given || c.n_scales() > 0 || has(f, "C15") || uses_plugin(f)) return {};
  if (f.flag("calculate-kv-scales") != nullptr) return {};          // F01 to F04 say what becomes of that
  if (!c.has_tensors && c.declaration.declares_cache()) return {};  // the declared ones may be there
  if (c.fold && c.fold->n_left == 0 && !c.declaration.declares_cache()) return {};  // 1.0 is what they were folded for
  std::string detail = c.has_tensors ? "no scale tensors" : "config.json declares none";
  if (c.declaration.method.empty()) detail += ", no quantization_config: the server prints no warning";
  return {true, detail, {}, is_one_enough(f)};
}

// By export's table of servers, where that is about the version and the class. A config without quantization is C20's,
// and MLA in SGLang, where scales do arrive, C22's.
Found nowhere_to_load(const Facts& f) {
  if (f.checkpoint->n_scales() == 0 || f.checkpoint->declaration.method.empty() || uses_plugin(f)) return {};
  if (f.model.latent == Trait::Yes && f.is(Engine::Sglang)) return {};
  const std::optional<ServerSupport> support = support_of(f);
  if (!support || support->loads || !support->served) return {};
  return {true, f.model.architecture + ": " + support->why_not};
}

// flashattention_backend.py hands over the scales of layers that have parameters for them, loaded or not, whenever the
// option is not auto, and the kernel asserts that none comes with inputs other than FP8.
bool scales_of_half(const Facts& f) {
  const bool narrow = f.model.latent == Trait::No && f.model.head_dim > 0 && f.model.head_dim <= 256;
  if (!narrow || cache_request(f).asked.empty() || has_platform_of_its_own(f)) return false;
  const std::optional<ServerSupport> support = support_of(f);
  return support && support->loads;
}

Found key_bias(const Facts& f, std::string_view rule) {
  const CheckpointFacts& c = *f.checkpoint;
  return {has(f, rule) && cache_is_quantized(f) != Trait::No,
          c.largest_key_bias_name + " reaches " + std::to_string(static_cast<int>(c.largest_key_bias))};
}

Found heads_not_dealt(const Facts& f) {
  const int64_t heads = f.model.n_kv_heads, ranks = n_ranks(f);
  return {f.checkpoint->n_per_head != 0 && heads != 0 && !can_deal(heads, ranks),
          std::to_string(heads) + " heads, " + std::to_string(ranks) + " ranks"};
}

Found folded(const Facts& f) {
  const std::optional<FoldMark>& fold = f.checkpoint->fold;
  if (!fold || fold->n_left == 0) return {fold.has_value()};
  return {true, count(fold->n_left, "site") + (fold->n_left == 1 ? " still needs" : " still need") + " a scale file"};
}

/// What the version that was looked at does to the checkpoint, unless a plug-in brings the scales.
Found first_without_plugin(const Facts& f, std::string_view rule, std::string Finding::*of) {
  const auto all = found_by(f, rule);
  if (all.empty() || uses_plugin(f)) return {};
  return {true, all.front()->*of + ": " + all.front()->actual};
}

/// Scales that are there, and that a class drops while it serves a quantized cache.
Found dropped(const Facts& f, size_t n, std::string_view what) {
  return {n > 0 && cache_is_quantized(f) != Trait::No && !uses_plugin(f), count(n, "scale") + std::string(what)};
}

/// The first version that loads scales named .k_proj.k_scale into a class that joins its projections.
struct JoinedNames {
  Engine server;
  std::string_view architecture;
  EngineVersion since;
};
constexpr std::array kJoinedNames = {
    JoinedNames{Engine::Vllm, "MiniMaxM2ForCausalLM", {0, 19, 0}},
    JoinedNames{Engine::Sglang, "MiniMaxM2ForCausalLM", {0, 5, 10}},
};

Found joined_names_refused(const Facts& f) {
  const size_t n = f.checkpoint->n_of_projections;
  for (const JoinedNames& j : kJoinedNames)
    if (f.is(j.server) && f.model.architecture == j.architecture && n > 0 && f.before(j.since) == Trait::Yes)
      return {true, count(n, "scale") + " named .k_proj.k_scale or .v_proj.v_scale; " + str(f.server, j.since) +
                        " loads them"};
  return {};
}

Found no_class(const Facts& f) {
  const bool none = f.installed && is_listed(f.installed->architectures, f.model.architecture) == Trait::No;
  return {none && !f.model.architecture.empty(), std::string(name_of(f.server)) + ": no " + f.model.architecture};
}

constexpr Entry of_folder(std::string_view rule, Cause cause, int weight) {
  const Rule& r = rule_named(rule);
  const std::string_view fix = r.fix == rule_table::kExport ? kExport : r.fix;
  return entry_of(rule, Established, "", fix, "the check of kvcal validate", cause, weight);
}

constexpr CombinationRule kRules[] = {
    {entry_of("F08", Established, "damage: 1.0 is right wherever magnitudes stay below 448", kCalibrate,
              "vllm 0.33.0 layers/attention/attention.py", Cause::ScalesMissing, 4),
     kFlags | kCheckpoint | kStaticFp8, no_scales_anywhere, "{checkpoint}"},
    {entry_of("C15", Established, "", kExport, "vllm 0.33.0 filter_duplicate_safetensors_files", Cause::ScalesNotLoaded,
              9),
     kTensors},
    {{"C20", Fatal, Established, "scale tensors without a quantization_config: vLLM 0.25 and later refuse the folder",
      "", kExport, "vllm 0.33.0 models/utils.py, by running it", Cause::ScalesRefused, 7},
     kTensors,
     [](const Facts& f) -> Found {
       const CheckpointFacts& c = *f.checkpoint;
       return {c.n_scales() > 0 && c.declaration.method.empty() && !f.is(Engine::Sglang),
               count(c.n_scales(), "scale tensor") + ", no quantization_config"};
     },
     "{checkpoint}"},
    {entry_of("V02", Established, "damage: the server then uses 1.0, which is right wherever magnitudes stay below 448",
              "the plug-ins of docs/plugins.md set them (--load-format kv_cache_scales); kvcal fold puts them into the "
              "weights of the model without scales, where those allow it",
              "vllm 0.33.0, sglang 0.5.23, by running or reading their loaders", Cause::ScalesNotLoaded, 8),
     kTensors | kKnownServer, nowhere_to_load, "{checkpoint}"},
    {{"C24", Error, Reported, "vLLM's Qwen3.5 classes do not load the KV scales of a checkpoint: the server uses 1.0",
      "damage: 1.0 is right wherever magnitudes stay below 448; reported for 0.27.1; versions up to 0.32 were not "
      "checked",
      "vLLM 0.33.0, which loads them, or the plug-in that comes with kvcal: --load-format kv_cache_scales",
      "vllm issue 54623; 0.33.0 by running its loader", Cause::ScalesNotLoaded, 9, "L08 LG2"},
     kTensors | kVllm,
     [](const Facts& f) -> Found {
       const bool here = f.model.architecture.starts_with("Qwen3_5") && has_own_scales(f);
       return here ? dropped(f, f.checkpoint->n_scales(), "") : Found{};
     },
     "{checkpoint}",
     "",
     {.until = {0, 33, 0}}},
    {{"C26", Error, Established,
      "before 0.5.19 SGLang drops the KV scales of compressed-tensors checkpoints: every layer has 1.0",
      "damage: 1.0 is right wherever magnitudes stay below 448", "SGLang 0.5.19 or later",
      "sglang 0.5.8 to 0.5.18 compressed_tensors.py; sglang change 35455", Cause::ScalesNotLoaded, 9, "LG60 LG60q L08"},
     kTensors | kSglang,
     // From 0.5.19 on the scheme makes parameters for scales.
     [](const Facts& f) -> Found {
       const CheckpointFacts& c = *f.checkpoint;
       return c.declaration.is_compressed_tensors() ? dropped(f, c.n_scales() - c.n_unit, " other than 1.0") : Found{};
     },
     "{checkpoint}",
     "",
     {.until = {0, 5, 19}}},
    {{"C25", Error, Established,
      "before 0.18 vLLM's Qwen3-MoE class drops KV scales of the fused projection, without a word: the server uses 1.0",
      "damage: 1.0 is right wherever magnitudes stay below 448",
      "vLLM 0.18 or later, or the plug-in that comes with kvcal: --load-format kv_cache_scales",
      "vllm 0.10.2 to 0.17.1 models/qwen3_moe.py; vllm issue 25047", Cause::ScalesNotLoaded, 8},
     kTensors | kVllm,
     [](const Facts& f) -> Found {
       const bool moe = f.model.architecture == "Qwen3MoeForCausalLM";
       return moe ? dropped(f, f.checkpoint->n_fused, " named .qkv_proj.k_scale or v_scale") : Found{};
     },
     "{checkpoint}",
     "",
     {.until = {0, 18, 0}}},
    {{"C28", Warning, Established, "the installed server has no class of its own for this architecture",
      "that it refuses the model: servers may fall back on the code of transformers, or a plug-in may bring the class",
      "a version of the server that has the class", "the registry of the installed server", Cause::None, 0},
     kCheckpoint | kKnownServer,
     no_class,
     "{checkpoint}"},
    {{"C27", Fatal, Established,
      "this class joins its projections and looks for the scales' names there: KeyError '...qkv_proj.k_scale', and the "
      "server does not start",
      "that the scales are wrong", "a version of the server that loads them, or the checkpoint without KV scales",
      "vllm 0.12.0 to 0.18.0, sglang 0.5.9 models/minimax_m2.py; vllm change 37214, sglang change 20870",
      Cause::ScalesRefused, 9, "LG36"},
     kTensors | kKnownServer,
     joined_names_refused,
     "{checkpoint}"},
    {entry_of("V01", Established, "", kExport, "the server's own loading code, run or read", Cause::ScalesRefused, 8),
     kCheckpoint | kKnownServer, [](const Facts& f) { return first_without_plugin(f, "V01", &Finding::what); },
     "{checkpoint}"},
    {{"C22", Error, Established,
      "SGLang writes an MLA cache without dividing by the scale and multiplies when it reads",
      "anything of other attention backends: flashinfer and fa3 multiply by none, and triton divides, too, since "
      "0.5.12",
      "serve this model with scales of 1.0 in SGLang; where 1.0 is not right, kvcal fold makes it so",
      "sglang 0.5.23 memory_pool.py; issue 34765", Cause::LatentAttention, 9},
     kTensors | kSglang | kLatent | kMisread,
     [](const Facts& f) -> Found {
       const size_t n = f.checkpoint->n_scales() - f.checkpoint->n_unit;
       return {n > 0 && cache_is_quantized(f) != Trait::No, count(n, "scale") + " other than 1.0"};
     },
     "{checkpoint}"},
    {entry_of("C05", Established, "", kExport, "vllm change 37054", Cause::LatentAttention, 7), kTensors},
    {entry_of("C08", Established, "", kExport, "vllm 0.33.0 layers/attention/attention.py; vllm issue 49262",
              Cause::ScalesInvalid, 8),
     kTensors},
    {entry_of("C10", Established, "that anything is wrong", "", "vllm 0.33.0 model_executor/models/config.py"),
     kCheckpoint, [](const Facts& f) { return f.model.head_widths_differ == Trait::Yes; }, "{checkpoint}"},
    {entry_of("C14", Inferred, "anything about the KV cache: these are scales of the weights' inputs",
              "quantize the weights again", "", Cause::NotTheCache, 6),
     kTensors},
    {{"F25", Error, Reported,
      "generation_config.json asks transformers for a low-bit cache, and this model's keys have a bias: every answer "
      "of Qwen2.5 was reported broken",
      "that a server reads it: vLLM and SGLang do not", "remove \"cache_implementation\" from generation_config.json",
      "transformers issue 35185", Cause::KeyOutliers, 6},
     kTensors,
     [](const Facts& f) -> Found {
       const CheckpointFacts& c = *f.checkpoint;
       return {c.quantized_cache && c.largest_key_bias > 0, c.largest_key_bias_name};
     },
     "{checkpoint}"},
    {{"B30", Fatal, Inferred,
      "with a 16-bit type that is written out fa4 is handed the KV scales of each layer, loaded or 1.0, and asserts "
      "that "
      "none comes with 16-bit inputs: the first decode step stops the server",
      "", "another --attention-backend, or the command without --kv-cache-dtype",
      "sglang 0.5.23 flashattention_backend.py, flash_attn/cute/interface.py: read, not run", Cause::FormatUnsupported,
      9, "W01 C18"},
     kFlags | kCheckpoint | kSglang | kPlain | kAtRequest,
     scales_of_half,
     "{backend}",
     "fa4",
     {{0, 5, 23}, {0, 5, 24}}},
    {entry_of("C11", Established, "", "{export per tensor}", "vllm 0.33.0 v1/attention/backend.py"), kCheckpoint,
     // A server that runs with FlashAttention takes them.
     [](const Facts& f) -> Found {
       return {has(f, "C11") && !f.backend.starts_with("FLASH_ATTN"),
               f.backend.empty() ? "" : "backend in the log: " + f.backend};
     },
     "{checkpoint}"},
    {entry_of("C12", Inferred, "", kExport, "vllm 0.33.0 torch_utils.py; sglang 0.5.23", Cause::ScalesNotLoaded, 3),
     kCheckpoint},
    {entry_of("C29", Established, "", kCalibrate,
              "vllm 0.33.0 torch_utils.py get_kv_cache_quant_algo_string; sglang 0.5.23 kv_cache_dtype.py",
              Cause::FormatUnsupported, 6),
     kCheckpoint},
    {entry_of("C13", Established,
              "that activation scales were absorbed, or that their quantization should be switched off", "",
              "compressed-tensors quant_scheme.py FP8_BLOCK"),
     kTensors},
    {entry_of("C17", Established, "", kExport, "vllm 0.33.0, by running it", Cause::ScalesNotLoaded, 5), kTensors},
    {{"C18", Note, Established, "the checkpoint's scales are not used: the cache is not quantized", "", "",
      "vllm 0.33.0 layers/attention/attention.py"},
     kFlags | kCheckpoint | kPlain,
     [](const Facts& f) {
       const bool any = f.checkpoint->declaration.declares_cache() || f.checkpoint->n_scales() > 0;
       return any && f.scale_use == ScaleUse::Nowhere;
     },
     "{checkpoint}"},
    {entry_of("S01", Established, "", kInvalid, "vllm loads them without a warning", Cause::ScalesInvalid, 9),
     kTensors},
    {entry_of("S02", Established, "", kInvalid, "llm-compressor 1928, 2853; vllm loads them without a warning",
              Cause::ScalesInvalid, 9),
     kTensors},
    {entry_of("S03", Established, "", kInvalid, "compressed-tensors helpers.py", Cause::ScalesInvalid, 9), kTensors},
    {entry_of("S26", Computed, "", "kvcal validate {model} --scales FILE compares with what was measured",
              "the largest bfloat16, 3.4e38, over the smallest largest FP8 value, 240", Cause::ScalesInvalid, 8),
     kTensors},
    {entry_of("S06", Established, "", kExport, "vllm 0.33.0 kv_cache.py", Cause::ScalesInvalid, 7), kTensors},
    {entry_of("S08", Established, "that they were not measured, or that they are wrong", kIsOneEnough, "modelopt 20"),
     kTensors, [](const Facts& f) { return has(f, "S08") && cache_is_quantized(f) != Trait::No; }, "{checkpoint}"},
    {{"S08b", Note, Established, "all scales are 1.0, as ModelOpt writes them wherever 448 is enough",
      "that they were not measured", kIsOneEnough, "modelopt 20"},
     kTensors,
     [](const Facts& f) {
       const CheckpointFacts& c = *f.checkpoint;
       return c.n_scales() > 0 && c.n_unit == c.n_scales() && c.declaration.is_modelopt() &&
              cache_is_quantized(f) != Trait::No;
     },
     "{checkpoint}"},
    {entry_of("C02", Computed, "that this breaks outputs", "{control}, or keep these layers in bf16",
              "vllm change 11906: Qwen2-7B", Cause::KeyOutliers, 7),
     kTensors, [](const Facts& f) { return key_bias(f, "C02"); }, "{checkpoint}"},
    {entry_of("C03", Computed, "that this breaks outputs", kCompareAnswers, "vllm change 11906", Cause::KeyOutliers, 4),
     kTensors, [](const Facts& f) { return has(f, "C02") ? Found{} : key_bias(f, "C03"); }, "{checkpoint}"},
    {{"C02b", Warning, Reported, "this family has key biases; some of its models lose badly with an FP8 cache",
      "that this model does", "kvcal doctor --model {model} reads the biases", "vllm change 11906; Qwen3 issue 840",
      Cause::KeyOutliers, 4},
     kFlags | kModel | kFp8,
     [](const Facts& f) -> Found {
       const bool measured = f.checkpoint && f.checkpoint->has_tensors;
       return {!measured && f.model.key_bias == Trait::Yes, f.model_path};
     }},
    {entry_of("S18", Established, "", "another --tensor-parallel-size, or {export per tensor}",
              "vllm 0.33.0 compressed_tensors.py: total_num_kv_heads", Cause::ScalesRefused, 8),
     kTensors | kFlags, heads_not_dealt, "{checkpoint}"},
    // Of these doctor knows no more than validate.
    {of_folder("N01", Cause::ScalesInvalid, 8), kTensors},
    {of_folder("S07", Cause::ScalesStale, 5), kTensors},
    {of_folder("S17", Cause::ScalesInvalid, 7), kTensors},
    {of_folder("S19", Cause::ScalesInvalid, 7), kTensors},
    {of_folder("S20", Cause::ScalesInvalid, 7), kTensors},
    {of_folder("S21", Cause::ScalesInvalid, 6), kTensors},
    {of_folder("C01", Cause::KeyOutliers, 6), kTensors},
    {of_folder("C16", Cause::ScalesRefused, 7), kTensors,
     [](const Facts& f) { return first_without_plugin(f, "C16", &Finding::path); }, "{checkpoint}"},
    {of_folder("C21", Cause::None, 0), kTensors},
    {of_folder("C23", Cause::ScalesRefused, 6), kTensors},
    {entry_of("X01", Established, "that its weights are wrong", "kvcal fold ORIGINAL --stats run.kvstats -o {model}",
              ""),
     kTensors},
    {entry_of("X02", Established, "which weights these are", "kvcal fold ORIGINAL --stats run.kvstats -o {model}", "",
              Cause::ScalesStale, 6),
     kTensors},
    {entry_of("X03", Established, "that anything is wrong: at scale 1.0 its cache lies inside the format's range", "",
              ""),
     kTensors, folded, "{checkpoint}"},
};

}  // namespace

std::span<const CombinationRule> checkpoint_rules() { return kRules; }

}  // namespace kvcal
