// --to modelopt: into a checkpoint that ModelOpt has quantized, as ModelOpt would have written it: k_proj.k_scale and
// v_proj.v_scale, F32 without dimensions, no query scales; for an NVFP4 cache global scales of absmax / 448 (ModelOpt
// 0.42 and later; earlier ones divided by 6 more, and a scale that is too small overflows the block scales).
#include <algorithm>
#include <cmath>
#include <map>

#include "export/checkpoint_target.h"
#include "export/export.h"
#include "export/serve.h"
#include "export/targets.h"

namespace kvcal {
namespace {

constexpr double kE4m3Max = 448;

/// Of what was measured, or can be reached by rotation; rounded up to float32.
float global_scale(const ArtifactSite& site) {
  const bool rotated = site.envelope && site.uses_envelope.value_or(false);
  const double largest =
      std::max(static_cast<double>(site.absmax), rotated ? static_cast<double>(*site.envelope) : 0.0);
  const double exact = largest / kE4m3Max;
  const auto nearest = static_cast<float>(exact);
  return static_cast<double>(nearest) < exact ? std::nextafter(nearest, INFINITY) : nearest;
}

std::vector<LayerScales> global_scales(const ExportInput& input) {
  std::map<int, const ArtifactLayer*> layers;
  for (const ArtifactLayer& layer : input.artifact.layers) layers[layer.index] = &layer;
  std::vector<LayerScales> all = layer_scales(input.artifact, input.model, Granularity::Tensor);
  for (LayerScales& scales : all) {
    scales.key = {global_scale(layers.at(scales.owner)->key)};
    scales.value = {global_scale(layers.at(scales.owner)->value)};
  }
  return all;
}

ExportPlan plan(const ExportInput& input) {
  if (input.carrier.kind != KvCarrier::ModelOpt)
    fail("the checkpoint was not quantized by ModelOpt but by " + quoted(input.carrier.method) +
         ", and servers accept ModelOpt's names only with its config; use '--to vllm' or '--to sglang'");
  const bool nvfp4 = input.options.nvfp4;
  if (!nvfp4) check_format(input.artifact, {"fp8_e4m3"}, "ModelOpt's convention is fp8_e4m3");
  check_per_tensor(input.artifact, "ModelOpt's convention");
  Naming naming = naming_for(input, ServerKind::Vllm, KvCarrier::ModelOpt);
  naming.spelling = ScaleSpelling::Projection;
  naming.query = false;
  ExportPlan result;
  result.dropped = replaced_scales(input);
  add_tensors(nvfp4 ? global_scales(input) : layer_scales(input.artifact, input.model, Granularity::Tensor), naming,
              result);
  result.files = modelopt_configs(input, nvfp4 ? "NVFP4" : "FP8");
  const char* dtype = nvfp4 ? "nvfp4" : "fp8_e4m3";
  result.serving.commands = {vllm_command(input, dtype)};
  result.serving.snippet = vllm_snippet(input, dtype);
  result.serving.notes = {"TensorRT-LLM accepts the folder, but uses 1.0 for an FP8 cache whatever the scales are",
                          "the values are exact in bfloat16, rounded up: vLLM keeps them in the model's dtype"};
  if (nvfp4)
    result.serving.notes.emplace_back(
        "global scales of absmax / 448; SGLang multiplies them by 6 on SM100, which costs range and clips nothing");
  add_sglang_command(input, naming, dtype, result.serving);
  add_evidence(naming, result.serving);
  return result;
}

}  // namespace

Exporter modelopt_exporter() {
  return {"modelopt",
          "ModelOpt's own names, in a checkpoint quantized by ModelOpt; --nvfp4 for an NVFP4 cache",
          true,
          plan,
          read_back_folder,
          {"--nvfp4", [](const ExportRequest& r) { return r.options.nvfp4; }, ""}};
}

}  // namespace kvcal
