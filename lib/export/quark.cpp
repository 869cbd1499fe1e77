// --to quark: into a checkpoint that AMD Quark has quantized: <attention>.k_proj.output_scale, and a config that calls
// the outputs of these projections the cache. Rules: vLLM quantization/quark/quark.py.
#include "export/checkpoint_target.h"
#include "export/serve.h"
#include "export/targets.h"

namespace kvcal {
namespace {

/// A projection's own entry, else what holds for all layers, with the cache as its output.
Json with_output(const Json& quark, const char* projection) {
  const Json* layers = find_member(quark, "layer_quant_config");
  const Json* own = layers && layers->is_object() ? find_member(*layers, projection) : nullptr;
  const Json* global = find_member(quark, "global_quant_config");
  if (!own && (!global || !global->is_object()))
    fail("the Quark config has no global_quant_config, so the format of the projections is unknown");
  Json entry = own ? *own : *global;
  if (!entry.is_object()) fail("the Quark config's entry for " + quoted(std::string(projection)) + " is not an object");
  entry["output_tensors"] = {{"dtype", "fp8_e4m3"}, {"qscheme", "per_tensor"}, {"is_dynamic", false}};
  return entry;
}

ExportPlan plan(const ExportInput& input) {
  if (input.carrier.kind != KvCarrier::Quark)
    fail("the checkpoint was not quantized by Quark but by " + quoted(input.carrier.method) +
         ", and servers accept Quark's names only with its config; use '--to vllm' or '--to sglang'");
  check_format(input.artifact, {"fp8_e4m3"}, "Quark's convention is fp8_e4m3, and servers double it for fnuz");
  check_per_tensor(input.artifact, "Quark's convention");
  Naming naming = naming_for(input, ServerKind::Vllm, KvCarrier::Quark);
  naming.spelling = ScaleSpelling::Output;
  naming.query = false;
  ExportPlan result;
  result.dropped = replaced_scales(input);
  add_tensors(layer_scales(input.artifact, input.model, Granularity::Tensor), naming, result);
  result.files = {quark_config(input)};
  result.serving.commands = {vllm_command(input, "fp8")};
  result.serving.snippet = vllm_snippet(input, "fp8");
  result.serving.notes = {"without --kv-cache-dtype the cache stays in the model's dtype and the scales are not used",
                          "the values are exact in bfloat16, rounded up: vLLM keeps them in the model's dtype",
                          "vLLM 0.33.0 loaded it so; for SGLang the sources were read, not run"};
  add_sglang_command(input, naming, "fp8_e4m3", result.serving);
  add_evidence(naming, result.serving);
  return result;
}

}  // namespace

TextFile quark_config(const ExportInput& input) {
  if (input.carrier.path.empty()) fail("a Quark checkpoint without a quantization_config in its config.json");
  const Json& quark = input.carrier.config;
  const auto object = [&](const char* key) {
    const Json* found = find_member(quark, key);
    return found && found->is_object() ? *found : Json::object();
  };
  Json layers = object("layer_quant_config"), what = object("export");
  for (const char* projection : {"*k_proj", "*v_proj"}) layers[projection] = with_output(quark, projection);
  what["kv_cache_group"] = {"*k_proj", "*v_proj"};
  return edited_config(input, input.carrier.path, {{"layer_quant_config", layers}, {"export", what}});
}

Exporter quark_exporter() {
  return {"quark", "AMD Quark's own names, in a checkpoint quantized by Quark", true, plan, read_back_folder};
}

}  // namespace kvcal
