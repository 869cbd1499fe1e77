// Log lines of kernels' libraries, other servers and quantization tools.
#include "doctor/lines.h"

namespace kvcal {
namespace {

using enum Severity;
using enum Confidence;

constexpr LogLine kLines[] = {
    {.needle = "attention layers use the scales of",
     .entry = {.id = "LG70",
               .meaning = "the plug-in kv-cache-scales set the scales of these layers",
               .not_proved = "that the scales are good",
               .source = "apps/plugins of this project"},
     .also = "kv-cache-scales:"},
    {.needle = "going on because of allow_other_weights",
     .entry = {.id = "LG71",
               .severity = Warning,
               .meaning = "the scales were calibrated on other weights, and the server was told to take them anyway",
               .fix = "calibrate on this checkpoint, or kvcal export --also-for CHECKPOINT",
               .source = "apps/plugins of this project",
               .cause = Cause::ScalesStale,
               .weight = 8}},
    {.needle = "Large KV activation",
     .entry = {.id = "LG17",
               .severity = Warning,
               .meaning = "at export, a magnitude above 224 was measured in keys or values",
               .not_proved = "that FP8 fails: it fits up to 448 x scale",
               .fix = "kvcal calibrate {model} -o scales.json, then kvcal evaluate {model} --scales scales.json "
                      "--choose fp8_e4m3 "
                      "--max-kl 0.01 finds the layers to keep in bf16",
               .source = "nvidia-modelopt 0.47.0 torch/export/quant_utils.py",
               .cause = Cause::KeyOutliers,
               .weight = 5}},
    {.needle = "requires CUDA >= 12.",
     .entry = {.id = "LG18",
               .meaning = "FlashInfer sees an old CUDA toolkit; harmless unless it must compile a kernel",
               .not_proved = "a numeric problem",
               .source = "flashinfer-python 0.7.2 compilation_context.py"},
     .also = "SM 12"},
    {.needle = "FlashInfer requires GPUs with sm75 or higher",
     .entry = {.id = "LG19",
               .severity = Fatal,
               .meaning =
                   "FlashInfer found no GPU architecture to compile for; with CUDA too old for SM 12.x the message "
                   "misleads",
               .not_proved = "that the GPU is too old",
               .fix = "install CUDA 12.9 or later, or VLLM_USE_FLASHINFER_SAMPLER=0",
               .source = "flashinfer-python 0.7.2 jit/core.py",
               .cause = Cause::NotTheCache,
               .weight = 8}},
    {.needle = "type fp8e4nv not supported in this architecture",
     .entry = {.id = "LG24",
               .severity = Fatal,
               .meaning = "this GPU is older than the FP8 format that Triton needs for the cache",
               .fix = "--kv-cache-dtype auto, another attention backend, or a GPU of compute capability 8.9 or later",
               .source = "triton; vllm issue 45829",
               .cause = Cause::FormatUnsupported,
               .weight = 9}},
    {.needle = "Unsupported rhs dtype fp8e4nv",
     .entry = {.id = "LG66",
               .severity = Fatal,
               .confidence = Reported,
               .meaning = "a kernel for cached prefixes does not read an FP8 cache",
               .fix = "update the server, or --disable-radix-cache / --no-enable-prefix-caching",
               .source = "sglang issues 38855, 36644",
               .cause = Cause::KernelDefect,
               .weight = 8}},
    {.needle = "Unknown SF transformation",
     .entry = {.id = "LG30",
               .severity = Fatal,
               .meaning = "DeepGEMM does not know the layout of the weights' scales on this GPU",
               .not_proved = "anything about the KV cache: these are scales of weights",
               .fix = "VLLM_USE_DEEP_GEMM=0 {command}",
               .source = "deep_gemm on SM120",
               .cause = Cause::NotTheCache,
               .weight = 9}},
    {.needle = "V cache quantization requires flash_attn",
     .entry = {.id = "LG31",
               .severity = Fatal,
               .meaning = "llama.cpp: a quantized V cache needs flash attention",
               .fix = "--flash-attn on, or --cache-type-v f16",
               .source = "llama.cpp src/llama-context.cpp",
               .cause = Cause::FormatUnsupported,
               .weight = 9}},
    {.needle = "attn_rot_k",
     .entry = {.id = "LG32",
               .meaning = "llama.cpp: whether keys are rotated before they are quantized (1: yes)",
               .source = "llama.cpp since 2026-04"}},
    {.needle = "config_groups is empty",
     .entry = {.id = "LG67",
               .severity = Fatal,
               .meaning = "TensorRT-LLM does not take a checkpoint whose config_groups are empty",
               .fix = "TensorRT-LLM has no static FP8 KV scales: serve the original checkpoint there",
               .source = "TensorRT-LLM _torch/model_config.py",
               .cause = Cause::ScalesRefused,
               .weight = 8}},
    {.needle = "Key and value scales must be scalar tensors",
     .entry = {.id = "LG68",
               .severity = Fatal,
               .meaning = "text-generation-inference takes one scale per layer",
               .fix = "kvcal export ... --to tgi --granularity tensor",
               .source = "text-generation-inference (db931fcf)",
               .cause = Cause::ScalesRefused,
               .weight = 9}},
    {.needle = "!!!!!!!!!!!!!!!!",
     .entry =
         {.id = "E15",
          .severity = Error,
          .meaning =
              "one character repeated forever: where token 0 is '!' (byte-level BPE: Qwen, Llama 3, GLM), the logits "
              "are probably NaN",
          .not_proved = "that the FP8 cache is to blame: NVFP4 layouts, scales of weights, fp16 overflow and other "
                        "faults look the same",
          .fix = "run the same prompt with --kv-cache-dtype auto, then with VLLM_COMPUTE_NANS_IN_LOGITS=1",
          .source = "vllm issues 49011, 50283; transformers 33312",
          .cause = Cause::NanLogits,
          .weight = 3}},
};

}  // namespace

std::span<const LogLine> other_lines() { return kLines; }

}  // namespace kvcal
