// --to vllm: a checkpoint that vLLM loads. On plain weights a compressed-tensors config that is about the KV cache
// alone; into quantized checkpoints by their own convention. Rules: vLLM 0.33.0, compressed_tensors.py, kv_cache.py,
// base_config.py (get_cache_scale_mapper), executed on tiny checkpoints.
#include <algorithm>

#include "artifact/delivery.h"
#include "checkpoint/config_file.h"
#include "export/checkpoint_target.h"
#include "export/serve.h"
#include "export/targets.h"

namespace kvcal {
namespace {

bool is_compressed(const Carrier& carrier) {
  return carrier.kind == KvCarrier::None || carrier.kind == KvCarrier::CompressedTensors;
}

/// Whether vLLM lets the tokens of an image see each other in both directions (is_mm_prefix_lm of its configs): few
/// backends can, and none of them with scales per head but FlashAttention 4.
bool sees_images_whole(const ExportInput& input) {
  const std::string& architecture = input.model.spec.architecture;
  if (architecture == "Gemma3ForConditionalGeneration") return true;
  if (architecture != "Gemma4ForConditionalGeneration") return false;
  const Json config = read_config(input.model.folder).config;
  const Json* text = find_member(config, "text_config");
  return text && get_string_or(*text, "use_bidirectional_attention", "") == "vision";
}

void check_per_head(const ExportInput& input) {
  if (!is_compressed(input.carrier))
    fail("a checkpoint quantized with " + input.carrier.method +
         " takes one scale per layer, the scale file has one per head; solve again: 'kvcal solve STATS --granularity "
         "tensor'");
  for (const ArtifactLayer& layer : input.artifact.layers)
    if (layer.n_kv_heads != input.artifact.layers.front().n_kv_heads)
      fail("layers " + std::to_string(input.artifact.layers.front().index) + " and " + std::to_string(layer.index) +
           " have different numbers of KV heads, and vLLM slices scales per head by one number for all; solve again: "
           "'kvcal solve STATS --granularity tensor'");
  if (sees_images_whole(input))
    fail("vLLM lets the tokens of an image see each other in " + input.model.spec.architecture +
         ", and has no attention backend that does so with scales per head; solve again: 'kvcal solve STATS "
         "--granularity tensor'");
}

/// vLLM doubles what it loads on processors with the FNUZ format (gfx94x), except for compressed-tensors.
void check_number_format(const ExportInput& input) {
  if (is_compressed(input.carrier))
    check_format(input.artifact, {"fp8_e4m3", "fp8_e4m3fnuz"},
                 "an FP8 cache of vLLM takes fp8_e4m3, or fp8_e4m3fnuz on gfx94x");
  else
    check_format(input.artifact, {"fp8_e4m3"},
                 "of a checkpoint quantized with " + input.carrier.method +
                     " vLLM takes fp8_e4m3 scales, and doubles them itself where the format is fnuz");
}

std::vector<TextFile> configs(const ExportInput& input) {
  if (is_compressed(input.carrier)) return {compressed_tensors_config(input, input.artifact.quantization.granularity)};
  if (input.carrier.kind == KvCarrier::ModelOpt) return modelopt_configs(input);
  if (input.carrier.kind == KvCarrier::Quark) return {quark_config(input)};
  return {};  // fp8: the tensors are enough
}

void add_notes(const ExportInput& input, const Naming& naming, Serving& serving) {
  std::vector<std::string>& notes = serving.notes;
  if (naming.granularity == Granularity::Head)
    notes.emplace_back(
        "one scale per head needs FlashAttention 3 or later (H100 and later); vLLM refuses to start on "
        "other backends, and SGLang ignores such scales");
  if (is_compressed(input.carrier) && input.artifact.quantization.dtype == "fp8_e4m3")
    notes.emplace_back(
        "on AMD gfx94x (MI300) vLLM does not double the scales of compressed-tensors checkpoints: solve "
        "with --dtype fp8_e4m3fnuz for it");
  if (naming.rounded)
    notes.emplace_back(
        "with this weight format vLLM keeps scales in the model's dtype: the values written are exact in "
        "bfloat16, rounded up");
  if (input.carrier.kind == KvCarrier::Fp8 || input.carrier.kind == KvCarrier::Quark)
    notes.emplace_back("without --kv-cache-dtype the cache stays in the model's dtype and the scales are not used");
  if (!naming.query)
    notes.emplace_back("no query scales: where attention runs in FP8 (FlashAttention 3, FlashInfer), queries use 1.0");
  if (naming.spelling == ScaleSpelling::Attention && is_compressed(input.carrier))
    notes.emplace_back(
        "vLLM before 0.20 gave garbage with such scales on FlashInfer and AITER; fp8_e5m2 cannot be "
        "combined with them");
  if (!serves_as_it_is(input.artifact))
    notes.emplace_back("vLLM does not report missing scales: check with the snippet, not in the log");
}

ExportPlan plan(const ExportInput& input) {
  check_number_format(input);
  check_no_channels(input.artifact, "vLLM");
  const Granularity granularity = input.artifact.quantization.granularity;
  if (granularity == Granularity::Head) check_per_head(input);
  const KvCarrier carrier = granularity == Granularity::Head        ? KvCarrier::PerHead
                            : input.carrier.kind == KvCarrier::None ? KvCarrier::CompressedTensors
                                                                    : input.carrier.kind;
  Naming naming = naming_for(input, ServerKind::Vllm, carrier);
  naming.granularity = granularity;
  ExportPlan result;
  result.dropped = replaced_scales(input);
  add_tensors(layer_scales(input.artifact, input.model, granularity), naming, result);
  // Loaders of MTP layers differ in what they rename (glm4_moe_mtp.py: nothing); all take the parameter's own name.
  Naming of_mtp = naming;
  of_mtp.spelling = ScaleSpelling::Native;
  add_tensors(mtp_layer_scales(input.artifact, input.model, granularity), of_mtp, result);
  result.files = configs(input);
  result.serving.commands = {vllm_command(input, "fp8")};
  result.serving.snippet = vllm_snippet(input, "fp8");
  add_notes(input, naming, result.serving);
  add_evidence(naming, result.serving);
  return result;
}

}  // namespace

Exporter vllm_exporter() {
  return {"vllm", "a checkpoint with KV scales for vLLM (and most of SGLang's classes)", true, plan, read_back_folder};
}

}  // namespace kvcal
