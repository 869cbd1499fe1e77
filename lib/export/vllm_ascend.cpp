// --to vllm-ascend: a checkpoint whose cache vLLM-Ascend stores in INT8, a scale and an offset for each channel of keys
// and values (its "C8"), as ModelSlim would have written it around weights that are not quantized. Rules: vllm-ascend
// 0.23.0.post1, quantization/modelslim_config.py, quantization/methods/kv_c8.py, patch/worker/patch_gqa_c8.py, and
// 0.30.0rc2, quantization/configs/modelslim_config.py, quantization/methods/kv_cache/kv_c8.py, whose functions were
// executed; attention/attention_v1.py, which was read.
#include "artifact/json_text.h"
#include "base/read_file.h"
#include "checkpoint/checkpoint.h"
#include "export/checkpoint_target.h"
#include "export/serve.h"
#include "export/targets.h"
#include "servers/ascend_support.h"

namespace kvcal {
namespace {

constexpr const char* kDescription = "quant_model_description.json";
constexpr size_t kDescriptionBytes = size_t{64} << 20;

void check(const ExportInput& input) {
  const std::string& architecture = input.model.spec.architecture;
  if (const AscendSupport support = ascend_support(architecture); support.versions.empty())
    fail("vLLM-Ascend 0.23 and 0.30 load no scales of an INT8 cache for " + architecture + ": " +
         std::string(support.why_not));
  check_format(input.artifact, {"int8"}, "this cache of vLLM-Ascend is INT8");
  if (input.artifact.quantization.granularity != Granularity::Channel)
    fail("vLLM-Ascend takes one scale per channel, the scale file has one per " +
         std::string(name_of(input.artifact.quantization.granularity)) +
         "; solve again: 'kvcal solve STATS --dtype int8 --granularity channel'");
  if (input.carrier.kind != KvCarrier::None)
    fail("the checkpoint has a quantization config of its own (" + input.carrier.method +
         "), and vLLM-Ascend goes by " + kDescription + " alone; export into the original checkpoint");
}

void add(ExportPlan& plan, Json& description, const LayerScales& layer, const char* site, const std::string& projection,
         const std::vector<float>& values) {
  const auto n = static_cast<int64_t>(values.size());
  const std::string module = layer.module + "." + projection;
  plan.tensors.push_back({module + ".kv_cache_scale", Shape{n}, values});
  // It is added on writing, but on reading only sometimes taken off again: anything but 0 is wrong.
  plan.tensors.push_back({module + ".kv_cache_offset", Shape{n}, std::vector<float>(values.size(), 0.0F)});
  plan.scales.push_back({layer.layer, site, module + ".kv_cache_scale", values});
  for (const char* member : {".kv_cache_scale", ".kv_cache_offset"}) description[module + member] = "C8";
}

/// Every weight must be listed: of one that is not, the kind is looked up all the same.
Json float_weights(const std::filesystem::path& folder) {
  Json description = {{"kv_cache_type", "C8"}};
  const Checkpoint checkpoint = Checkpoint::open(folder);
  for (const std::string& name : checkpoint.names())
    if (name.ends_with(".weight")) description[name] = "FLOAT";
  return description;
}

ExportPlan plan(const ExportInput& input) {
  check(input);
  ExportPlan result;
  result.dropped = replaced_scales(input);
  Json description = float_weights(input.model.folder);
  for (LayerScales& layer : layer_scales(input.artifact, input.model, Granularity::Channel)) {
    for (std::vector<float>* values : {&layer.key, &layer.value})
      for (float& value : *values) value = held_in_model_dtype(value, input.carrier.half_precision, layer.module);
    add(result, description, layer, "key", "k_proj", layer.key);
    add(result, description, layer, "value", "v_proj", layer.value);
  }
  result.files = {{kDescription, json_text(description)}};
  result.serving.commands = {"vllm serve " + shell_word(input.out.string()) + " --quantization ascend"};
  result.serving.notes = {
      "for vLLM-Ascend " + std::string(ascend_support(input.model.spec.architecture).versions) +
          " alone: other servers stop at these tensors, or serve the folder without them",
      "heads must be a multiple of 32 wide, and --block-size a multiple of 32: its INT8 cache is laid out in such "
      "blocks",
      "the values are exact in bfloat16, rounded up: vLLM-Ascend keeps them in the model's dtype; offsets are 0",
      "known from: vllm-ascend 0.23.0.post1 and 0.30.0rc2, whose loading functions were executed alone, without an "
      "NPU"};
  return result;
}

void read_back(const ExportInput& input, const ExportPlan& plan, const std::filesystem::path& written) {
  read_back_folder(input, plan, written);
  const Json description = parse_json(read_file(written / kDescription, kDescriptionBytes));
  if (get_string(description, "kv_cache_type") != "C8") fail("the description names no INT8 cache");
  for (const PlannedScale& s : plan.scales)
    if (!find_member(description, s.name.c_str())) fail("the description does not list " + quoted(s.name));
}

}  // namespace

Exporter vllm_ascend_exporter() {
  return {
      "vllm-ascend", "an INT8 cache with a scale per channel, for vLLM-Ascend (C8)", true, plan, read_back, {}, true,
      "vLLM-Ascend"};
}

}  // namespace kvcal
