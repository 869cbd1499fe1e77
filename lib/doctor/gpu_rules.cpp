// B and F: what goes wrong on some GPUs only.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/letter_case.h"
#include "base/word_list.h"
#include "deployment/cache_choices.h"
#include "doctor/rules.h"

namespace kvcal {
namespace {

using enum Severity;
using enum Confidence;

bool has_capability(const Facts& f, int family) { return f.gpu->capability / 10 == family; }  // 12: 12.x

/// Of a variable as vLLM's envs.py reads those of AITER; most are on where nothing is said.
bool is_on(const Facts& f, std::string_view variable, std::string_view otherwise) {
  const std::string given = f.variable(variable);
  return has_word("true 1", lower_case(given.empty() ? otherwise : given));
}
bool uses_aiter(const Facts& f) { return is_on(f, "VLLM_ROCM_USE_AITER", "0"); }

std::string version_text(const Facts& f) { return f.version ? "vLLM " + str(*f.version) : "version unknown"; }

/// Where a quantized cache was reported to go wrong under CUDA graphs and to be right without.
struct BrokenGraphs {
  int from = 0, to = 0;  // capability; 0: AMD
  std::string_view backend = "", family = "", reported = "";
  EngineVersions versions = {};
};
constexpr std::array kBrokenGraphs = {
    BrokenGraphs{120, 130, "FLASHINFER", "", "vLLM 0.26 to 0.28, and FlashInfer 0.6.8: issues 41651, 54225, 54331"},
    BrokenGraphs{80, 90, "", "minimaxm3", "a fork of vLLM in August 2026: issue 50881"},
    BrokenGraphs{0, 1, "ROCM_AITER_MLA", "", "April 2026, Kimi-K2.5: changes 38719, 39444", {.until = {0, 20, 0}}},
};

Found broken_under_graphs(const Facts& f) {
  const int capability = f.gpu->capability;
  const auto line = std::ranges::find_if(kBrokenGraphs, [&](const BrokenGraphs& b) {
    const bool gpu = b.from == 0 ? f.gpu->rocm : capability >= b.from && capability < b.to;
    return gpu && b.versions.hold(f.version) && (b.backend.empty() || b.backend == backend_of(f)) &&
           f.model.family.find(b.family) != std::string::npos;
  });
  const bool broken = f.has_output || f.seen("LG74");
  if (line == kBrokenGraphs.end() || f.flag("enforce-eager") != nullptr || !broken) return {};
  return {true, std::string(line->reported)};
}

Found products_of_nvfp4(const Facts& f) {
  const bool nvfp4 = upper_case(f.checkpoint->declaration.weights).find("NVFP4") != std::string::npos;
  const int64_t width = f.model.intermediate / n_ranks(f);
  return {has_capability(f, 12) && nvfp4 && looks_broken(f) && lower_case(f.flag_value("linear-backend")) != "marlin",
          width % 32 == 0 ? "" : std::to_string(width) + " inputs per rank, no multiple of 32"};
}

// create_flashattention_v3_backend of SGLang 0.5.9 to 0.5.23, but on Moore Threads' GPUs.
bool fa3_on_other_gpu(const Facts& f) {
  const int family = f.gpu->capability / 10;
  const bool taken = family == 9 || (family == 8 && f.model.latent != Trait::Yes);
  const auto asks = [&](const char* option) { return f.flag_value(option) == "fa3"; };
  const bool here = (asks("attention-backend") && !replaces_fa3(f)) || asks("decode-attention-backend") ||
                    asks("prefill-attention-backend");
  return here && !f.gpu->rocm && family > 0 && !taken;
}

// support_deep_gemm of vLLM 0.33.0 and configurer.py of SGLang 0.5.23 leave out Thor (11.0).
Found uneven_blocks(const Facts& f) {
  const CheckpointFacts& c = *f.checkpoint;
  const bool off = f.variable("VLLM_USE_DEEP_GEMM") == "0" || f.variable("VLLM_USE_DEEP_GEMM_E8M0") == "0" ||
                   has_word("0 false", f.variable("SGLANG_ENABLE_JIT_DEEPGEMM"));
  const bool has_deep_gemm = has_capability(f, 10) || has_capability(f, 12);
  return {has_deep_gemm && c.declaration.block_weights && !c.uneven_block_scale.empty() && !off, c.uneven_block_scale};
}

constexpr std::string_view kCompare = "run the same prompt at temperature 0 with {control} and nothing else changed";

Found type_not_served(const Facts& f) {
  const std::string why = why_not_served(f.server, f.version, f.cache.name, place_of(f));
  if (why.empty()) return {};
  const EngineVersion newest = newest_known(f.server);
  std::string detail = f.cache_text() + ": " + why;
  if (!f.version) detail += ", in every version that has the type";
  if (f.version && why_not_served(f.server, newest, f.cache.name, place_of(f)).empty())
    detail += ", not in " + str(f.server, newest);
  return {true, detail};
}

// Of an option: what a log names was taken. Backends for MLA and those of other platforms take other types.
Found type_of_other_backend(const Facts& f) {
  const Flag* flag = backend_flag(f);
  const std::string_view only = only_backend(f.server, f.version, f.cache.name, place_of(f).gpu);
  const std::string asked = flag == nullptr ? "" : upper_case(named_backend(flag->value));
  const bool refused = !only.empty() && !asked.empty() && !asked.starts_with(only);
  return {refused && !has_platform_of_its_own(f), f.cache.name + " in " + std::string(only) + " alone"};
}

constexpr CombinationRule kRules[] = {
    {kNoHopperKernel,
     kFlags | kGpu | kVllm | kStaticFp8,
     [](const Facts& f) -> Found {
       return {f.gpu->capability == 90, version_text(f)};
     },
     "{backend} {gpu}",
     "FLASHINFER",
     {{0, 11, 0}, {0, 15, 0}}},
    {{"B23", Fatal, Established,
      "no cache of this type is served on this GPU, by this version or for this kind of model: the server refuses to "
      "start, or the first request ends it",
      "", "{fp8}, or {control}",
      "vllm 0.16.0 to 0.33.0 v1/attention/backends, config/vllm.py, platforms; sglang 0.5.16 to 0.5.23; vllm issue "
      "43562",
      Cause::FormatUnsupported, 9, "B08 LG26 LG79"},
     kFlags | kKnownServer | kQuantized | kAtRequest,
     type_not_served,
     "kv-cache-dtype {gpu}"},
    {{"B33", Fatal, Established, "another attention backend is the only one that takes a cache of this type", "",
      "the command without --attention-backend, or {fp8}",
      "vllm 0.20.0 to 0.33.0 v1/attention/backends, supported_kv_cache_dtypes; platforms/cuda.py",
      Cause::FormatUnsupported, 9, "LG79"},
     kFlags | kVllm | kQuantized,
     type_of_other_backend,
     "{backend}"},
    {{"B24", Error, Reported,
      "an NVFP4 cache decoded by trtllm_mha on consumer Blackwell: right with one request, garbage with several",
      "that this version does it: reported in July 2026 for the development branch", "{fp8}", "sglang issue 31641",
      Cause::KernelDefect, 5},
     kFlags | kGpu | kSglang | kQuantized,
     [](const Facts& f) {
       return has_capability(f, 12) && f.cache.name == "nvfp4" &&
              f.flag_value("decode-attention-backend") == "trtllm_mha";
     },
     "kv-cache-dtype decode-attention-backend {gpu}"},
    {{"B31", Warning, Reported,
      "a hybrid's NVFP4 cache read by TensorRT-LLM's kernels: empty answers were reported where FP8 was right",
      "that this version does it: reported for Qwen3.5-397B on B200 with a build of 0.28.1", "{fp8}, and compare",
      "vllm issue 55673, open", Cause::KernelDefect, 5},
     kFlags | kGpu | kVllm | kHybrid | kQuantized,
     [](const Facts& f) -> Found {
       const std::string backend = backend_of(f);
       return {has_capability(f, 10) && f.cache.name == "nvfp4" && (backend.empty() || backend == "FLASHINFER"),
               version_text(f)};
     },
     "kv-cache-dtype {gpu}"},
    {{"B19", Note, Reported,
      "with an FP8 cache on Hopper, FlashAttention 3 takes keys in tiles of 96 for one query and of 192 for many: "
      "log-probabilities of generated tokens differ from those of the same text read as a prompt, by more than in BF16",
      "that scales are wrong, or that answers get worse", "compare generated with generated, or prompt with prompt",
      "vllm issue 54035; sglang issue 25790"},
     kFlags | kGpu | kStaticFp8,
     [](const Facts& f) {
       return f.gpu->capability == 90 && has_word("FLASH_ATTN FLASH_ATTN_VLLM_V1 fa3", backend_of(f));
     },
     "{backend} {gpu}"},
    {{"F11", Fatal, Reported, "on AMD only the AITER backend takes an E5M2 cache of an MLA model",
      "that AITER is not in use: vLLM may choose it by itself", "--kv-cache-dtype fp8_e4m3, or VLLM_ROCM_USE_AITER=1",
      "vllm issue 52793; vllm 0.24.0 to 0.33.0 v1/attention/backends/mla", Cause::FormatUnsupported, 6},
     kFlags | kGpu | kVllm | kLatent,
     // ROCM_AITER_MLA lists fp8_e5m2, the other backends for MLA do not (0.24.0 to 0.33.0).
     [](const Facts& f) {
       const bool aiter = backend_of(f) == "ROCM_AITER_MLA" || uses_aiter(f);
       return f.gpu->rocm && !aiter && f.flag_value("kv-cache-dtype") == "fp8_e5m2" && !f.seen("LG28");
     },
     "kv-cache-dtype {gpu}"},
    {{"F17", Error, Reported, "the draft model's cache becomes FP8, too, which was reported to crash on this GPU",
      "that it crashes here: it was reported for one version, and the report is open",
      "--speculative-config '{..., \"kv_cache_dtype\": \"bfloat16\"}' (vLLM 0.26 has it), or no draft",
      "vllm issue 44879; vllm 0.33.0 config/speculative.py", Cause::FormatUnsupported, 5, "F41"},
     kFlags | kCheckpoint | kGpu | kVllm | kFp8,
     [](const Facts& f) -> Found {
       const std::string draft = f.flag_value("speculative-config");
       const bool own_type = f.flag("speculative-config") == nullptr || draft.find("kv_cache_dtype") != draft.npos;
       return {!own_type && f.gpu->capability == 89 && f.checkpoint->declaration.declares_cache(), version_text(f)};
     },
     "speculative-config {gpu}"},
    {{"B03", Fatal, Established,
      "Triton needs compute capability 8.9 for this FP8 cache: the server does not start, or the first request ends it",
      "", "{control}, or --attention-backend FLASHINFER",
      "vllm 0.33.0 v1/attention/backends/triton_attn.py, mla/triton_mla.py", Cause::FormatUnsupported, 8,
      "LG24 LG24b L10"},
     kFlags | kGpu | kFp8 | kAtRequest,
     // vLLM's writer stores E4M3 whichever FP8 type is asked for.
     [](const Facts& f) {
       const bool e4m3 = f.cache.one_scale == Trait::Yes || (f.is(Engine::Vllm) && f.cache.name == "fp8_e5m2");
       const bool triton = backend_of(f).starts_with("TRITON") || backend_of(f) == "triton";
       return triton && e4m3 && f.gpu->capability > 0 && f.gpu->capability < 89;
     },
     "{backend} {gpu}"},
    {{"B20", Fatal, Established, "no attention backend of vLLM takes this FP8 cache on this GPU", "",
      "{control}; on compute capability 7.5 vLLM 0.23 with --attention-backend FLASHINFER",
      "vllm 0.16.0 to 0.33.0 v1/attention/backends/flashinfer.py, triton_attn.py; vllm issue 47549",
      Cause::FormatUnsupported, 9, "B03 B23 LG24 LG24b L10"},
     kFlags | kGpu | kVllm | kStaticFp8 | kAtRequest,
     // Without a version it may be one of those that served such GPUs.
     [](const Facts& f) -> Found {
       const EngineVersion version = f.version.value_or(newest_known(Engine::Vllm));
       const std::string why = why_not_served(Engine::Vllm, version, f.cache.name, place_of(f));
       return {!why.empty() && f.gpu->capability > 0 && f.gpu->capability < 80, version_text(f), {}, !f.version};
     },
     "kv-cache-dtype {gpu}"},
    {{"B21", Warning, Reported,
      "a quantized cache and CUDA graphs: here random output or illegal accesses were reported, where runs without "
      "graphs were sound",
      "that this version does it",
      "--enforce-eager, then another --attention-backend, then {control}, and compare each",
      "vllm issues 41651, 50881, 54225, 54331, change 38719", Cause::KernelDefect, 6},
     kFlags | kGpu | kVllm | kQuantized,
     broken_under_graphs,
     "{backend} {gpu}"},
    {{"B28", Error, Reported,
      "with pages of this size the writer of the cache stores E4M3, and attention reads it as E5M2: other values",
      "that attention runs in ROCM_ATTN: the server's log says", "--kv-cache-dtype fp8_e4m3, or --block-size 16",
      "vllm 0.28.0 to 0.33.0 rocm_attn.py, triton_reshape_and_cache_flash.py; vllm change 54341", Cause::KernelDefect,
      8},
     kFlags | kGpu | kVllm | kQuantized,
     // ROCM_ATTN's native writer takes pages of 16 and 32 tokens; Triton's, which takes the others, stores E4M3
     // whatever was asked. MLA has backends and writers of its own.
     [](const Facts& f) -> Found {
       const std::string backend = backend_of(f), page = f.flag_value("block-size");
       const bool triton = !page.empty() && page != "16" && page != "32" && (backend.empty() || backend == "ROCM_ATTN");
       return {f.gpu->rocm && triton && f.cache.name == "fp8_e5m2" && f.model.latent != Trait::Yes, version_text(f)};
     },
     "kv-cache-dtype block-size {gpu}",
     "",
     {.since = {0, 28, 0}}},
    {{"B29", Error, Reported,
      "kernels that multiply NVFP4 weights were reported wrong on this GPU: garbage where Marlin was right",
      "that this version does it: reported for 0.17 and 0.25.1, where a rank's inputs are no multiple of 32, and for "
      "experts; anything about the KV cache",
      "--linear-backend marlin (vLLM 0.25 has it), or --enforce-eager, and compare",
      "vllm issue 48898, changes 38423, 48965; cutlass issue 3096", Cause::NotTheCache, 8, "W02"},
     kOutput | kCheckpoint | kGpu | kVllm,
     products_of_nvfp4,
     "tensor-parallel-size linear-backend {gpu}"},
    {{"B32", Warning, Reported,
      "AITER's all-reduce was reported to give wrong sums now and then: answers collapsed in the middle, and were "
      "right "
      "without it",
      "that this build does it: reported in August 2026 for GLM-5.2-FP8 on eight MI300X, with AITER 0.1.19",
      "VLLM_ROCM_USE_AITER_CUSTOM_AR=0, and compare", "aiter issue 4855, changes 4082, 4346", Cause::NotTheCache, 5},
     kFlags | kOutput | kGpu | kVllm,
     [](const Facts& f) {
       return f.gpu->gfx == "gfx942" && uses_aiter(f) && is_on(f, "VLLM_ROCM_USE_AITER_CUSTOM_AR", "1") &&
              n_ranks(f) > 1 && looks_broken(f);
     },
     "tensor-parallel-size {gpu}"},
    {{"B07", Fatal, Reported,
      "MI300's FP8 has another bias: sparse attention of this model was reported to read its cache as the other "
      "format, which doubles or halves every value",
      "that a build of your own has it: 0.24.0 is the first release that asks the platform", "vLLM 0.25 or later",
      "vllm changes 45681, 45720; vllm 0.24.0 models/deepseek_v4/common/ops/cache_utils.py", Cause::KernelDefect, 8},
     kFlags | kModel | kGpu | kVllm | kFp8 | kServing,
     // Sparse attention of DeepSeek-V3.2 and GLM asks the platform since 0.12.0, when it came.
     [](const Facts& f) -> Found {
       const std::string& family = f.model.family;
       const bool reported = family.find("deepseekv4") != family.npos || family.find("minimaxm3") != family.npos;
       return {f.gpu->gfx == "gfx942" && reported, version_text(f)};
     },
     "kv-cache-dtype {gpu}",
     "",
     {.until = {0, 24, 0}}},
    {{"B34", Fatal, Established,
      "SGLang's FlashAttention 3 runs on compute capability 8 and 9 alone, for MLA on 9: the server does not start", "",
      "flashinfer or triton in place of fa3", "sglang 0.5.9 to 0.5.23 layers/attention/attention_registry.py",
      Cause::NotTheCache, 9},
     kFlags | kGpu | kSglang,
     fa3_on_other_gpu,
     "attention-backend decode-attention-backend prefill-attention-backend {gpu}"},
    {{"B09", Warning, Reported,
      "DeepGEMM on this GPU takes powers of two as scales of weights; this checkpoint has others, which are rounded, "
      "or in some versions misread",
      "anything about the KV cache, or damage: reports go from 12 points of GSM8K to none",
      "VLLM_USE_DEEP_GEMM=0, or SGLANG_ENABLE_JIT_DEEPGEMM=0, and compare", "sglang issue 28662; vllm issue 38083",
      Cause::NotTheCache, 5},
     kTensors | kGpu,
     uneven_blocks,
     "{checkpoint} {gpu}"},
    {{"B10", Fatal, Established,
      "block-wise FP8 matrix products go wrong on this GPU with ROCm before 7.2: NaN for long prompts",
      "that ROCm is that old; anything about the KV cache", "ROCm 7.2 or later",
      "sglang 0.5.23 srt/layers/quantization/fp8_utils.py; sglang issue 28685", Cause::NotTheCache, 5},
     kCheckpoint | kGpu | kSglang | kServing,
     [](const Facts& f) { return f.gpu->gfx == "gfx950" && f.checkpoint->declaration.block_weights; },
     "{checkpoint} {gpu}"},
    {{"B11", Error, Reported, "FlashInfer's fa2 kernels were reported wrong for FP8 with keys of 192 and values of 128",
      "that this version has the fault: no version with a fix was found", kCompare, "flashinfer issue 4976",
      Cause::KernelDefect, 5},
     kFlags | kModel | kGpu | kFp8,
     // fa2 is FlashInfer's choice where neither Hopper's nor datacenter Blackwell's kernels exist.
     [](const Facts& f) {
       const bool fa2 = f.gpu->capability > 0 && (f.gpu->capability < 90 || f.gpu->capability >= 120);
       return fa2 && f.model.prefill_width_k == 192 && f.model.prefill_width_v == 128 &&
              (backend_of(f).starts_with("FLASHINFER") || backend_of(f).starts_with("flashinfer"));
     },
     "{backend} {gpu}"},
};

}  // namespace

std::span<const CombinationRule> gpu_rules() { return kRules; }

}  // namespace kvcal
