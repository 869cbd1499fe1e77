// --to vllm-ascend: a checkpoint whose cache vLLM-Ascend stores in INT8, a scale and an offset for each channel of keys
// and values (its "C8"); --to ascend-mxfp8: in MXFP8, a power of two for each channel of values (its "C8-MXFP").
// Both as ModelSlim would have written them around weights that are not quantized. Rules: vllm-ascend 0.23.0.post1,
// quantization/modelslim_config.py, quantization/methods/kv_c8.py, patch/worker/patch_gqa_c8.py, and 0.30.0rc2,
// quantization/configs/modelslim_config.py, quantization/methods/kv_cache/kv_c8.py and mxfp_c8.py, whose functions were
// executed; attention/attention_v1.py and attention_c8_mxfp.py, which were read.
#include <algorithm>
#include <cmath>

#include "artifact/e8m0_scale.h"
#include "artifact/json_text.h"
#include "base/read_file.h"
#include "checkpoint/checkpoint.h"
#include "export/checkpoint_target.h"
#include "export/serve.h"
#include "export/targets.h"
#include "servers/ascend_support.h"

namespace kvcal {
namespace {

void check(const ExportInput& input, AscendCache cache) {
  const std::string& architecture = input.model.spec.architecture;
  const std::string what = cache == AscendCache::Int8 ? "INT8" : "MXFP8";
  if (const AscendSupport support = ascend_support(architecture, cache); support.versions.empty())
    fail("vLLM-Ascend 0.23 and 0.30 load no scales of an " + what + " cache for " + architecture + ": " +
         std::string(support.why_not));
  check_format(input.artifact, {"int8"}, "what " + what + " caches of vLLM-Ascend take follows from INT8 scales");
  if (input.artifact.quantization.granularity != Granularity::Channel)
    fail("vLLM-Ascend takes one scale per channel, the scale file has one per " +
         std::string(name_of(input.artifact.quantization.granularity)) +
         "; solve again: 'kvcal solve STATS --dtype int8 --granularity channel'");
  if (input.carrier.kind != KvCarrier::None)
    fail("the checkpoint has a quantization config of its own (" + input.carrier.method +
         "), and vLLM-Ascend goes by " + kModelSlimFile + " alone; export into the original checkpoint");
}

void add(ExportPlan& plan, Json& description, const LayerScales& layer, const char* site, const std::string& projection,
         const std::vector<float>& values) {
  const auto n = static_cast<int64_t>(values.size());
  const std::string module = layer.module + "." + projection;
  plan.tensors.push_back({module + ".kv_cache_scale", Shape{n}, values});
  // It is added on writing, but on reading only sometimes taken off again: anything but 0 is wrong.
  plan.tensors.push_back({module + ".kv_cache_offset", Shape{n}, std::vector<float>(values.size(), 0.0F)});
  plan.scales.push_back({layer.layer, site, module + ".kv_cache_scale", values});
  for (const char* member : {".kv_cache_scale", ".kv_cache_offset"}) description[module + member] = kModelSlimInt8;
}

/// Every weight must be listed: of one that is not, the kind is looked up all the same.
Json float_weights(const std::filesystem::path& folder) {
  Json description = Json::object();
  const Checkpoint checkpoint = Checkpoint::open(folder);
  for (const std::string& name : checkpoint.names())
    if (name.ends_with(".weight")) description[name] = "FLOAT";
  return description;
}

ExportPlan plan(const ExportInput& input) {
  check(input, AscendCache::Int8);
  ExportPlan result;
  result.dropped = replaced_scales(input);
  Json description = float_weights(input.model.folder);
  description["kv_cache_type"] = kModelSlimInt8;
  const std::vector<int> kept = skipped_layers(input.artifact, input.options);
  for (LayerScales& layer : layer_scales(input.artifact, input.model, Granularity::Channel)) {
    if (std::ranges::binary_search(kept, layer.owner)) continue;
    for (std::vector<float>* values : {&layer.key, &layer.value})
      for (float& value : *values) value = held_in_model_dtype(value, input.carrier.half_precision, layer.module);
    add(result, description, layer, "key", "k_proj", layer.key);
    add(result, description, layer, "value", "v_proj", layer.value);
  }
  result.files = {TextFile{kModelSlimFile, json_text(description)}};
  result.serving.commands = {"vllm serve " + shell_word(input.out.string()) + " --quantization ascend"};
  result.serving.notes = {
      "for vLLM-Ascend " + std::string(ascend_support(input.model.spec.architecture, AscendCache::Int8).versions) +
          " alone: vLLM itself stops at these tensors, and what SGLang does with them was not tried",
      "heads must be a multiple of 32 wide, and --block-size a multiple of 32: its INT8 cache is laid out in such "
      "blocks",
      "the values are exact in bfloat16, rounded up: vLLM-Ascend keeps them in the model's dtype; offsets are 0",
      "known from: vllm-ascend 0.23.0.post1 and 0.30.0rc2, whose loading functions were executed alone, without an "
      "NPU"};
  if (!kept.empty())
    result.serving.notes.insert(result.serving.notes.begin(),
                                "layer(s) " + layer_list(kept) + " stay in 16 bits, since " + kModelSlimFile +
                                    " does not list them; that both kinds are served side by side was read, not run");
  return result;
}

/// What its kernels cannot: attention_c8_mxfp.py raises at widths and windows, and passes no sinks on.
void check_kernels(const ModelSpec& spec) {
  for (const KvLayout& cache : spec.caches) {
    std::string what;
    if (cache.head_dim_v % 32 != 0)
      what = "values of " + std::to_string(cache.head_dim_v) + " channels a head, where a multiple of 32 is needed";
    if (cache.head_dim_k % 64 != 0)
      what = "keys of " + std::to_string(cache.head_dim_k) + " channels a head, where a multiple of 64 is needed";
    if (cache.window > 0)
      what = "a window of " + std::to_string(cache.window) + ", where all positions must be visible";
    if (cache.learned_sinks) what = "learned sinks, which its kernels are not given";
    if (!what.empty())
      fail("vLLM-Ascend cannot store layer " + std::to_string(cache.layer) + " in MXFP8: it has " + what +
           (ascend_support(spec.architecture, AscendCache::Int8).versions.empty()
                ? ""
                : "; '--to vllm-ascend' writes INT8"));
  }
}

/// Its reciprocal is kept in the model's dtype; byte 0 is taken for 127, and 255 is no number.
float e8m0_byte(int exponent, bool half_precision, const std::string& name) {
  const int byte = exponent + kE8m0Bias;
  if (byte < 1 || byte > 254 || (half_precision && (exponent < -15 || exponent > 14)))
    fail(quoted(name) + " would be 2^" + std::to_string(exponent) +
         ", whose reciprocal the model's dtype does not hold; fold the values: 'kvcal fold --balance channel'");
  return static_cast<float>(byte);
}

void add_mxfp8(ExportPlan& plan, Json& description, const ExportInput& input, const LayerScales& layer) {
  const auto owner = std::ranges::find(input.artifact.layers, layer.owner, &ArtifactLayer::index);
  const std::string name = layer.module + ".fa_v.scale";
  std::vector<float> bytes, scales;
  for (const int exponent : value_exponents(owner->value, input.artifact.quantization)) {
    bytes.push_back(e8m0_byte(exponent, input.carrier.half_precision, name));
    scales.push_back(std::ldexp(1.0F, exponent));
  }
  plan.tensors.push_back({name, Shape{static_cast<int64_t>(bytes.size()), 1}, std::move(bytes), DType::U8});
  plan.scales.push_back({layer.layer, "value", name, std::move(scales)});
  description[name] = description[layer.module + ".quant_type"] = kModelSlimMxfp8;
}

ExportPlan plan_mxfp8(const ExportInput& input) {
  check(input, AscendCache::Mxfp8);
  if (!input.options.formats.empty())
    fail("the recipe was measured in other formats than this cache's MXFP8, which 'evaluate' does not round to");
  if (!has_ranges(input.artifact.quantization))
    fail("an MXFP8 cache needs the range of each channel, which scales of the policy " +
         input.artifact.quantization.policy +
         " do not tell; solve again: 'kvcal solve STATS --dtype int8 --granularity channel'");
  check_kernels(input.model.spec);
  ExportPlan result;
  result.dropped = replaced_scales(input);
  Json description = float_weights(input.model.folder);
  for (const LayerScales& layer : layer_scales(input.artifact, input.model, Granularity::Channel))
    add_mxfp8(result, description, input, layer);
  result.files = {TextFile{kModelSlimFile, json_text(description)}};
  result.serving.commands = {"vllm serve " + shell_word(input.out.string()) +
                             " --quantization ascend --kv-cache-dtype mxfp8"};
  result.serving.notes = {
      "for vLLM-Ascend 0.30 on Ascend 950 alone: vLLM itself stops at these tensors, and so does this server with "
      "another --kv-cache-dtype; what SGLang does with them was not tried",
      "keys have no scale here: the server computes one for 32 values of each while serving. Values are stored in E4M3 "
      "at powers of two, which provide for at least four times the largest measured one",
      "the scale file's answers are about INT8, and were not asked: this cache was not measured",
      "--block-size, where it is given, must be a multiple of 512",
      "known from: vllm-ascend 0.30.0rc2, whose loading functions were executed alone, without an NPU"};
  return result;
}

Json description_in(const std::filesystem::path& folder) {
  return parse_json(read_file(folder / kModelSlimFile, kMostModelSlimBytes));
}

void read_back(const ExportInput& input, const ExportPlan& plan, const std::filesystem::path& written) {
  read_back_folder(input, plan, written);
  const Json description = description_in(written);
  if (get_string(description, "kv_cache_type") != kModelSlimInt8) fail("the description names no INT8 cache");
  for (const PlannedScale& s : plan.scales)
    if (!find_member(description, s.name.c_str())) fail("the description does not list " + quoted(s.name));
}

void read_back_mxfp8(const ExportInput& input, const ExportPlan& plan, const std::filesystem::path& written) {
  read_back_folder(input, plan, written);
  const Json description = description_in(written);
  for (const LayerScales& layer : layer_scales(input.artifact, input.model, Granularity::Channel))
    if (get_string(description, (layer.module + ".quant_type").c_str()) != kModelSlimMxfp8)
      fail("the description names no MXFP8 cache of " + quoted(layer.module));
}

}  // namespace

Exporter vllm_ascend_exporter() {
  return {"vllm-ascend", "an INT8 cache with a scale per channel, for vLLM-Ascend (C8)", true, plan, read_back};
}

Exporter vllm_ascend_mxfp8_exporter() {
  Exporter exporter = {"ascend-mxfp8",
                       "an MXFP8 cache with powers of two, for vLLM-Ascend (C8-MXFP)",
                       true,
                       plan_mxfp8,
                       read_back_mxfp8,
                       {},
                       true,
                       "an MXFP8 cache of vLLM-Ascend"};
  exporter.is_assessed = false;
  return exporter;
}

}  // namespace kvcal
