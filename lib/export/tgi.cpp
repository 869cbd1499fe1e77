// --to tgi: <attention>.k_scale and .v_scale without a config block, which TGI reads with any weights, while its
// compressed-tensors loader fails on a config without weight groups. Rules: text-generation-inference,
// layers/attention.
#include <algorithm>

#include "export/checkpoint_target.h"
#include "export/serve.h"
#include "export/targets.h"

namespace kvcal {
namespace {

ExportPlan plan(const ExportInput& input) {
  check_format(input.artifact, {"fp8_e4m3"}, "TGI takes fp8_e4m3");
  check_per_tensor(input.artifact, "TGI");
  if (std::ranges::any_of(input.artifact.layers, &ArtifactLayer::is_mla))
    fail("TGI reads no scales for latent attention (MLA)");
  ExportPlan result;
  result.dropped = replaced_scales(input);
  add_tensors(layer_scales(input.artifact, input.model, Granularity::Tensor), Naming{}, result);
  result.serving.commands = {"text-generation-launcher --model-id " + shell_word(input.out.string()) +
                             " --kv-cache-dtype fp8_e4m3fn"};
  result.serving.notes = {
      "TGI logs 'Using FP8 KV cache scales' when it uses them, with flashinfer or paged attention; otherwise it "
      "ignores them",
      "this folder is for TGI only: vLLM 0.25 and later refuse scales without a quantization_config"};
  return result;
}

}  // namespace

Exporter tgi_exporter() {
  return {
      "tgi", "only the tensors, no config block, for text-generation-inference", true, plan, read_back_folder, {}, true,
      "TGI"};
}

}  // namespace kvcal
