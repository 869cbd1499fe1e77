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

// support_deep_gemm of vLLM 0.33.0 and configurer.py of SGLang 0.5.23 leave out Thor (11.0).
bool has_deep_gemm_of_blackwell(const Gpu& gpu) { return gpu.capability / 10 == 10 || gpu.capability / 10 == 12; }

/// The options, and the GPU with where that was said.
Found on_gpu(const Facts& f, Found found, const std::string& detail = "") {
  found.detail = f.gpu->name + (detail.empty() ? "" : "; " + detail);
  found.evidence.push_back(f.gpu_from);
  return found;
}

/// Of a variable as vLLM's envs.py reads those of AITER; most are on where nothing is said.
bool is_on(const Facts& f, std::string_view variable, std::string_view otherwise) {
  const std::string given = f.variable(variable);
  return has_word("true 1", lower_case(given.empty() ? otherwise : given));
}
bool uses_aiter(const Facts& f) { return is_on(f, "VLLM_ROCM_USE_AITER", "0"); }

std::string version_text(const Facts& f) { return f.version ? "vLLM " + str(*f.version) : "version unknown"; }

// ROCM_AITER_MLA lists fp8_e5m2, the other backends for MLA do not (0.24.0 to 0.33.0).
Found e5m2_on_rocm(const Facts& f) {
  const bool aiter = backend_of(f) == "ROCM_AITER_MLA" || uses_aiter(f);
  const bool here = f.gpu->rocm && !aiter && f.flag_value("kv-cache-dtype") == "fp8_e5m2" && !f.seen("LG28");
  return here ? on_gpu(f, found_in_flags(f, {"kv-cache-dtype"})) : Found{};
}

Found draft_on_ada(const Facts& f) {
  const bool draft = f.flag("speculative-config") != nullptr &&
                     f.flag_value("speculative-config").find("kv_cache_dtype") == std::string::npos;
  const bool here = draft && f.gpu->capability == 89 && f.checkpoint->has_kv_scheme;
  return here ? on_gpu(f, found_in_flags(f, {"speculative-config"}), version_text(f)) : Found{};
}

// The kernel's source is in the wheels. By how many powers of two P may lag behind in FP8, beside an offset of 8: 4 in
// 0.23.0 to 0.26.0, but 0 in 0.20.0, 0.75 in 0.28.0 and 0.29.0, 0 from 0.30.0 on.
Found saturating_probabilities(const Facts& f) {
  constexpr EngineVersion kFrom = {0, 23, 0}, kFixed = {0, 28, 0};
  const std::string backend = backend_of(f);
  const bool flash =
      backend == "FLASH_ATTN" || f.flag_value("attention-config").find("FLASH_ATTN") != std::string::npos;
  const bool here = flash && f.gpu->capability >= 100 && f.gpu->capability < 110 && f.before(kFrom) != Trait::Yes &&
                    f.before(kFixed) != Trait::No;
  return here ? on_gpu(f, found_with_backend(f), version_text(f)) : Found{};
}

// vLLM's writer stores E4M3 whichever FP8 type is asked for.
Found triton_before_ada(const Facts& f) {
  const std::string backend = backend_of(f);
  const bool e4m3 = f.cache.one_scale == Trait::Yes;
  const bool e5m2 = f.is(Engine::Vllm) && f.cache.name == "fp8_e5m2";
  const bool triton = (backend.starts_with("TRITON") || backend == "triton") && (e4m3 || e5m2);
  const bool here = triton && f.gpu->capability > 0 && f.gpu->capability < 89;
  return here ? on_gpu(f, found_with_backend(f)) : Found{};
}

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
  const bool here = line != kBrokenGraphs.end() && f.flag("enforce-eager") == nullptr && broken;
  return here ? on_gpu(f, found_with_backend(f), std::string(line->reported)) : Found{};
}

// ROCM_ATTN's native writer takes pages of 16 and 32 tokens; Triton's, which takes the others, stores E4M3 whatever was
// asked. MLA has backends and writers of its own.
Found e4m3_read_as_e5m2(const Facts& f) {
  const std::string backend = backend_of(f), page = f.flag_value("block-size");
  const bool triton = !page.empty() && page != "16" && page != "32" && (backend.empty() || backend == "ROCM_ATTN");
  const bool here = f.gpu->rocm && triton && f.cache.name == "fp8_e5m2" && f.model.latent != Trait::Yes;
  return here ? on_gpu(f, found_in_flags(f, {"kv-cache-dtype", "block-size"}), version_text(f)) : Found{};
}

Found products_of_nvfp4(const Facts& f) {
  const bool nvfp4 = upper_case(f.checkpoint->declaration.weights).find("NVFP4") != std::string::npos;
  const bool here = f.gpu->capability >= 120 && f.gpu->capability < 130 && nvfp4 && looks_broken(f) &&
                    lower_case(f.flag_value("linear-backend")) != "marlin";
  if (!here) return {};
  const int64_t width = f.model.intermediate / n_ranks(f);
  const std::string uneven = width % 32 == 0 ? "" : std::to_string(width) + " inputs per rank, no multiple of 32";
  return on_gpu(f, found_in_flags(f, {"tensor-parallel-size", "linear-backend"}), uneven);
}

Found sums_of_aiter(const Facts& f) {
  const bool on = uses_aiter(f) && is_on(f, "VLLM_ROCM_USE_AITER_CUSTOM_AR", "1");
  const bool here = f.gpu->gfx == "gfx942" && on && n_ranks(f) > 1 && looks_broken(f);
  return here ? on_gpu(f, found_in_flags(f, {"tensor-parallel-size"})) : Found{};
}

// Sparse attention of DeepSeek-V3.2 and GLM asks the platform since 0.12.0, when it came.
Found fnuz_bytes(const Facts& f) {
  const bool reported = f.model.family.find("deepseekv4") != f.model.family.npos ||
                        f.model.family.find("minimaxm3") != f.model.family.npos;
  const bool here = f.gpu->gfx == "gfx942" && reported;
  return here ? on_gpu(f, found_in_flags(f, {"kv-cache-dtype"}), version_text(f)) : Found{};
}

// create_flashattention_v3_backend of SGLang 0.5.9 to 0.5.23, but on Moore Threads' GPUs.
Found fa3_on_other_gpu(const Facts& f) {
  const int family = f.gpu->capability / 10;
  const bool taken = family == 9 || (family == 8 && f.model.latent != Trait::Yes);
  const auto asks = [&](const char* option) { return f.flag_value(option) == "fa3"; };
  const bool here = (asks("attention-backend") && !replaces_fa3(f)) || asks("decode-attention-backend") ||
                    asks("prefill-attention-backend");
  const std::initializer_list<std::string_view> options = {"attention-backend", "decode-attention-backend",
                                                           "prefill-attention-backend"};
  return here && !f.gpu->rocm && family > 0 && !taken ? on_gpu(f, found_in_flags(f, options)) : Found{};
}

Found uneven_blocks(const Facts& f) {
  const CheckpointFacts& c = *f.checkpoint;
  const bool off = f.variable("VLLM_USE_DEEP_GEMM") == "0" || f.variable("VLLM_USE_DEEP_GEMM_E8M0") == "0" ||
                   f.variable("SGLANG_ENABLE_JIT_DEEPGEMM") == "0" ||
                   f.variable("SGLANG_ENABLE_JIT_DEEPGEMM") == "false";
  const bool here =
      has_deep_gemm_of_blackwell(*f.gpu) && c.declaration.block_weights && !c.uneven_block_scale.empty() && !off;
  return here ? on_gpu(f, {true, "", {{c.path, 0, "", 1, 0}}}, c.uneven_block_scale) : Found{};
}

Found shuffled_blocks(const Facts& f) {
  const bool here = f.gpu->gfx == "gfx950" && f.checkpoint->declaration.block_weights;
  return here ? on_gpu(f, {true, "", {{f.checkpoint->path, 0, "", 1, 0}}}) : Found{};
}

// fa2 is FlashInfer's choice where neither Hopper's nor datacenter Blackwell's kernels exist.
Found wide_keys_of_fa2(const Facts& f) {
  const int capability = f.gpu->capability;
  const bool fa2 = capability > 0 && (capability < 90 || capability >= 120);
  const bool here = fa2 && f.model.prefill_width_k == 192 && f.model.prefill_width_v == 128 &&
                    (backend_of(f).starts_with("FLASHINFER") || backend_of(f).starts_with("flashinfer"));
  return here ? on_gpu(f, found_with_backend(f)) : Found{};
}

constexpr std::string_view kCompare = "run the same prompt at temperature 0 with {control} and nothing else changed";

Found decode_sums_otherwise(const Facts& f) {
  const std::string backend = backend_of(f);
  const bool here =
      f.gpu->capability == 90 && (backend == "FLASH_ATTN" || backend == "FLASH_ATTN_VLLM_V1" || backend == "fa3");
  return here ? on_gpu(f, found_with_backend(f)) : Found{};
}

Found type_not_served(const Facts& f) {
  const std::string why = why_not_served(f.server, f.version, f.cache.name, place_of(f));
  if (why.empty()) return {};
  const EngineVersion newest = newest_known(f.server);
  std::string detail = f.cache_text() + ": " + why;
  if (!f.version) detail += ", in every version that has the type";
  if (f.version && why_not_served(f.server, newest, f.cache.name, place_of(f)).empty())
    detail += ", not in " + str(f.server, newest);
  Found found = found_in_flags(f, {"kv-cache-dtype"}, std::move(detail));
  return f.gpu ? on_gpu(f, found, found.detail) : found;
}

// Without a version it may be one of those that served such GPUs.
Found before_ampere(const Facts& f) {
  const std::string why =
      why_not_served(Engine::Vllm, f.version.value_or(newest_known(Engine::Vllm)), f.cache.name, place_of(f));
  if (why.empty() || f.gpu->capability == 0 || f.gpu->capability >= 80) return {};
  Found found = on_gpu(f, found_in_flags(f, {"kv-cache-dtype"}), version_text(f));
  found.is_hint = !f.version;
  return found;
}

// Of an option: what a log names was taken. Backends for MLA and those of other platforms take other types.
Found type_of_other_backend(const Facts& f) {
  const Flag* flag = backend_flag(f);
  const std::string_view only = only_backend(f.server, f.version, f.cache.name, place_of(f).gpu);
  const std::string asked = flag == nullptr ? "" : upper_case(named_backend(flag->value));
  const bool refused = !only.empty() && !asked.empty() && !asked.starts_with(only);
  if (!refused || has_platform_of_its_own(f)) return {};
  Found found = found_with_backend(f);
  found.detail = f.cache.name + " in " + std::string(only) + " alone";
  return found;
}

Found several_requests(const Facts& f) {
  const bool here = f.gpu->capability >= 120 && f.gpu->capability < 130 && f.cache.name == "nvfp4" &&
                    f.flag_value("decode-attention-backend") == "trtllm_mha";
  return here ? on_gpu(f, found_in_flags(f, {"kv-cache-dtype", "decode-attention-backend"})) : Found{};
}

Found nvfp4_of_datacenter(const Facts& f) {
  const std::string backend = backend_of(f);
  const bool here = f.gpu->capability >= 100 && f.gpu->capability < 110 && f.cache.name == "nvfp4" &&
                    (backend.empty() || backend == "FLASHINFER");
  return here ? on_gpu(f, found_in_flags(f, {"kv-cache-dtype"}), version_text(f)) : Found{};
}

Found queries_of_hopper(const Facts& f) {
  return f.gpu->capability == 90 ? on_gpu(f, found_with_backend(f), version_text(f)) : Found{};
}

constexpr CombinationRule kRules[] = {
    {kNoHopperKernel, kFlags | kGpu | kVllm | kStaticFp8, queries_of_hopper, "FLASHINFER", {{0, 11, 0}, {0, 15, 0}}},
    {{"B23", Fatal, Established,
      "no cache of this type is served on this GPU, by this version or for this kind of model: the server refuses to "
      "start, or the first request ends it",
      "", "{fp8}, or {control}",
      "vllm 0.16.0 to 0.33.0 v1/attention/backends, config/vllm.py, platforms; sglang 0.5.16 to 0.5.23; vllm issue "
      "43562",
      Cause::FormatUnsupported, 9, "B08 LG26 LG79"},
     kFlags | kKnownServer | kQuantized | kAtRequest,
     type_not_served},
    {{"B33", Fatal, Established, "another attention backend is the only one that takes a cache of this type", "",
      "the command without --attention-backend, or {fp8}",
      "vllm 0.20.0 to 0.33.0 v1/attention/backends, supported_kv_cache_dtypes; platforms/cuda.py",
      Cause::FormatUnsupported, 9, "LG79"},
     kFlags | kVllm | kQuantized,
     type_of_other_backend},
    {{"B24", Error, Reported,
      "an NVFP4 cache decoded by trtllm_mha on consumer Blackwell: right with one request, garbage with several",
      "that this version does it: reported in July 2026 for the development branch", "{fp8}", "sglang issue 31641",
      Cause::KernelDefect, 5},
     kFlags | kGpu | kSglang | kQuantized,
     several_requests},
    {{"B31", Warning, Reported,
      "a hybrid's NVFP4 cache read by TensorRT-LLM's kernels: empty answers were reported where FP8 was right",
      "that this version does it: reported for Qwen3.5-397B on B200 with a build of 0.28.1", "{fp8}, and compare",
      "vllm issue 55673, open", Cause::KernelDefect, 5},
     kFlags | kGpu | kVllm | kHybrid | kQuantized,
     nvfp4_of_datacenter},
    {{"B19", Note, Reported,
      "with an FP8 cache on Hopper, FlashAttention 3 takes keys in tiles of 96 for one query and of 192 for many: "
      "log-probabilities of generated tokens differ from those of the same text read as a prompt, by more than in BF16",
      "that scales are wrong, or that answers get worse", "compare generated with generated, or prompt with prompt",
      "vllm issue 54035; sglang issue 25790"},
     kFlags | kGpu | kStaticFp8,
     decode_sums_otherwise},
    {{"F11", Fatal, Reported, "on AMD only the AITER backend takes an E5M2 cache of an MLA model",
      "that AITER is not in use: vLLM may choose it by itself", "--kv-cache-dtype fp8_e4m3, or VLLM_ROCM_USE_AITER=1",
      "vllm issue 52793; vllm 0.24.0 to 0.33.0 v1/attention/backends/mla", Cause::FormatUnsupported, 6},
     kFlags | kGpu | kVllm | kLatent,
     e5m2_on_rocm},
    {{"F17", Error, Reported, "the draft model's cache becomes FP8, too, which was reported to crash on this GPU",
      "that it crashes here: it was reported for one version, and the report is open",
      "--speculative-config '{..., \"kv_cache_dtype\": \"bfloat16\"}' (vLLM 0.26 has it), or no draft",
      "vllm issue 44879; vllm 0.33.0 config/speculative.py", Cause::FormatUnsupported, 5, "F41"},
     kFlags | kCheckpoint | kGpu | kVllm | kFp8,
     draft_on_ada},
    {{"B02", Error, Established,
      "FlashAttention 4 of these versions lets the probabilities of an FP8 attention reach 2^12, and clips them at "
      "448: worse the longer the context",
      "that attention runs in FP8 here: with 16-bit queries it does not",
      "vLLM 0.33, or --attention-backend TRITON_ATTN",
      "vllm 0.23.0 to 0.26.0 vllm_flash_attn/cute/flash_fwd_sm100.py; flash-attention issue 2716", Cause::KernelDefect,
      6},
     kFlags | kGpu | kVllm | kStaticFp8,
     saturating_probabilities},
    {{"B03", Fatal, Established,
      "Triton needs compute capability 8.9 for this FP8 cache: the server does not start, or the first request ends it",
      "", "{control}, or --attention-backend FLASHINFER",
      "vllm 0.33.0 v1/attention/backends/triton_attn.py, mla/triton_mla.py", Cause::FormatUnsupported, 8,
      "LG24 LG24b L10"},
     kFlags | kGpu | kFp8 | kAtRequest,
     triton_before_ada},
    {{"B20", Fatal, Established, "no attention backend of vLLM takes this FP8 cache on this GPU", "",
      "{control}; on compute capability 7.5 vLLM 0.23 with --attention-backend FLASHINFER",
      "vllm 0.16.0 to 0.33.0 v1/attention/backends/flashinfer.py, triton_attn.py; vllm issue 47549",
      Cause::FormatUnsupported, 9, "B03 B23 LG24 LG24b L10"},
     kFlags | kGpu | kVllm | kStaticFp8 | kAtRequest,
     before_ampere},
    {{"B21", Warning, Reported,
      "a quantized cache and CUDA graphs: here random output or illegal accesses were reported, where runs without "
      "graphs were sound",
      "that this version does it",
      "--enforce-eager, then another --attention-backend, then {control}, and compare each",
      "vllm issues 41651, 50881, 54225, 54331, change 38719", Cause::KernelDefect, 6},
     kFlags | kGpu | kVllm | kQuantized,
     broken_under_graphs},
    {{"B28", Error, Reported,
      "with pages of this size the writer of the cache stores E4M3, and attention reads it as E5M2: other values",
      "that attention runs in ROCM_ATTN: the server's log says", "--kv-cache-dtype fp8_e4m3, or --block-size 16",
      "vllm 0.28.0 to 0.33.0 rocm_attn.py, triton_reshape_and_cache_flash.py; vllm change 54341", Cause::KernelDefect,
      8},
     kFlags | kGpu | kVllm | kQuantized,
     e4m3_read_as_e5m2,
     "",
     {.since = {0, 28, 0}}},
    {{"B29", Error, Reported,
      "kernels that multiply NVFP4 weights were reported wrong on this GPU: garbage where Marlin was right",
      "that this version does it: reported for 0.17 and 0.25.1, where a rank's inputs are no multiple of 32, and for "
      "experts; anything about the KV cache",
      "--linear-backend marlin (vLLM 0.25 has it), or --enforce-eager, and compare",
      "vllm issue 48898, changes 38423, 48965; cutlass issue 3096", Cause::NotTheCache, 8, "W02"},
     kOutput | kCheckpoint | kGpu | kVllm,
     products_of_nvfp4},
    {{"B32", Warning, Reported,
      "AITER's all-reduce was reported to give wrong sums now and then: answers collapsed in the middle, and were "
      "right "
      "without it",
      "that this build does it: reported in August 2026 for GLM-5.2-FP8 on eight MI300X, with AITER 0.1.19",
      "VLLM_ROCM_USE_AITER_CUSTOM_AR=0, and compare", "aiter issue 4855, changes 4082, 4346", Cause::NotTheCache, 5},
     kFlags | kOutput | kGpu | kVllm,
     sums_of_aiter},
    {{"B07", Fatal, Reported,
      "MI300's FP8 has another bias: sparse attention of this model was reported to read its cache as the other "
      "format, which doubles or halves every value",
      "that a build of your own has it: 0.24.0 is the first release that asks the platform", "vLLM 0.25 or later",
      "vllm changes 45681, 45720; vllm 0.24.0 models/deepseek_v4/common/ops/cache_utils.py", Cause::KernelDefect, 8},
     kFlags | kModel | kGpu | kVllm | kFp8 | kServing,
     fnuz_bytes,
     "",
     {.until = {0, 24, 0}}},
    {{"B34", Fatal, Established,
      "SGLang's FlashAttention 3 runs on compute capability 8 and 9 alone, for MLA on 9: the server does not start", "",
      "flashinfer or triton in place of fa3", "sglang 0.5.9 to 0.5.23 layers/attention/attention_registry.py",
      Cause::NotTheCache, 9},
     kFlags | kGpu | kSglang,
     fa3_on_other_gpu},
    {{"B09", Warning, Reported,
      "DeepGEMM on this GPU takes powers of two as scales of weights; this checkpoint has others, which are rounded, "
      "or in some versions misread",
      "anything about the KV cache, or damage: reports go from 12 points of GSM8K to none",
      "VLLM_USE_DEEP_GEMM=0, or SGLANG_ENABLE_JIT_DEEPGEMM=0, and compare", "sglang issue 28662; vllm issue 38083",
      Cause::NotTheCache, 5},
     kTensors | kGpu,
     uneven_blocks},
    {{"B10", Fatal, Established,
      "block-wise FP8 matrix products go wrong on this GPU with ROCm before 7.2: NaN for long prompts",
      "that ROCm is that old; anything about the KV cache", "ROCm 7.2 or later",
      "sglang 0.5.23 srt/layers/quantization/fp8_utils.py; sglang issue 28685", Cause::NotTheCache, 5},
     kCheckpoint | kGpu | kSglang | kServing,
     shuffled_blocks},
    {{"B11", Error, Reported, "FlashInfer's fa2 kernels were reported wrong for FP8 with keys of 192 and values of 128",
      "that this version has the fault: no version with a fix was found", kCompare, "flashinfer issue 4976",
      Cause::KernelDefect, 5},
     kFlags | kModel | kGpu | kFp8,
     wide_keys_of_fa2},
};

}  // namespace

std::span<const CombinationRule> gpu_rules() { return kRules; }

}  // namespace kvcal
