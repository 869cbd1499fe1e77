// B: attention backends and versions of servers that are known to go wrong.
#include <algorithm>
#include <array>

#include "base/letter_case.h"
#include "doctor/rules.h"

namespace kvcal {
namespace {

using enum Severity;
using enum Confidence;

Found head_width(const Facts& f) {
  for (const int64_t width : {f.model.head_dim, f.model.global_head_dim})
    if (width > 0 && f.model.latent == Trait::No && !flashinfer_takes_heads(f.version, width))
      return {true, std::to_string(width) + " wide"};
  return {};
}

// Of a checkpoint without scales nothing is lost. Model runner V2, the default of most dense models since 0.24, only
// makes its tables of blocks anew (worker/gpu/model_runner.py post_kv_cache_wake_up).
Found sleeping(const Facts& f) {
  const bool has_none = f.checkpoint && f.checkpoint->has_tensors && !has_calibrated_scales(f);
  const std::string second = f.variable("VLLM_USE_V2_MODEL_RUNNER");
  return {.holds = f.flag("enable-sleep-mode") != nullptr && !has_none && second != "1",
          .is_hint = !has_calibrated_scales(f) || (second != "0" && f.before({0, 24, 0}) != Trait::Yes)};
}

Found cache_not_quantized(const Facts& f) {
  return {f.scale_use == ScaleUse::Nowhere || f.scale_use == ScaleUse::Both, f.cache_text()};
}

// Of stops that were reported or inferred alone it is no surprise that they did not happen.
Found refuted_stops(const Facts& f) {
  Found found = {.is_hint = true};
  for (const auto rules : rule_tables())
    for (const CombinationRule& rule : rules) {
      if (!is_refuted(rule, f) || applies(rule, f).all != Trait::Yes) continue;
      const Found stop = found_by_rule(rule, f);
      if (!stop.holds) continue;
      found.detail += (found.holds ? ", " : "") + std::string(rule.entry.id);
      found.holds = true;
      found.is_hint &= rule.entry.confidence != Established || stop.is_hint;
    }
  return found;
}

// vLLM and SGLang say "cuda" of AMD's GPUs as well; llama.cpp's --device names one of several.
Found uncovered_hardware(const Facts& f) {
  std::string device = f.platform.empty() ? lower_case(f.flag_value("device")) : f.platform;
  if (device.empty() && backend_of(f) == "intel_xpu") device = "xpu";
  const bool covered = device.empty() || device == "auto" || device == "rocm" || device.starts_with("cuda");
  return {(f.is(Engine::Vllm) || f.is(Engine::Sglang)) && !covered, device};
}

// What takes blocks of the cache elsewhere and back can break them, whatever their type.
bool hands_blocks_over(const Facts& f) {
  return std::ranges::any_of(std::array{"kv-transfer-config", "kv-offloading-size", "enable-hierarchical-cache",
                                        "enable-lmcache", "disaggregation-mode"},
                             [&](const char* name) { return f.flag(name) != nullptr && f.flag_value(name) != "null"; });
}

Found packed_layout_of_lmcache(const Facts& f) {
  const std::string config = f.flag_value("kv-transfer-config");
  // Of config/vllm.py: LMCacheMPConnector.
  const bool by_size = f.flag_value("kv-offloading-backend") == "lmcache" && f.flag("kv-offloading-size") != nullptr;
  const bool apart = (by_size || config.find("LMCacheMP") != std::string::npos) && f.model.hybrid == Trait::Yes;
  return {apart || config.find("LMCacheConnector") != std::string::npos, "vLLM " + str(*f.version)};
}

constexpr CombinationRule kRules[] = {
    {{"B04", Fatal, Established,
      "CUTLASS_MLA takes an FP8 cache only with scales of 1.0, and stops at the first other one",
      "that scales other than 1.0 are loaded", "--attention-backend FLASHMLA, FLASHINFER_MLA or TRITON_MLA",
      "vllm 0.33.0 mla/cutlass_mla.py", Cause::LatentAttention, 6},
     kFlags | kVllm | kStaticFp8 | kAtRequest,
     always,
     "{backend}",
     "CUTLASS_MLA"},
    {{"B15", Fatal, Established, "FLASH_ATTN_MLA takes no quantized cache", "",
      "--attention-backend FLASHMLA, FLASHINFER_MLA or TRITON_MLA", "vllm 0.33.0 mla/flashattn_mla.py",
      Cause::LatentAttention, 8},
     kFlags | kVllm | kQuantized,
     always,
     "{backend}",
     "FLASH_ATTN_MLA"},
    {kHeadWidth, kFlags | kCheckpoint | kVllm, head_width, "attention-backend", "FLASHINFER", {.since = {0, 10, 2}}},
    {{"F18", Error, Established, "waking from sleep sets KV scales to 1.0, whatever was loaded",
      "that the server has slept since it started, or that model runner V1 serves the model: V2 leaves scales alone",
      "do not use sleep mode with scales, or vLLM 0.29 or later",
      "vllm 0.12.0 to 0.28.0 gpu_model_runner.py init_fp8_kv_scales", Cause::ScalesStale, 4},
     kFlags | kVllm | kStaticFp8,
     sleeping,
     "enable-sleep-mode",
     "",
     {{0, 12, 0}, {0, 29, 0}}},
    {{"C07", Warning, Established,
      "FP8 decode kernels for MLA are made for 16, 64 or 128 heads per rank; others are padded or folded, in some "
      "builds wrongly",
      "that this build is wrong",
      "compare one prompt with {control}, with --attention-backend TRITON_MLA, and with another --tensor-parallel-size",
      "vllm issues 46952, 38652, change 51011; sglang 22372", Cause::LatentAttention, 3},
     kFlags | kLatent | kFp8,
     [](const Facts& f) -> Found {
       const int64_t heads = f.model.n_heads / n_ranks(f);
       const bool native = f.model.n_heads == 0 || heads == 16 || heads == 64 || heads == 128;
       return {!native, std::to_string(heads) + " heads per rank"};
     },
     "kv-cache-dtype tensor-parallel-size"},
    {{"B16", Error, Reported,
      "broken output of an MLA model with an FP8 cache: reported for some backends, unexplained",
      "that scales are the cause: at 1.0 on both sides they cannot be, and MLA with FP8 works elsewhere",
      "compare one prompt with {control} and with another --attention-backend, same length", "vllm issue 38652, open",
      Cause::LatentAttention, 6},
     kFlags | kLatent | kFp8,
     looks_broken,
     "{backend}"},
    {{"F13", Error, Established,
      "scales of the checkpoint are multiplied into attention although the cache is not quantized and nothing was "
      "divided by them: garbage",
      "that a quantized cache would be wrong here, too",
      "serve the checkpoint without KV scales, or with the cache that it declares: as it is this is no comparison",
      "sglang 0.5.8 to 0.5.23 flashinfer_backend.py, triton_backend.py; vllm 0.8.5 to 0.33.0 kv_cache.py, "
      "compressed_tensors.py, v1/attention/backends/flashinfer.py",
      Cause::KernelDefect, 9},
     kFlags | kTensors | kKnownServer | kPlain,
     [](const Facts& f) { return f.scale_use == ScaleUse::ReadAlone; },
     "{backend}"},
    {{"B17", Error, Established,
      "what the cache stores is divided by the checkpoint's scales, and in this version the attention backend reads it "
      "without them: garbage",
      "", "vLLM 0.22 or later, or --attention-backend FLASH_ATTN on a Hopper",
      "vllm changes 39418, 34863 (FlashInfer with compressed-tensors before 0.20), 42080 (Triton, 0.10.2 to before "
      "0.22)",
      Cause::KernelDefect, 9},
     kFlags | kTensors | kVllm | kQuantized,
     [](const Facts& f) { return f.scale_use == ScaleUse::WrittenAlone && has_own_scales(f); },
     "{backend}"},
    {{"B01", Warning, Established,
      "FP8 attention on Hopper loses long contexts: 91 to 13 percent of needles at 128k in 0.10.2",
      "that the GPU is a Hopper, or that this version is bad: 0.10.2 was, 0.19.1 is not", "vLLM 0.19.1 or later",
      "vLLM blog of 2026-04-22; flash-attention change 104", Cause::KernelDefect, 4},
     kFlags | kVllm | kStaticFp8,
     [](const Facts& f) { return std::atoll(f.flag_value("max-model-len").c_str()) > 32768; },
     "{backend}",
     "FLASH_ATTN FLASH_ATTN_VLLM_V1",
     {.until = {0, 19, 1}}},
    {{"B22", Error, Reported,
      "scales per token and head, and layers whose heads differ in width: up to 0.25.1 scales were reported to be read "
      "from wrong places, in 0.26 wrong pieces in sound answers, with prefix caching while the cache was full, without "
      "it among the first tokens",
      "that this version does it", "{control}, and compare; up to 0.25.1 a later vLLM, too",
      "vllm issues 49716, 50702, 50749; change 44455, and 51091 of layers that share another's cache",
      Cause::KernelDefect, 8},
     kFlags | kVllm | kQuantized,
     // Where layers differ in width, scales of one lie where those of another are looked for.
     [](const Facts& f) -> Found {
       return {f.cache.name.ends_with("_per_token_head") && f.model.head_widths_differ == Trait::Yes,
               f.version ? "vLLM " + str(*f.version) : "",
               {},
               f.before({0, 25, 2}) != Trait::Yes};
     },
     "kv-cache-dtype"},
    {{"B27", Error, Established,
      "the V1 engine of vLLM 0.7 stores an FP8 cache and hands it to a kernel that is told neither type nor scales: "
      "garbage",
      "", "vLLM 0.8 or later, or VLLM_USE_V1=0",
      "vllm 0.7.1, 0.7.3 v1/attention/backends/flash_attn.py; vllm issue 13133", Cause::KernelDefect, 9},
     kFlags | kVllm | kFp8,
     [](const Facts& f) -> Found {
       return {f.variable("VLLM_USE_V1") == "1", "VLLM_USE_V1=1, vLLM " + str(*f.version)};
     },
     "kv-cache-dtype",
     "",
     {{0, 7, 1}, {0, 8, 0}}},
    {{"B26", Warning, Reported,
      "sparse attention of an MLA model: with a cache in 16 bits nonsense was reported where FP8 was sound",
      "that this version does it: reported for GLM-5.1 with a build of 0.22 on H200", "{fp8}, and compare",
      "vllm issue 44550", Cause::KernelDefect, 4},
     kFlags | kOutput | kVllm | kPlain | kLatent,
     [](const Facts& f) { return f.model.sparse == Trait::Yes && f.model.latent == Trait::Yes; },
     "{backend}"},
    {{"B05", Error, Established, "before 0.5.10 the Triton backend of SGLang did not apply KV scales", "",
      "SGLang 0.5.10 or later, or another --attention-backend",
      "sglang 0.5.9 has no k_scale in triton_backend.py, 0.5.10 has; change 18882", Cause::KernelDefect, 8},
     kFlags | kTensors | kSglang | kStaticFp8,
     has_own_scales,
     "{backend}",
     "triton",
     {.until = {0, 5, 10}}},
    {{"B05b", Error, Established,
      "SGLang's trtllm_mha casts queries to FP8 without a scale: a drop in quality was reported",
      "that queries exceed 448, or are tiny; 0.5.18 to 0.5.23 do it, too", "another --attention-backend",
      "sglang 0.5.13, 0.5.18 to 0.5.23 trtllm_mha_backend.py: q_scale = 1.0; change 28144, issue 26518",
      Cause::KernelDefect, 5},
     kFlags | kSglang | kStaticFp8,
     always,
     "{backend}",
     "trtllm_mha",
     {.until = {0, 5, 14}}},
    {{"B08", Error, Reported,
      "an NVFP4 cache and recurrent state overlapped on consumer Blackwell: every other request is '!'",
      "that this GPU is one of them", "{fp8}", "vllm issues 46329, 49818, 49011", Cause::KernelDefect, 6},
     kFlags | kVllm | kHybrid | kQuantized,
     [](const Facts& f) { return f.cache.name.starts_with("nvfp4") && !(f.gpu && f.gpu->capability / 10 != 12); },
     "kv-cache-dtype"},
    {{"B18", Note, Reported,
      "a hybrid: its recurrent state is not quantized and sets the size of vLLM's pages, so that an FP8 cache holds "
      "less than twice the tokens: 1.84 times as many at 32k tokens, as many at short contexts",
      "the gain of this model", "kvcal plan {model} --gpu-memory SIZE estimates it",
      "vllm issue 55196: vLLM's own accounting on an A10G"},
     kFlags | kVllm | kHybrid | kFp8,
     always,
     "kv-cache-dtype"},
    {{"W01", Note, Established, "the KV cache is not quantized here: its scales cannot be what is wrong", "", "",
      "options of the serve command"},
     kFlags | kPlain,
     cache_not_quantized,
     "kv-cache-dtype"},
    {{"W03", Note, Established,
      "the KV cache is not quantized; whether this server applies the checkpoint's scales to it all the same is not "
      "known",
      "that the cache is fine", "give --model MODEL, --server NAME@VERSION and the attention backend: some apply them",
      "sglang 0.5.8 to 0.5.23 flashinfer_backend.py, triton_backend.py; vllm 0.33.0 "
      "v1/attention/backends/flashinfer.py"},
     kFlags | kPlain,
     [](const Facts& f) -> Found {
       return {f.scale_use == ScaleUse::Unknown, f.cache_text()};
     },
     "kv-cache-dtype"},
    {{"W04", Warning, Established, "the inputs describe different caches: they are not from one run", "",
      "give the log of this command alone", "options of the serve command; the server's log"},
     kLog,
     // Of one run both cannot be.
     [](const Facts& f) -> Found {
       return {f.cache.contradicted, f.cache.open};
     },
     "kv-cache-dtype"},
    {{"W05", Warning, Established,
      "by these inputs the server stops, or was reported to, but the log or an answer shows that it ran: they are not "
      "of one run, or this build does not stop",
      "which of them is so", "give what is of one run; kvcal explain ID says what would stop it", "the findings named"},
     0,
     refuted_stops},
    {{"W06", Note, Established,
      "this program knows little of this hardware: to find nothing says less here than on NVIDIA's and AMD's GPUs",
      "that the cache is fine: serve once with one in 16 bits, and compare", "", "server's log or command"},
     0,
     uncovered_hardware,
     "device attention-backend"},
    {{"F40", Error, Reported,
      "LMCache misreads how vLLM lays out keys and values since 0.26: what it hands back is wrong, without an error, "
      "whatever the cache's type",
      "that this LMCache does: reported for 0.5.2 to 0.5.4, and in a process of its own (LMCacheMPConnector) for "
      "hybrids alone",
      "serve without --kv-transfer-config and --kv-offloading-backend, and compare the same prompts",
      "LMCache issues 4463, 4247; dynamo issue 14416", Cause::CacheTransfer, 8},
     kFlags | kVllm,
     packed_layout_of_lmcache,
     "kv-transfer-config kv-offloading-backend",
     "",
     {.since = {0, 26, 0}}},
    {{"W02", Warning, Inferred,
      "output is broken although the KV cache is not quantized: look at the weights' format, the attention backend and "
      "tensor parallelism",
      "which of them it is; FP8_BLOCK weights without input_scale are right",
      "compare one prompt with another --attention-backend, with --tensor-parallel-size 1, and with unquantized "
      "weights",
      "vllm issue 39407: with every weight dequantized the same garbage", Cause::NotTheCache, 7},
     kFlags | kPlain,
     [](const Facts& f) -> Found {
       return looks_broken(f) && !hands_blocks_over(f) ? cache_not_quantized(f) : Found{};
     },
     "kv-cache-dtype"},
};

}  // namespace

std::span<const CombinationRule> server_rules() { return kRules; }

}  // namespace kvcal
