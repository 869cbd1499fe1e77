// Log lines of kernels' libraries, other servers and quantization tools.
#include "doctor/entry.h"

namespace kvcal {
namespace {

using enum Severity;
using enum Confidence;

constexpr LogLine kLines[] = {
    {"attention layers use the scales of & kv-cache-scales:",
     {"LG70", Note, Established, "the plug-in kv-cache-scales set the scales of these layers",
      "that the scales are good", "", "apps/plugins of this project"}},
    {"going on because of allow_other_weights",
     {"LG71", Warning, Established,
      "the scales were calibrated on other weights, and the server was told to take them anyway", "",
      "calibrate on this checkpoint, or kvcal export --also-for CHECKPOINT", "apps/plugins of this project",
      Cause::ScalesStale, 8}},
    {"[TensorRT-LLM] TensorRT|[TensorRT-LLM][",
     {"LG83", Note, Established, "a log of TensorRT-LLM, for which this program has no rules",
      "that its cache is fine: serve once with kv_cache_config: {dtype: auto} in the file of --config, and compare", "",
      "tensorrt_llm/__init__.py"}},
    {"Large KV activation",
     {"LG17", Warning, Established, "at export, a magnitude above 224 was measured in keys or values",
      "that FP8 fails: it fits up to 448 x scale",
      "kvcal calibrate {model} -o scales.json, then kvcal evaluate {model} --scales scales.json --choose fp8_e4m3 "
      "--max-kl 0.01 finds the layers to keep in bf16",
      "nvidia-modelopt 0.47.0 torch/export/quant_utils.py", Cause::KeyOutliers, 5}},
    {"requires CUDA >= 12. & SM 12",
     {"LG18", Note, Established, "FlashInfer sees an old CUDA toolkit; harmless unless it must compile a kernel",
      "a numeric problem", "", "flashinfer-python 0.7.2 compilation_context.py"}},
    {"FlashInfer requires GPUs with sm75 or higher",
     {"LG19", Fatal, Established,
      "FlashInfer found no GPU architecture to compile for; with CUDA too old for SM 12.x the message misleads",
      "that the GPU is too old",
      "install CUDA 12.9 or later; else --attention-backend TRITON_ATTN, and VLLM_USE_FLASHINFER_SAMPLER=0",
      "flashinfer-python 0.7.2 jit/core.py; vllm issue 50705", Cause::NotTheCache, 8}},
    {"Missing TRTLLM-GEN kernel",
     {"LG88", Fatal, Established,
      "FlashInfer has no kernel of TensorRT-LLM for this combination of head width, page, mask and cache type",
      "which of them it is, or that scales are wrong", "another --attention-backend; {control}",
      "flashinfer-python 0.7.2 csrc/trtllm_fmha_kernel_launcher.cu; sglang changes 12347, 12372",
      Cause::FormatUnsupported, 9}},
    {"batch_prefill_with_kv_cache_dtype_q_bf16_dtype_kv_e4m3 & _sm90/build.ninja", kNoHopperKernel},
    {"an illegal memory access was encountered",
     {"LG74", Error, Established, "a kernel read or wrote memory that is not its own",
      "which kernel: the GPU reports late, and the line that fails is seldom the one at fault",
      "CUDA_LAUNCH_BLOCKING=1 names the kernel; then another --attention-backend, {eager}, and {control}, one at a "
      "time",
      "CUDA", Cause::KernelDefect, 4}},
    {"kv_cache_offset' & KeyError",
     {"LG75", Fatal, Reported, "vLLM-Ascend does not find how this checkpoint's INT8 cache is described",
      "that the scales are wrong", "the checkpoint without its quantized cache, or a newer vLLM-Ascend",
      "vllm-ascend issue 2144, open", Cause::ScalesRefused, 7}},
    {"operator name is ReshapeCacheOperation",
     {"LG85", Fatal, Reported,
      "the operator of Ascend's NPUs that writes the cache failed: reported where FP8 was asked for",
      "that the cache's type is the reason", "{control}; INT8 and MXFP8 caches come with ModelSlim's description",
      "vllm-ascend issue 8102, open", Cause::FormatUnsupported, 3}},
    {"Unsupported rhs dtype fp8e4nv",
     {"LG66", Fatal, Reported, "a kernel that reads what is cached of a prompt does not read an FP8 cache",
      "that reused prefixes are the reason: a long prompt is computed in parts, and the second reads the first",
      "update the server, or {control}", "sglang issues 38855, 36644", Cause::KernelDefect, 8}},
    {"Unknown SF transformation",
     {"LG30", Fatal, Established, "DeepGEMM does not know the layout of the weights' scales on this GPU",
      "anything about the KV cache: these are scales of weights", "VLLM_USE_DEEP_GEMM=0 {command}",
      "deep_gemm on SM120", Cause::NotTheCache, 9}},
    {"V cache quantization requires flash_attn",
     {"LG31", Fatal, Established, "llama.cpp: a quantized V cache needs flash attention", "",
      "--flash-attn on, or --cache-type-v f16", "llama.cpp src/llama-context.cpp", Cause::FormatUnsupported, 9}},
    {"attn_rot_k",
     {"LG32", Note, Established, "llama.cpp: whether keys are rotated before they are quantized (1: yes)", "", "",
      "llama.cpp since 2026-04"}},
    {"config_groups is empty",
     {"LG67", Fatal, Established, "TensorRT-LLM does not take a checkpoint whose config_groups are empty", "",
      "TensorRT-LLM has no static FP8 KV scales: serve the original checkpoint there",
      "TensorRT-LLM _torch/model_config.py", Cause::ScalesRefused, 8}},
    {"Key and value scales must be scalar tensors",
     {"LG68", Fatal, Established, "text-generation-inference takes one scale per layer", "",
      "kvcal export ... --to tgi --granularity tensor", "text-generation-inference (db931fcf)", Cause::ScalesRefused,
      9}},
    {"!!!!!!!!!!!!!!!!", kExclamationMarks},
};

}  // namespace

std::span<const LogLine> other_lines() { return kLines; }

}  // namespace kvcal
