// Damages of checkpoint folders, one way each, with the rules that must be found.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "check/rules.h"
#include "unit/validate_modelslim_cases.h"

namespace kvcal {

inline std::function<void(ScaleFolder&)> set_scale(const std::string& tensor, float value) {
  return [=](ScaleFolder& f) { f.tensors[tensor] = f32_tensor(Shape{1}, {value}); };
}

inline std::function<void(ScaleFolder&)> in_scheme(const char* key, Json value) {
  return [=](ScaleFolder& f) { f.config["quantization_config"]["kv_cache_scheme"][key] = value; };
}

/// Under vLLM alone, whose compressed-tensors method takes every value: what is found is found by the checks.
inline std::vector<FolderCase> number_cases() {
  const ScaleFolder sound = llm_compressor_folder("LlamaForCausalLM", "llama");
  std::vector<FolderCase> cases;
  const auto add = [&](const char* name, Ids ids, std::function<void(ScaleFolder&)> change) {
    ids.insert("S25");
    cases.push_back({name, sound, {"vllm"}, ids, std::move(change)});
  };
  const std::string key = kFirst + ".k_scale";
  add("nothing", {}, [](ScaleFolder&) {});
  add("NaN", {"S01"}, set_scale(key, std::nanf("")));
  add("infinity", {"S01"}, set_scale(key, INFINITY));
  add("zero", {"S02"}, set_scale(key, 0));
  add("negative", {"S02"}, set_scale(key, -0.5F));
  add("subnormal", {"N01"}, set_scale(key, 1e-40F));
  add("epsilon", {"S03"}, set_scale(key, 1.1920929e-07F));
  add("tiny", {"S04"}, set_scale(key, 5e-6F));
  add("huge", {"S05"}, set_scale(key, 100));
  add("beyond all", {"S26"}, set_scale(key, 3e38F));
  add("as small as may be", {"S24"}, set_scale(key, 1.1e-5F));
  add("as large as may be", {"S24"}, set_scale(key, 64));
  add("outlier", {"S24"}, set_scale(key, 1));
  add("all ones", {"S08"}, [](ScaleFolder& f) {
    for (auto& [name, t] : f.tensors)
      if (name.ends_with("_scale")) t = f32_tensor(Shape{1}, {1});
  });
  add("half precision", {"S21"}, [=](ScaleFolder& f) {
    f.tensors[key] = {DType::F16, Shape{1}, std::string("\x01\x00", 2)};  // 6e-8
  });
  add("float8", {"S21"}, [=](ScaleFolder& f) { f.tensors[key] = {DType::F8E4M3, Shape{1}, std::string("\x08", 1)}; });
  add("three scales", {"S17", "V01"}, [=](ScaleFolder& f) {
    f.tensors[key] = f32_tensor(Shape{3}, {0.01F, 0.01F, 0.01F});
  });
  add("integers", {"S17", "V01"}, [=](ScaleFolder& f) {
    f.tensors[key] = {DType::I32, Shape{1}, std::string(4, '\1')};
  });
  add("zero in half precision", {"S02"}, [=](ScaleFolder& f) {
    f.tensors[key] = {DType::F16, Shape{1}, std::string(2, '\0')};
  });
  add("two names", {"S20"}, set_scale(kFirst + ".k_proj.k_scale", 0.05F));
  add("a key alone", {"S06"}, [](ScaleFolder& f) { f.tensors.erase(kFirst + ".v_scale"); });
  add("a value alone", {"S06"}, [](ScaleFolder& f) { f.tensors.erase(kFirst + ".k_scale"); });
  add("a layer without", {"S07"}, [](ScaleFolder& f) {
    f.tensors.erase(kFirst + ".k_scale");
    f.tensors.erase(kFirst + ".v_scale");
  });
  add("a layer too many", {"S07", "V01"}, set_scale(attention_of(4) + ".k_scale", 0.01F));
  add("of a tower", {"S07"}, set_scale("vision_tower.layers.0.self_attn.k_scale", 0.01F));
  add("kv_scale", {"C16", "C17"}, [](ScaleFolder& f) {
    f.tensors.erase(kFirst + ".k_scale");
    f.tensors.erase(kFirst + ".v_scale");
    f.tensors[kFirst + ".kv_scale"] = f32_tensor(Shape{1}, {0.01F});
  });
  return cases;
}

inline std::vector<FolderCase> declaration_cases() {
  const ScaleFolder sound = llm_compressor_folder("LlamaForCausalLM", "llama");
  std::vector<FolderCase> cases;
  const auto add = [&](const char* name, Ids ids, std::function<void(ScaleFolder&)> change) {
    ids.insert("S25");
    cases.push_back({name, sound, {"vllm"}, ids, std::move(change)});
  };
  add("no symmetric", {"V01"},
      [](ScaleFolder& f) { f.config["quantization_config"]["kv_cache_scheme"].erase("symmetric"); });
  add("no strategy", {"V01"},
      [](ScaleFolder& f) { f.config["quantization_config"]["kv_cache_scheme"].erase("strategy"); });
  add("int", {"C12", "V01"}, in_scheme("type", "int"));
  add("dynamic", {"C12"}, in_scheme("dynamic", true));
  add("no scheme", {"V03"}, [](ScaleFolder& f) { f.config["quantization_config"].erase("kv_cache_scheme"); });
  add("no quantization_config", {"V01", "V02"}, [](ScaleFolder& f) { f.config.erase("quantization_config"); });
  add("awq", {"V02", "V03"}, [](ScaleFolder& f) {
    f.config["quantization_config"] = {{"quant_method", "awq"}, {"bits", 4}};
  });
  add("attn_head with one scale", {"C11", "V01"}, in_scheme("strategy", "attn_head"));
  add("static activations", {"C14", "V03"}, [](ScaleFolder& f) {
    f.config["quantization_config"] = {{"quant_method", "fp8"}, {"activation_scheme", "static"}};
  });
  add("blocks", {"C13", "V03"}, [](ScaleFolder& f) {
    f.config["quantization_config"] = {
        {"quant_method", "fp8"}, {"activation_scheme", "dynamic"}, {"weight_block_size", {128, 128}}};
    f.tensors["model.layers.0.mlp.up_proj.weight_scale_inv"] = f32_tensor(Shape{1, 1}, {1});
  });
  cases.push_back({"outside the index", sound, {"vllm"}, {"C15"}, [](ScaleFolder& f) {
                     for (auto it = f.tensors.begin(); it != f.tensors.end();)
                       it = it->first.ends_with("_scale") ? (f.unlisted.insert(*it), f.tensors.erase(it))
                                                          : std::next(it);
                   }});
  return cases;
}

/// ModelOpt's list of modules, as 'export --recipe' writes a mixture.
inline std::vector<FolderCase> list_cases() {
  ScaleFolder mixture = modelopt_folder(true, "LlamaForCausalLM", "llama");
  Json& said = mixture.config["quantization_config"];
  said = {{"quant_method", "modelopt"},
          {"quant_algo", "FP8"},
          {"kv_cache_quant_algo", "MIXED_PRECISION"},
          {"kv_cache_schema_version", 1},
          {"kv_cache_deployment_supported", false}};
  for (const auto& [layer, algorithm] : {std::pair{0, "FP8"}, {1, "NVFP4"}, {2, "FP8_K_NVFP4_V"}})
    said["kv_cache_quantized_layers"][attention_of(layer)] = {{"quant_algo", algorithm}};
  std::vector<FolderCase> cases = {{"a mixture", mixture, {}, {"C29", "S25"}, [](ScaleFolder&) {}}};
  const auto add = [&](const char* name, std::function<void(Json&, Json&)> change) {
    cases.push_back({name, mixture, {}, {"C21", "C29", "S25"}, [=](ScaleFolder& f) {
                       Json& changed = f.config["quantization_config"];
                       change(changed, changed["kv_cache_quantized_layers"]);
                     }});
  };
  add("a list of another schema", [](Json& block, Json&) { block["kv_cache_schema_version"] = 2; });
  add("a list without a schema", [](Json& block, Json&) { block.erase("kv_cache_schema_version"); });
  add("a list under another word", [](Json& block, Json&) { block["kv_cache_quant_algo"] = "FP8"; });
  add("a list under no word", [](Json& block, Json&) { block.erase("kv_cache_quant_algo"); });
  add("a list of one algorithm", [](Json&, Json& list) {
    for (Json& module : list) module["quant_algo"] = "NVFP4";
  });
  add("a module of no layer", [](Json&, Json& list) { list[attention_of(9)] = {{"quant_algo", "FP8"}}; });
  add("a module of a projection", [](Json&, Json& list) { list[kFirst + ".k_proj"] = {{"quant_algo", "FP8"}}; });
  add("an algorithm of weights", [](Json&, Json& list) { list[kFirst]["quant_algo"] = "W4A16_AWQ"; });
  add("a module without one", [](Json&, Json& list) { list[kFirst] = Json::object(); });
  cases.push_back({"another list beside", mixture, {}, {"C21", "C29", "S25"}, [](ScaleFolder& f) {
                     f.files["hf_quant_config.json"] =
                         R"({"quantization": {"kv_cache_quant_algo": "FP8", "kv_cache_schema_version": 1,
                         "kv_cache_quantized_layers": {"model.layers.0.self_attn": {"quant_algo": "FP8"}}}})";
                   }});
  return cases;
}

/// What each tool's folder is to each server as it comes.
inline std::vector<FolderCase> tool_cases() {
  const auto nothing = [](ScaleFolder&) {};
  const auto quantized = [](ScaleFolder& f) { f.config["quantization_config"]["quant_algo"] = "FP8"; };
  const std::string llama = "LlamaForCausalLM";
  return {
      {"llm-compressor, SGLang", llm_compressor_folder(llama, "llama"), {"sglang"}, {"S25"}, nothing},
      {"llm-compressor, SGLang's Qwen3", llm_compressor_folder(), {"sglang"}, {"S25", "V02"}, nothing},
      {"llm-compressor, SGLang's Qwen2",
       llm_compressor_folder("Qwen2ForCausalLM", "qwen2"),
       {"sglang"},
       {"C16", "S25"},
       nothing},
      {"attn_head, vLLM", attn_head_folder(llama, "llama"), {"vllm"}, {"C11", "S25"}, nothing},
      {"attn_head, SGLang", attn_head_folder(llama, "llama"), {"sglang"}, {"C11", "S25", "V02", "V03"}, nothing},
      {"attn_head cut for two ranks",
       attn_head_folder(llama, "llama"),
       {},
       {"C11", "S19", "S25"},
       [](ScaleFolder& f) {
         f.config["num_key_value_heads"] = 4;  // of four heads the file has two
         f.tensors[kFirst + ".k_scale"] = f32_tensor(Shape{2}, {0.01F, 0.01F});
         for (const char* site : {".k_scale", ".v_scale"})
           for (int layer = 0; layer < 4; ++layer)
             if (layer || site[1] == 'v')
               f.tensors[attention_of(layer) + site] = f32_tensor(Shape{4}, {0.01F, 0.01F, 0.01F, 0.01F});
       }},
      {"attn_head, three of four heads",
       attn_head_folder(llama, "llama"),
       {},
       {"C11", "S17", "S25"},
       [](ScaleFolder& f) {
         f.config["num_key_value_heads"] = 4;
         for (const char* site : {".k_scale", ".v_scale"})
           for (int layer = 0; layer < 4; ++layer)
             f.tensors[attention_of(layer) + site] = f32_tensor(Shape{4}, {0.01F, 0.01F, 0.01F, 0.01F});
         f.tensors[kFirst + ".k_scale"] = f32_tensor(Shape{3}, {0.01F, 0.01F, 0.01F});
       }},
      {"ModelOpt, KV alone", modelopt_folder(true, llama, "llama"), {"vllm"}, {"S25", "V01"}, nothing},
      {"ModelOpt, FP8 weights", modelopt_folder(true, llama, "llama"), {"vllm"}, {"S25", "V04"}, quantized},
      {"ModelOpt, FP8 weights, SGLang", modelopt_folder(true, llama, "llama"), {"sglang"}, {"S25"}, quantized},
      {"ModelOpt, cast", modelopt_folder(false, llama, "llama"), {"vllm"}, {"F08"}, quantized},
      {"ModelOpt, ones",
       modelopt_folder(true, llama, "llama"),
       {},
       {"S25"},
       [](ScaleFolder& f) {
         for (auto& [name, t] : f.tensors)
           if (name.ends_with("_scale")) t = f32_tensor(Shape{1}, {1});
       }},
      {"AutoFP8", autofp8_folder(), {"sglang"}, {"C14", "C17", "S25", "V03"}, nothing},
      {"AutoFP8, vLLM", autofp8_folder(), {"vllm"}, {"C14", "C16", "C17", "S25", "V03"}, nothing},
      {"Gemma 3's query",
       llm_compressor_folder("Gemma3ForCausalLM", "gemma3_text"),
       {"sglang"},
       {"V01"},
       [](ScaleFolder& f) {
         f.config["sliding_window"] = 512;
         f.config["query_pre_attn_scalar"] = 32;
         f.config["hidden_activation"] = "gelu_pytorch_tanh";
         f.tensors[kFirst + ".q_scale"] = f32_tensor(Shape{1}, {0.05F});
       }},
      {"an older vLLM", llm_compressor_folder(llama, "llama"), {"vllm@0.24"}, {"S25", "V05"}, nothing},
  };
}

/// Models whose layers or keys are special.
inline std::vector<FolderCase> model_folder_cases() {
  const auto bias = [](float x) {
    return [=](ScaleFolder& f) {
      std::vector<float> values(64, 0);
      values[3] = x;
      f.tensors[kFirst + ".k_proj.bias"] = f32_tensor(Shape{64}, values);
    };
  };
  const ScaleFolder qwen2 = llm_compressor_folder("Qwen2ForCausalLM", "qwen2");
  return {
      {"a bias of 3.9", qwen2, {}, {"C01", "S25"}, bias(3.9F)},  // 448 * 0.0086 = 3.855
      {"a bias of 30",
       qwen2,
       {},
       {"S24", "S25"},
       [=](ScaleFolder& f) {
         bias(30)(f);
         set_scale(kFirst + ".k_scale", 0.3F)(f);
       }},
      {"a bias of 50",
       qwen2,
       {},
       {"C03", "S24", "S25"},
       [=](ScaleFolder& f) {
         bias(50)(f);
         set_scale(kFirst + ".k_scale", 0.3F)(f);
       }},
      {"a bias of 120",
       qwen2,
       {},
       {"C02", "S24", "S25"},
       [=](ScaleFolder& f) {
         bias(120)(f);
         set_scale(kFirst + ".k_scale", 0.5F)(f);
       }},
  };
}

/// The config of a golden model under a compressed-tensors scheme, with a key and a value scale for these modules.
inline ScaleFolder golden_folder(const std::string& name, const std::string& prefix, const std::vector<int>& layers,
                                 const char* key = ".k_scale", const char* value = ".v_scale") {
  ScaleFolder f;
  f.config = read_json_file(std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/arch/golden" / name / "config.json");
  f.config["quantization_config"] = compressed_tensors_block();
  add_embedding(f, prefix);
  for (const int layer : layers)
    for (const char* site : {key, value}) f.tensors[attention_of(layer, prefix) + site] = f32_tensor(Shape{1}, {0.01F});
  return f;
}

inline std::vector<FolderCase> special_cases() {
  const auto nothing = [](ScaleFolder&) {};
  const ScaleFolder latent = golden_folder("deepseek_v3", "model.", {0, 1, 2}, ".k_proj.k_scale", ".v_proj.v_scale");
  const ScaleFolder sparse = golden_folder("deepseek_v32", "model.", {0, 1, 2}, ".k_proj.k_scale", ".v_proj.v_scale");
  return {
      {"hybrid", golden_folder("qwen3_5", "model.", {3}), {"vllm", "sglang"}, {"C04", "S25"}, nothing},
      {"hybrid, linear layer",
       golden_folder("qwen3_5", "model.", {3}),
       {"vllm"},
       {"C04", "S07", "S25", "V01"},
       set_scale("model.layers.0.linear_attn.k_scale", 0.01F)},
      {"latent, vLLM", latent, {"vllm"}, {"S25", "V02"}, nothing},
      {"latent, SGLang", latent, {"sglang"}, {"S25", "V07"}, nothing},
      {"sparse, SGLang", sparse, {"sglang"}, {"S25", "V02"}, nothing},  // backends differ
      {"latent, two scales", latent, {}, {"C05", "S25"}, set_scale(attention_of(0) + ".v_proj.v_scale", 0.02F)},
  };
}

/// A layer behind the last one, which servers draft tokens with, at the names that vLLM's loader of it takes.
inline std::vector<FolderCase> mtp_cases() {
  ScaleFolder bare = golden_folder("glm4_moe", "model.", {0, 1, 2});
  bare.tensors["model.layers.3.eh_proj.weight"] = f32_tensor(Shape{1}, {1});
  const std::string mtp = attention_of(3);
  ScaleFolder sound = bare;
  for (const char* site : {".attn.k_scale", ".attn.v_scale"}) set_scale(mtp + site, 0.01F)(sound);
  const auto nothing = [](ScaleFolder&) {};
  const auto spelled = [=](ScaleFolder& f) {
    set_scale(mtp + ".k_scale", 0.01F)(f);
    set_scale(mtp + ".v_scale", 0.01F)(f);
  };
  return {
      {"MTP layer", sound, {"vllm"}, {"S25"}, nothing},
      {"MTP layer without scales", bare, {"vllm"}, {"S25", "V10"}, nothing},
      {"MTP layer, other names", bare, {"vllm"}, {"S25", "V11"}, spelled},
      {"MTP layer, other names, SGLang", bare, {"sglang"}, {"S25", "V02"}, spelled},
      {"MTP layer, zero", sound, {}, {"S02", "S25"}, set_scale(mtp + ".attn.k_scale", 0)},
      {"MTP layer, a key alone",
       sound,
       {},
       {"S06", "S25"},
       [=](ScaleFolder& f) { f.tensors.erase(mtp + ".attn.v_scale"); }},
      {"MTP layer, latent",
       golden_folder("deepseek_v3", "model.", {0, 1, 2}, ".k_proj.k_scale", ".v_proj.v_scale"),
       {},
       {"S25"},
       [](ScaleFolder& f) { f.tensors["model.layers.3.eh_proj.weight"] = f32_tensor(Shape{1}, {1}); }},
  };
}

/// A record of a fold beside weights of [1024, 128].
inline std::vector<FolderCase> fold_cases() {
  ScaleFolder plain;
  plain.config = dense_config("LlamaForCausalLM", "llama");
  add_embedding(plain);
  const auto with_record = [](const std::string& tensors, bool left) {
    return [=](ScaleFolder& f) {
      f.files["kvcal-fold.json"] =
          R"({"format": "kvcal-fold", "version": "1.0", "model": {"weights_fingerprint": "ab"}, "sites":
          [{"left_to_scales": )" +
          std::string(left ? "true" : "false") + R"(}], "tensors": [)" + tensors + "]}";
    };
  };
  const auto with_text = [](const char* text) { return [=](ScaleFolder& f) { f.files["kvcal-fold.json"] = text; }; };
  const std::string fits =
      R"({"name": "model.embed_tokens.weight", "lines": 128, "columns": [[3, 4]], "exponents": [-2]})";
  const std::string absent = R"({"name": "model.layers.9.w", "lines": 128, "rows": [], "exponents": []})";
  const std::string uneven =
      R"({"name": "model.embed_tokens.weight", "lines": 1000, "rows": [[3, 4]], "exponents": [-2]})";
  return {
      {"no fold, no scales", plain, {}, {"F08"}, [](ScaleFolder&) {}},
      {"folded", plain, {}, {"X03"}, with_record(fits, false)},
      {"folded in part", plain, {}, {"F08", "X03"}, with_record(fits, true)},
      {"fold of a tensor that is not there", plain, {}, {"X02", "X03"}, with_record(fits + "," + absent, false)},
      {"fold of rows that there are not", plain, {}, {"X02", "X03"}, with_record(uneven, false)},
      {"fold that is no JSON", plain, {}, {"F08", "X01"}, with_text("{")},
      {"fold of another format", plain, {}, {"F08", "X01"}, with_text(R"({"format": "kvcal-export"})")},
      {"fold without members", plain, {}, {"F08", "X01"}, with_text(R"({"format": "kvcal-fold"})")},
      {"fold of an odd line",
       plain,
       {},
       {"F08", "X01"},
       with_record(R"({"name": "w", "lines": "4", "rows": [], "exponents": []})", false)},
  };
}

inline std::vector<FolderCase> folder_cases() {
  std::vector<FolderCase> all;
  for (const auto& group : {number_cases(), declaration_cases(), tool_cases(), model_folder_cases(), special_cases(),
                            mtp_cases(), fold_cases(), list_cases(), modelslim_cases()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

/// Errors among what these have.
inline Ids errors_of_folders() {
  Ids errors;
  for (const FolderCase& c : folder_cases())
    for (const std::string& id : c.expected)
      if (rule_named(id).severity == Severity::Error) errors.insert(id);
  return errors;
}

}  // namespace kvcal
