// Damages of checkpoint folders whose cache ModelSlim's file describes, one way each, with the rules that must be
// found.
#pragma once

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "unit/scale_folder.h"

namespace kvcal {

using Ids = std::set<std::string>;

struct FolderCase {
  std::string name;
  ScaleFolder folder;
  std::vector<std::string> servers;
  Ids expected;
  std::function<void(ScaleFolder&)> change;
};

inline const std::string kFirst = attention_of(0);

/// Of vLLM-Ascend, as ModelSlim writes them: INT8 (C8) with two layers in 16 bits, and MXFP8.
inline std::vector<FolderCase> modelslim_cases() {
  ScaleFolder plain = llm_compressor_folder("LlamaForCausalLM", "llama");
  plain.config.erase("quantization_config");
  std::erase_if(plain.tensors, [](const auto& t) { return t.first.ends_with("_scale"); });
  const std::string description = "quant_model_description.json", mxfp8 = "QK_MXFP8_DYNAMIC_V_MXFP8_PER_CHANNEL";
  const auto column = [](size_t n, char byte) {
    return FolderTensor{DType::U8, Shape{static_cast<int64_t>(n), 1}, std::string(n, byte)};
  };
  ScaleFolder int8 = plain, mx = plain;
  Json said_int8 = {{"kv_cache_type", "C8"}}, said_mx = Json::object();
  for (const int layer : {0, 2})
    for (const char* tensor :
         {".k_proj.kv_cache_scale", ".k_proj.kv_cache_offset", ".v_proj.kv_cache_scale", ".v_proj.kv_cache_offset"}) {
      const bool is_scale = std::string_view(tensor).ends_with("scale");
      int8.tensors[attention_of(layer) + tensor] = f32_tensor(Shape{64}, std::vector<float>(64, is_scale ? 0.5F : 0));
      said_int8[attention_of(layer) + tensor] = "C8";
    }
  for (int layer = 0; layer < 4; ++layer) {
    mx.tensors[attention_of(layer) + ".fa_v.scale"] = column(64, 120);
    said_mx[attention_of(layer) + ".quant_type"] = mxfp8;
  }
  int8.files[description] = said_int8.dump();
  mx.files[description] = said_mx.dump();
  std::vector<FolderCase> cases = {{"C8", int8, {}, {}, [](ScaleFolder&) {}},
                                   {"C8-MXFP", mx, {}, {}, [](ScaleFolder&) {}}};
  Json said_null = said_int8;
  said_null["fa_quant_type"] = nullptr;  // as ModelSlim writes it where attention is not quantized
  ScaleFolder null = int8;
  null.files[description] = said_null.dump();
  null.tensors.erase(kFirst + ".k_proj.kv_cache_scale");
  cases.push_back({"C8 beside nothing of latent attention", null, {}, {"C23"}, [](ScaleFolder&) {}});
  const auto add = [&](const std::string& name, const ScaleFolder& of, std::function<void(ScaleFolder&)> change) {
    cases.push_back({name, of, {}, {"C23"}, std::move(change)});
  };
  const auto says = [=](const std::string& key, const char* word) {
    return [=](ScaleFolder& f) {
      Json said = parse_json(f.files[description]);
      said.erase(key);
      if (word) said[key] = word;
      f.files[description] = said.dump();
    };
  };
  const auto has = [](const std::string& tensor, const FolderTensor& t) {
    return [=](ScaleFolder& f) { f.tensors[tensor] = t; };
  };
  const std::string key = kFirst + ".k_proj.kv_cache_scale", value = kFirst + ".fa_v.scale";
  const auto floats = [](size_t n, float x) {
    return f32_tensor(Shape{static_cast<int64_t>(n)}, std::vector<float>(n, x));
  };
  add("C8 that is not named", int8, says("kv_cache_type", nullptr));
  add("C8 of a tensor that is not listed", int8, says(key, nullptr));
  add("C8 without a description", int8, [=](ScaleFolder& f) { f.files.erase(description); });
  add("C8 without a tensor", int8, [=](ScaleFolder& f) { f.tensors.erase(key); });
  add("C8 of heads", int8, has(key, floats(2, 1)));
  add("C8 of zero", int8, has(key, floats(64, 0)));
  add("C8 of infinity", int8, has(key, floats(64, INFINITY)));
  add("C8 with an offset", int8, has(kFirst + ".v_proj.kv_cache_offset", floats(64, 1)));
  add("C8 in bytes", int8, has(key, column(64, 1)));
  add("MXFP8 in another dtype", mx, has(value, floats(64, 0.0078125F)));
  add("MXFP8 of half the channels", mx, has(value, column(32, 120)));
  add("MXFP8 of zero", mx, has(value, column(64, 0)));
  add("MXFP8 of no number", mx, has(value, column(64, '\xff')));
  add("MXFP8 without a tensor", mx, [=](ScaleFolder& f) { f.tensors.erase(value); });
  add("MXFP8 that is not named", mx, says(kFirst + ".quant_type", nullptr));
  add("MXFP8 under another name", mx, says(kFirst + ".quant_type", "C8"));
  add("MXFP8 that is called C8", mx, says("kv_cache_type", "C8"));
  const auto without = [=](std::initializer_list<std::string> tensors) {
    return [=, gone = std::vector<std::string>(tensors)](ScaleFolder& f) {
      for (const std::string& name : gone) {
        f.tensors.erase(name);
        says(name, nullptr)(f);
      }
    };
  };
  const std::string v = kFirst + ".v_proj.kv_cache_";
  add("C8 of keys alone", int8, without({v + "scale", v + "offset"}));
  add("C8 of offsets alone", int8, without({key, v + "scale"}));
  const auto text = [=](const char* words) { return [=](ScaleFolder& f) { f.files[description] = words; }; };
  add("C8 under a broken description", int8, text("{\"kv_cache_type\": "));
  add("C8 under a list", int8, text("[\"C8\"]"));
  add("C8 under a number", int8, text("{\"kv_cache_type\": 8}"));
  // Without tensors 1.0 is what each server has.
  cases.push_back({"C8 without tensors", plain, {}, {"C23", "F08"}, text("{\"kv_cache_type\": \"C8\"}")});
  cases.push_back({"C8 that is a number", plain, {}, {"F08"}, text("{\"kv_cache_type\": 8}")});
  cases.push_back({"broken", plain, {}, {"C23", "F08"}, text("{")});
  // Of other servers vLLM stops, and what SGLang does is not known.
  cases.push_back({"C8 in vLLM", int8, {"vllm"}, {"F08", "V01"}, [](ScaleFolder&) {}});
  cases.push_back({"C8 in SGLang", int8, {"sglang"}, {"F08"}, [](ScaleFolder&) {}});
  cases.push_back({"C8-MXFP in vLLM", mx, {"vllm"}, {"F08", "V01"}, [](ScaleFolder&) {}});
  return cases;
}

}  // namespace kvcal
