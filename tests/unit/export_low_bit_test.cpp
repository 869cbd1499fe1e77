// INT8 caches and the files of servers that read no safetensors: what is written, against what each reader takes.
#include <bit>
#include <cmath>

#include "checkpoint/kv_scale_names.h"
#include "unit/export_fixture.h"

namespace kvcal {
namespace {

/// Channel c has the scale of its site times (1 + c) / 64.
void make_per_channel(Artifact& artifact) {
  artifact.quantization.dtype = "int8";
  artifact.quantization.max = 127;
  artifact.quantization.granularity = Granularity::Channel;
  for (ArtifactLayer& layer : artifact.layers)
    for (ArtifactSite* site : {&layer.key, &layer.value}) {
      const int64_t width = site == &layer.key ? layer.head_dim_k : layer.head_dim_v;
      for (int64_t c = 0; c < layer.n_kv_heads * width; ++c)
        site->scale_per_channel.push_back(site->scale * static_cast<float>(1 + c) / 64);
    }
}

void make_int8(Artifact& artifact) {
  artifact.quantization.dtype = "int8";
  artifact.quantization.max = 127;
}

std::vector<float> floats(const Json& values) {
  std::vector<float> all;
  for (const Json& value : values) all.push_back(value.get<float>());
  return all;
}

Json written(const Exported& model) { return parse_json(read_file(model.out(), 1 << 20)); }

/// What read_back says of the file with another text.
std::string read_back_of(const Exported& from, const char* target, const Json& file) {
  const ModelIdentity model = from.model();
  const Artifact artifact = artifact_for(model);
  const Carrier carrier = carrier_of(read_config(from.source()).config, from.source());
  const ExportOptions options;
  const ExportInput input = {artifact, model, carrier, options, "scales.json", from.out()};
  from.write_file("changed.json", file.dump());
  try {
    find_exporter(target).read_back(input, find_exporter(target).plan(input), from.folder() / "changed.json");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

template <class Change>
std::string refusal(const Exported& model, const char* target, Change&& change, const ExportOptions& options = {}) {
  try {
    model.write(target, change, options);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

bool contains(const std::string& text, const char* part) { return text.find(part) != text.npos; }

// ------------------------------------------------------------------ vLLM-Ascend

TEST(ExportVllmAscend, ScalesAndOffsetsOfEachChannel) {
  const Exported qwen("qwen3");
  qwen.write("vllm-ascend", make_per_channel);
  const Checkpoint made = Checkpoint::open(qwen.out());
  const KvLayout cache = qwen.model().spec.caches[1];
  const auto n = static_cast<size_t>(cache.n_kv_heads * cache.head_dim_k);
  for (const std::string projection : {"k_proj", "v_proj"}) {
    const std::string module = "model.layers.1.self_attn." + projection;
    const float site = projection == "k_proj" ? key_scale(1) : key_scale(1) / 4;
    std::vector<float> scales(n), offsets(n, 1.0F);
    ASSERT_TRUE(made.has(module + ".kv_cache_scale"));
    EXPECT_EQ(made.find(module + ".kv_cache_scale")->shape, (Shape{static_cast<int64_t>(n)}));
    made.read(module + ".kv_cache_scale", 0, std::as_writable_bytes(std::span(scales)));
    made.read(module + ".kv_cache_offset", 0, std::as_writable_bytes(std::span(offsets)));
    for (size_t c = 0; c < n; ++c) {
      const float exact = site * static_cast<float>(1 + c) / 64;
      EXPECT_GE(scales[c], exact);
      EXPECT_LE(scales[c], exact * (1 + 0x1p-7F));
      EXPECT_EQ(std::bit_cast<uint32_t>(scales[c]) & 0xFFFFU, 0U) << "the server keeps them in bfloat16";
      EXPECT_EQ(offsets[c], 0) << "which is not taken off again where a token is generated";
    }
  }
  EXPECT_EQ(qwen.out_text("config.json"), qwen.config());
}

/// AscendModelSlimConfig of vllm-ascend 0.23.0.post1: _add_kvcache_quant_metadata and is_layer_skipped_ascend.
TEST(ExportVllmAscend, TheDescriptionListsEveryWeight) {
  const Exported qwen("qwen3");
  qwen.write("vllm-ascend", make_per_channel);
  const Json description = parse_json(qwen.out_text("quant_model_description.json"));
  EXPECT_EQ(description["kv_cache_type"], "C8");
  size_t n_cached = 0;
  for (const auto& [name, kind] : description.items()) n_cached += name.find("k_proj.kv_cache_scale") != name.npos;
  EXPECT_EQ(n_cached, qwen.model().spec.caches.size());
  const Checkpoint source = Checkpoint::open(qwen.source());
  for (const std::string& name : source.names()) {
    const bool is_weight = name.ends_with(".weight");
    EXPECT_EQ(is_weight ? description.value(name, "") : "FLOAT", "FLOAT") << name;
  }
}

TEST(ExportVllmAscend, IsTheSameModelAndNotExportedTwice) {
  const Exported qwen("qwen3");
  qwen.write("vllm-ascend", make_per_channel);
  EXPECT_EQ(identify_model(qwen.out()).weights_fingerprint, qwen.model().weights_fingerprint);
  EXPECT_EQ(kv_scale_tensors(Checkpoint::open(qwen.out())).size(), 4 * qwen.model().spec.caches.size());
}

/// Of 0.30 by the loader of the class; 0.23 patches three.
TEST(ExportVllmAscend, NamesTheVersionsThatLoadTheClass) {
  for (const auto& [golden, versions] : {std::pair{"qwen3", "for vLLM-Ascend 0.23 and 0.30 alone"},
                                         {"llama", "for vLLM-Ascend 0.30 alone"},
                                         {"qwen3_5", "for vLLM-Ascend 0.30 alone"}})
    EXPECT_TRUE(contains(Exported(golden).write("vllm-ascend", make_per_channel).serving.notes.front(), versions))
        << golden;
}

TEST(ExportVllmAscend, Refuses) {
  const Exported qwen("qwen3"), cohere("cohere"), starcoder("starcoder2");
  EXPECT_TRUE(contains(refusal(cohere, "vllm-ascend", make_per_channel), "makes qkv_proj of k_proj before"));
  EXPECT_TRUE(contains(refusal(starcoder, "vllm-ascend", make_per_channel), "was not read"));
  EXPECT_TRUE(contains(refusal(qwen, "vllm-ascend", make_int8), "--granularity channel"));
  EXPECT_TRUE(contains(refusal(qwen, "vllm-ascend", [](Artifact&) {}), "--dtype int8"));
  for (const auto& [golden, why] : {std::pair{"deepseek_v3", "FAKQuant"}, {"deepseek_v32", "scales of its own"}})
    EXPECT_TRUE(contains(refusal(Exported(golden), "vllm-ascend", make_per_channel), why)) << golden;
  const Exported quantized("qwen3");
  quantized.quantize({{"quant_method", "fp8"}});
  EXPECT_TRUE(contains(refusal(quantized, "vllm-ascend", make_per_channel), "quantization config of its own"));
}

/// is_c8_quant_layer() of both versions: a layer whose scale of keys the description does not name stays as it is.
TEST(ExportVllmAscend, KeepsSingleLayers) {
  const Exported qwen("qwen3");
  ExportOptions skip;
  skip.skip_layers = {1};
  const ExportPlan plan = qwen.write("vllm-ascend", make_per_channel, skip);
  EXPECT_TRUE(contains(plan.serving.notes.front(), "layer(s) 1 stay in 16 bits"));
  const Json description = parse_json(qwen.out_text("quant_model_description.json"));
  for (const auto& [name, kind] : description.items())
    EXPECT_TRUE(kind == "FLOAT" || name.find(".1.") == name.npos) << name;
  EXPECT_EQ(kv_scale_tensors(Checkpoint::open(qwen.out())).size(), 4 * (qwen.model().spec.caches.size() - 1));
}

TEST(ExportVllmAscend, NamesItsOwnFormatWhereALayerIsRuined) {
  const auto ruined = [](Artifact& a) {
    make_per_channel(a);
    a.layers[1].value.assessment.fp8 = Fitness::Keep16;
  };
  const std::string said = refusal(Exported("qwen3"), "vllm-ascend", ruined);
  EXPECT_TRUE(contains(said, "an INT8 cache ruins the attention of layer(s) 1")) << said;
  EXPECT_TRUE(contains(said, "'--skip-layers keep16' (vLLM-Ascend)")) << said;
}

/// AscendC8MXFPKVCacheAttentionMethod of 0.30: U8, 2^(byte - 127) is the scale.
TEST(ExportAscendMxfp8, APowerOfTwoForEachChannelOfValues) {
  const Exported qwen("qwen3_5_long");
  const ExportPlan plan = qwen.write("ascend-mxfp8", make_per_channel);
  const Checkpoint made = Checkpoint::open(qwen.out());
  const KvLayout cache = qwen.model().spec.caches[0];
  const std::string module = module_name(qwen.model().tensor_prefix, cache), name = module + ".fa_v.scale";
  const auto n = static_cast<size_t>(cache.n_kv_heads * cache.head_dim_v);
  ASSERT_TRUE(made.has(name));
  EXPECT_EQ(made.find(name)->dtype, DType::U8);
  EXPECT_EQ(made.find(name)->shape, (Shape{static_cast<int64_t>(n), 1}));
  std::vector<uint8_t> bytes(n);
  made.read(name, 0, std::as_writable_bytes(std::span(bytes)));
  for (size_t c = 0; c < n; ++c) {
    const double range = 127.0 * static_cast<double>(key_scale(cache.layer)) / 4 * static_cast<double>(1 + c) / 64;
    const double scale = std::ldexp(1.0, bytes[c] - 127);
    EXPECT_GE(448 * scale, 4 * range * (1 - 0x1p-8)) << "room for four times the largest value, channel " << c;
    EXPECT_LT(448 * scale, 8 * range * (1 + 0x1p-8)) << c;
    EXPECT_EQ(static_cast<double>(plan.scales[0].values[c]), scale);
  }
  const Json description = parse_json(qwen.out_text("quant_model_description.json"));
  EXPECT_EQ(description[module + ".quant_type"], "QK_MXFP8_DYNAMIC_V_MXFP8_PER_CHANNEL");
  EXPECT_FALSE(description.contains("kv_cache_type"));
  EXPECT_EQ(identify_model(qwen.out()).weights_fingerprint, qwen.model().weights_fingerprint);
  EXPECT_EQ(kv_scale_tensors(made).size(), qwen.model().spec.caches.size());
}

TEST(ExportAscendMxfp8, Refuses) {
  const auto said = [](const char* golden, auto change, const ExportOptions& options = {}) {
    return refusal(Exported(golden), "ascend-mxfp8", change, options);
  };
  EXPECT_TRUE(contains(said("qwen3", make_per_channel), "channels a head, where a multiple of 64"));
  EXPECT_TRUE(contains(said("qwen3", make_per_channel), "'--to vllm-ascend' writes INT8"));
  EXPECT_FALSE(contains(said("gemma3", make_per_channel), "vllm-ascend'"));  // which refuses it
  EXPECT_TRUE(contains(said("gemma3", make_per_channel), "in MXFP8"));
  const auto rounded = [](Artifact& a) {
    make_per_channel(a);
    a.quantization.policy = "pow2";
  };
  EXPECT_TRUE(contains(said("qwen3_5_long", rounded), "do not tell"));
  EXPECT_TRUE(contains(said("deepseek_v3", make_per_channel), "FAKQuant"));
  EXPECT_TRUE(contains(said("starcoder2", make_per_channel), "was not read"));
  EXPECT_TRUE(contains(said("qwen3_5_long", make_int8), "--granularity channel"));
  EXPECT_TRUE(contains(said("qwen3_5_long", [](Artifact&) {}), "--dtype int8"));
  ExportOptions options;
  options.skip_layers = {3};
  EXPECT_TRUE(contains(said("qwen3_5_long", make_per_channel, options), "are to be kept; use '--to vllm-ascend', or"));
  options.skip_layers = {1};
  EXPECT_TRUE(contains(said("gemma3", make_per_channel, options), "are to be kept; keep the whole cache"));
  options = {};
  options.formats = {{3, "int8"}};
  EXPECT_TRUE(contains(said("qwen3_5_long", make_per_channel, options), "'evaluate' does not round to"));
  const auto tiny = [](Artifact& a) {
    make_per_channel(a);
    for (ArtifactLayer& layer : a.layers) layer.value.absmax = 1e-37F;
  };
  EXPECT_TRUE(contains(said("qwen3_5_long", tiny), "does not hold"));
}

TEST(ExportLowBit, ScalesPerChannelAreRefusedWhereOneIsTaken) {
  const auto fp8_channels = [](Artifact& a) {
    make_per_channel(a);
    a.quantization.dtype = "fp8_e4m3";
  };
  const Exported llama("llama");
  for (const char* target : {"vllm", "sglang", "sglang-json", "tgi", "lightllm"})
    EXPECT_TRUE(contains(refusal(llama, target, fp8_channels), "--granularity")) << target;
  for (const char* target : {"vllm", "sglang", "tgi", "lightllm"})
    EXPECT_TRUE(contains(refusal(llama, target, make_per_channel), "for int8")) << target;
}

// ------------------------------------------------------------------ LightLLM

/// As FP8StaticPerTensorQuantMemManager and FP8StaticPerHeadQuantMemManager of LightLLM read it (ModelTC/LightLLM,
/// common/ kv_cache_mem_manager/fp8_static_per_{tensor,head}_quant_mem_manager.py): what they compare, and the scales
/// of a rank.
struct LightLlmScales {
  std::vector<std::vector<float>> rows, queries;  // keys, then values; by layer
};

LightLlmScales lightllm_reads(const Json& cfg, bool per_head, const std::string& architecture, size_t n_layers,
                              size_t rank, size_t n_ranks) {
  EXPECT_EQ(cfg["qmin"], -448.0);
  EXPECT_EQ(cfg["qmax"], 448.0);
  EXPECT_EQ(cfg["architectures"], architecture);
  EXPECT_EQ(cfg["quant_type"], per_head ? "per_head" : "per_tensor");
  EXPECT_EQ(cfg["num_layers"], n_layers);
  EXPECT_EQ(cfg["num_target_layers"].get<size_t>() + cfg["num_draft_layers"].get<size_t>(), n_layers);
  const auto n_heads = cfg["num_head"].get<size_t>();
  EXPECT_EQ(cfg["scales_shape"], (Json{n_layers, per_head ? 2 * n_heads : 2}));
  EXPECT_EQ(cfg["scales"].size(), n_layers);
  LightLlmScales scales;
  for (const Json& row : cfg["scales"]) {
    const std::vector<float> all = floats(row);
    EXPECT_EQ(all.size(), per_head ? 2 * n_heads : 2U);
    if (!per_head) {
      scales.rows.push_back(all);
      continue;
    }
    const size_t n = n_heads / n_ranks;
    std::vector<float> own(all.begin() + static_cast<long>(rank * n), all.begin() + static_cast<long>((rank + 1) * n));
    for (size_t h = rank * n; h < (rank + 1) * n; ++h) own.push_back(all[n_heads + h]);
    scales.rows.push_back(own);
  }
  if (!per_head) return scales;
  const Json& queries = cfg["q_calibration"];
  EXPECT_EQ(n_heads % queries["num_head"].get<size_t>(), 0U);
  for (const Json& row : queries["scales"]) scales.queries.push_back(floats(row));
  return scales;
}

TEST(ExportLightLlm, OnePerLayer) {
  const Exported llama("llama");
  llama.write("lightllm");
  const size_t n = llama.model().spec.caches.size();
  const LightLlmScales read = lightllm_reads(written(llama), false, "LlamaForCausalLM", n, 0, 1);
  for (size_t i = 0; i < n; ++i) {
    const float key = key_scale(static_cast<int>(i));
    EXPECT_EQ(read.rows[i], (std::vector<float>{key, key / 4}));
  }
}

TEST(ExportLightLlm, OnePerHeadAndQueriesByGroup) {
  const Exported llama("llama");  // 2 KV heads, 4 query heads
  llama.write("lightllm", make_per_head);
  const size_t n = llama.model().spec.caches.size();
  for (const size_t rank : {0, 1}) {
    const LightLlmScales read = lightllm_reads(written(llama), true, "LlamaForCausalLM", n, rank, 2);
    const float key = key_scale(1), head = static_cast<float>(1 + rank);
    EXPECT_EQ(read.rows[1], (std::vector<float>{key * head, key / 4 * head}));
    EXPECT_EQ(read.queries[1], (std::vector<float>{key * 2 * 2, key * 2 * 4}))
        << "the larger of heads 0 and 1, 2 and 3";
  }
}

TEST(ExportLightLlm, OfAHybridTheLayersThatOwnACache) {
  const Exported hybrid("qwen3_5");
  hybrid.write("lightllm");
  const std::vector<KvLayout> caches = hybrid.model().spec.caches;
  ASSERT_LT(caches.size(), hybrid.model().spec.layers.size());
  const LightLlmScales read = lightllm_reads(written(hybrid), false, "Qwen3_5ForCausalLM", caches.size(), 0, 1);
  EXPECT_EQ(read.rows[0][0], key_scale(caches[0].layer));
}

TEST(ExportLightLlm, ReadsBackWhatItWrote) {
  const Exported llama("llama");
  llama.write("lightllm");
  const Json file = written(llama);
  EXPECT_EQ(read_back_of(llama, "lightllm", file), "");
  Json changed = file;
  changed["scales"][1][1] = 0.5;
  EXPECT_TRUE(contains(read_back_of(llama, "lightllm", changed), "row 1 has another value"));
  changed = file;
  changed["architectures"] = "OtherForCausalLM";
  EXPECT_TRUE(contains(read_back_of(llama, "lightllm", changed), "another architecture"));
}

TEST(ExportLightLlm, Refuses) {
  EXPECT_TRUE(contains(refusal(Exported("deepseek_v3"), "lightllm", [](Artifact&) {}), "latent attention"));
  EXPECT_TRUE(contains(refusal(Exported("gemma4"), "lightllm", [](Artifact&) {}), "share caches"));
}

// ------------------------------------------------------------------ onnxruntime-genai

/// As make_kv_cache_scale_initializers of onnxruntime-genai 0.18.0 reads it: the scales of a layer that has a cache.
std::vector<float> ort_reads(const Json& file, const char* member, int layer, double own_qmax, size_t n) {
  const Json& layers = file["layer_ids"];
  const auto at = std::find(layers.begin(), layers.end(), Json(layer));
  EXPECT_NE(at, layers.end());
  const Json& entry = file["scales"][member][static_cast<size_t>(at - layers.begin())];
  std::vector<float> scales = entry.is_array() ? floats(entry) : std::vector{entry.get<float>()};
  EXPECT_EQ(scales.size(), n);
  for (float& scale : scales) scale = static_cast<float>(scale * (file["qmax"].get<double>() / own_qmax));
  return scales;
}

TEST(ExportOrtGenai, OnePerLayer) {
  const Exported hybrid("qwen3_5");
  hybrid.write("ort-genai", make_int8);
  const Json file = written(hybrid);
  EXPECT_EQ(file["layer_ids"].size(), hybrid.model().spec.caches.size());
  for (const KvLayout& cache : hybrid.model().spec.caches) {
    EXPECT_EQ(ort_reads(file, "k_scales", cache.layer, 128, 1), std::vector{key_scale(cache.layer)});
    EXPECT_EQ(ort_reads(file, "v_scales", cache.layer, 128, 1), std::vector{key_scale(cache.layer) / 4});
  }
}

TEST(ExportOrtGenai, OnePerChannel) {
  const Exported llama("llama");
  llama.write("ort-genai", make_per_channel);
  const KvLayout cache = llama.model().spec.caches[1];
  const auto n = static_cast<size_t>(cache.n_kv_heads * cache.head_dim_k);
  const std::vector<float> keys = ort_reads(written(llama), "k_scales", 1, 128, n);
  for (size_t c = 0; c < n; ++c) EXPECT_EQ(keys[c], key_scale(1) * static_cast<float>(1 + c) / 64);
  // Of four bits, 16 times as large.
  EXPECT_EQ(ort_reads(written(llama), "k_scales", 1, 8, n)[0], keys[0] * 16);
}

TEST(ExportOrtGenai, HeadsAsTheirChannels) {
  const Exported llama("llama");
  llama.write("ort-genai", make_per_head);
  const KvLayout cache = llama.model().spec.caches[0];
  const auto width = static_cast<size_t>(cache.head_dim_v);
  const std::vector<float> values = ort_reads(written(llama), "v_scales", 0, 448, 2 * width);
  EXPECT_EQ(values[width - 1], key_scale(0) / 4);
  EXPECT_EQ(values[width], key_scale(0) / 4 * 2);
}

TEST(ExportOrtGenai, ReadsBackWhatItWroteAndRefuses) {
  const Exported llama("llama");
  llama.write("ort-genai");
  Json file = written(llama);
  EXPECT_EQ(read_back_of(llama, "ort-genai", file), "");
  file["scales"]["v_scales"][1] = 0.5;
  EXPECT_TRUE(contains(read_back_of(llama, "ort-genai", file), "layer 1 has another value"));
  EXPECT_TRUE(contains(refusal(Exported("deepseek_v3"), "ort-genai", [](Artifact&) {}), "latent attention"));
  EXPECT_TRUE(contains(refusal(Exported("gemma4"), "ort-genai", [](Artifact&) {}), "one number and one width"));
}

}  // namespace
}  // namespace kvcal
