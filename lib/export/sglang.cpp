// --to sglang: a checkpoint that SGLang loads; names differ by class. Rules: SGLang 0.5.23, models/*.py and
// layers/quantization, executed on tiny checkpoints.
#include "export/checkpoint_target.h"
#include "export/serve.h"
#include "export/targets.h"

namespace kvcal {
namespace {

std::vector<TextFile> configs(const ExportInput& input) {
  switch (input.carrier.kind) {
    case KvCarrier::ModelOpt:
      return modelopt_configs(input);
    case KvCarrier::Quark:
      return {quark_config(input)};
    case KvCarrier::Fp8:
      return {};
    default:
      return {compressed_tensors_config(input, Granularity::Tensor)};
  }
}

ExportPlan plan(const ExportInput& input) {
  check_format(input.artifact, {"fp8_e4m3"},
               "SGLang takes fp8_e4m3, and doubles scales itself where the format is fnuz");
  check_per_tensor(input.artifact, "SGLang");
  const KvCarrier carrier = input.carrier.kind == KvCarrier::None ? KvCarrier::CompressedTensors : input.carrier.kind;
  const Naming naming = naming_for(input, ServerKind::Sglang, carrier);
  ExportPlan result;
  result.dropped = replaced_scales(input);
  add_tensors(layer_scales(input.artifact, input.model, Granularity::Tensor), naming, result);
  add_tensors(mtp_layer_scales(input.artifact, input.model, Granularity::Tensor), naming, result);
  result.files = configs(input);
  result.serving.commands = {sglang_command(input.out.string(), "fp8_e4m3")};
  result.serving.snippet = sglang_snippet();
  result.serving.notes = {
      "needs SGLang of 2026-08-20 or later (#35455); earlier ones drop the scales of compressed-tensors checkpoints",
      "no query scales: SGLang does not use them, and some classes refuse to start with one",
      "SGLang prints 'no scaling factors provided. Defaulting to scaling factors of 1.0' also when it has loaded them",
      "do not combine it with --quantization-param-path: the server would stop with a TypeError"};
  add_evidence(naming, result.serving);
  return result;
}

}  // namespace

Exporter sglang_exporter() {
  return {"sglang",
          "a checkpoint with KV scales, under the names that SGLang's class of this model expects",
          true,
          plan,
          read_back_folder,
          {},
          true,
          "SGLang"};
}

}  // namespace kvcal
