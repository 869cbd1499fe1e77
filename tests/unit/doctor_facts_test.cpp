// What the doctor knows of a run, and what it says of scales against what the servers' own code did with them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "deployment/cache_type.h"
#include "doctor/diagnose.h"
#include "doctor/facts.h"
#include "doctor_fixture.h"
#include "harness/cost.h"

namespace kvcal {
namespace {

/// "" where it is not known.
std::string fact(const Diagnosis& d, std::string_view name) {
  for (const FactRow& row : fact_rows(d.facts))
    if (row.name == name) return row.value;
  ADD_FAILURE() << "no fact '" << name << "'";
  return "";
}

std::string cache_of(const std::string& command) {
  Doctor doctor;
  doctor.add_command("command", command);
  return fact(doctor.diagnose(), "cache");
}

// No version, and none that a table would be of.
TEST(DoctorFacts, APlatformOfItsOwnIsNotChecked) {
  const std::filesystem::path config = std::filesystem::path(testing::TempDir()) / "own_platform" / "config.json";
  std::filesystem::create_directories(config.parent_path());
  write_text(config, R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "num_attention_heads": 8})");
  Doctor doctor;
  doctor.add_command("command", "vllm serve X --quantization ascend");
  doctor.add_checkpoint(config);
  const Diagnosis d = doctor.diagnose();
  for (const FactRow& row : fact_rows(d.facts))
    if (row.name == "loaded by this class") {
      EXPECT_NE(row.from.find("for this platform"), row.from.npos) << row.from;
    }
}

// A shell puts it there: it may be any type, and is left to no server.
TEST(DoctorFacts, AVariableIsNoTypeOfCache) {
  for (const char* variable : {"$KV", "${KV}", "fp8_$KIND"})
    for (const char* server : {"vllm@0.33.0", "vllm", "sglang@0.5.23", "sglang"}) {
      Doctor doctor;
      doctor.add_server(parse_engine(server));
      doctor.add_command("command", (std::string(server).starts_with("vllm") ? "vllm serve X --kv-cache-dtype '"
                                                                             : "sglang serve X --kv-cache-dtype '") +
                                        std::string(variable) + "'");
      const Diagnosis d = doctor.diagnose();
      EXPECT_EQ(fact(d, "cache"), "") << server;
      EXPECT_EQ(d.facts.cache.quantized, Trait::Unknown) << server;
      EXPECT_TRUE(d.findings.empty()) << diagnosis_text(d).text();
    }
}

TEST(DoctorFacts, TheCacheOfLlamaCpp) {
  EXPECT_EQ(cache_of("llama-server -m m.gguf -ctk q8_0 -ctv q8_0"), "q8_0 (quantized)");
  EXPECT_EQ(cache_of("llama-server -m m.gguf -ctk f16 -ctv q8_0"), "f16/q8_0 for keys/values (quantized)");
  EXPECT_EQ(cache_of("llama-server -m m.gguf --cache-type-k q8_0"), "q8_0/f16 for keys/values (quantized)");
  EXPECT_EQ(cache_of("--cache-type-k q8_0 --cache-type-v q8_0 -m m.gguf"), "q8_0 (quantized)") << "no server named";
  EXPECT_EQ(cache_of("--cache-type-k q8_0 -m m.gguf"), "q8_0/f16 for keys/values (quantized)") << "no server named";
}

constexpr const char* kDense =
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_attention_heads": 1, "num_key_value_heads": 1,
        "head_dim": 128})";
constexpr const char* kLatent =
    R"({"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "num_attention_heads": 16,
        "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128})";
constexpr const char* kSparse =
    R"({"architectures": ["DeepseekV32ForCausalLM"], "model_type": "deepseek_v32", "num_attention_heads": 16,
        "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "index_topk": 2048})";

/// One layer with both scales 0.03.
Diagnosis diagnosed(const char* model, const Json& quantization, const std::string& server,
                    const std::string& command) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "doctor_facts";
  std::filesystem::create_directories(folder);
  Json config = Json::parse(model);
  for (const char* size : {"hidden_size", "vocab_size", "intermediate_size"}) config[size] = 64;
  config["num_hidden_layers"] = 1;
  config["torch_dtype"] = "bfloat16";
  if (!quantization.is_null()) config["quantization_config"] = quantization;
  write_text(folder / "config.json", config.dump());
  write_text(folder / "model.safetensors", safetensors_of("model.norm.weight 1\nmodel.layers.0.self_attn.k_scale 0.03\n"
                                                          "model.layers.0.self_attn.v_scale 0.03\n"));
  Doctor doctor;
  doctor.add_server(parse_engine(server));
  doctor.add_command("command", command);
  doctor.add_checkpoint(folder);
  Diagnosis d = doctor.diagnose();
  std::filesystem::remove_all(folder);
  return d;
}

TEST(DoctorFacts, WhetherScalesOfLatentRowsAreLoaded) {
  const Json fp8 = Json::parse(R"({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"})");
  const auto loaded = [](const char* model, const Json& quantization) {
    const char* command = "python3 -m sglang.launch_server --model-path m --kv-cache-dtype fp8_e4m3";
    return fact(diagnosed(model, quantization, "sglang@0.5.23", command), "loaded by this class");
  };
  EXPECT_EQ(loaded(kLatent, fp8), "yes");
  EXPECT_EQ(loaded(kLatent, nullptr), "no: nothing in config.json has the server make parameters for them");
  EXPECT_EQ(loaded(kSparse, fp8), "yes");
}

/// What a version's backend does with scales on a cache of this type; "": not known.
struct UseOf {
  std::string server;
  const char* model;
  std::string backend, cache, use;
  Json declared = Json::parse(R"({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"})");

  std::string said() const {
    const bool vllm = server.starts_with("vllm");
    const std::string command = vllm ? "vllm serve m" : "python3 -m sglang.launch_server --model-path m";
    return fact(
        diagnosed(model, declared, server, command + " --attention-backend " + backend + " --kv-cache-dtype " + cache),
        "scales are applied");
  }
};

// Read in both versions of each pair, where the run has the newest alone.
TEST(DoctorFacts, TheUseOfScalesChangesWithTheVersion) {
  const std::string fp8 = "fp8_e4m3", half = "bfloat16", read = "when read alone", both = "when written and when read";
  const Json tensors = Json::parse(
      R"({"quant_method": "compressed-tensors", "config_groups": {}, "kv_cache_scheme": {"num_bits": 8, "type": "float",
          "strategy": "tensor", "symmetric": true, "dynamic": false}})");
  const std::vector<UseOf> uses = {
      {"sglang@0.5.9", kDense, "triton", fp8, "nowhere"},
      {"sglang@0.5.10", kDense, "triton", fp8, both},
      {"sglang@0.5.13", kDense, "trtllm_mha", fp8, ""},
      {"sglang@0.5.14", kDense, "trtllm_mha", fp8, both},
      {"sglang@0.5.13", kDense, "trtllm_mha", half, read},
      {"sglang@0.5.14", kDense, "trtllm_mha", half, "nowhere"},
      {"sglang@0.5.9", kLatent, "triton", fp8, ""},
      {"sglang@0.5.10", kLatent, "triton", fp8, read},
      {"sglang@0.5.12", kLatent, "triton", fp8, both},
      {"sglang@0.5.8", kLatent, "trtllm_mla", half, read},
      {"sglang@0.5.9", kLatent, "trtllm_mla", half, "nowhere"},
      {"sglang@0.5.8", kLatent, "fa3", fp8, "nowhere"},
      {"sglang@0.5.23", kLatent, "fa3", fp8, "nowhere"},
      {"sglang@0.5.23", kDense, "fa4", half, ""},
      {"sglang@0.5.23", kSparse, "trtllm", fp8, read},
      {"sglang@0.5.24", kDense, "flashinfer", half, ""},
      {"sglang", kLatent, "flashmla", fp8, ""},
      {"sglang@0.5.23", kDense, "triton --decode-attention-backend flashinfer", half, read},
      {"sglang@0.5.23", kLatent, "triton --decode-attention-backend flashmla", half, "nowhere"},
      {"vllm@0.19.0", kDense, "FLASHINFER", fp8, "when written alone", tensors},
      {"vllm@0.33.0", kDense, "FLASHINFER", fp8, both, tensors},
      {"vllm", kDense, "FLASHINFER", fp8, "", tensors},
      {"vllm@0.34.0", kDense, "FLASH_ATTN", fp8, ""},
  };
  for (const UseOf& use : uses)
    EXPECT_EQ(use.said(), use.use) << use.server << " " << use.model << " " << use.backend << " " << use.cache;
}

/// Of what tests/loaders/check_scale_use.py had the servers' own code do: one backend, one type of the cache.
struct Recorded {
  std::string server, model, backend, cache, use;

  explicit Recorded(const Json& run)
      : server(get_string(run, "server", "")),
        model(get_string(run, "model", "")),
        backend(get_string(run, "backend", "")),
        cache(get_string(run, "cache", "")),
        use(get_string(run, "use", "")) {
    std::ranges::replace(server, ' ', '@');
  }

  std::string command() const {
    const std::map<std::string, std::string> options = {
        {"torch.float8_e4m3fn", "fp8_e4m3"}, {"torch.float8_e5m2", "fp8_e5m2"}, {"torch.bfloat16", "bfloat16"}};
    const auto found = options.find(cache);
    const bool vllm = server.starts_with("vllm");
    return (vllm ? "vllm serve m" : "python3 -m sglang.launch_server --model-path m") +
           std::string(" --attention-backend ") + backend +
           (cache == "auto" ? "" : " --kv-cache-dtype " + (found == options.end() ? cache : found->second));
  }
};

/// Answers that the doctor gives; the rest of the runs it leaves open.
struct Answers {
  size_t plain = 0, plain_known = 0;                            // of unquantized caches
  size_t garbage = 0, stops = 0, applied = 0, none_loaded = 0;  // of quantized ones
  size_t use_known = 0;                                         // of these, where scales are applied
};

const std::map<std::string, std::string> kUses = {
    {"applied", "when written and when read"}, {"unused", "nowhere"}, {"garbage", "when read alone"}, {"stops", ""}};

void expect_said(const Recorded& run, const Diagnosis& d, const std::string& what, Answers& answers) {
  std::set<std::string> ids;
  for (const auto* signs : {&d.findings, &d.notes})
    for (const Sign& sign : *signs) ids.emplace(sign.entry->id);
  const bool blamed = ids.contains("F13") || ids.contains("C22"), garbage = run.use == "garbage";
  const bool unused = ids.contains("C18") || ids.contains("F12");
  EXPECT_FALSE(unused && run.use == "applied") << what;
  EXPECT_FALSE(ids.contains("W01") && garbage) << what;
  const std::string use = fact(d, "scales are applied");
  const bool none_arrives = run.model == "MLA" && run.server.starts_with("vllm");  // under these names
  EXPECT_TRUE(use.empty() || use == (none_arrives ? "nowhere" : kUses.at(run.use))) << use << " " << what;
  if (!is_quantized_type(run.cache)) {
    ++answers.plain;
    answers.plain_known += use.empty() ? 0 : 1;
    EXPECT_TRUE(use.empty() || blamed == garbage) << what;
    return;
  }
  answers.use_known += use.empty() ? 0 : 1;
  EXPECT_EQ(blamed, garbage) << what;
  EXPECT_TRUE(run.use != "stops" || ids.contains("B04")) << what;
  answers.garbage += garbage ? 1 : 0;
  answers.stops += run.use == "stops" ? 1 : 0;
  if (none_arrives) return;
  const bool loaded = fact(d, "loaded by this class") == "yes";
  EXPECT_TRUE(loaded || run.use == "unused") << what;
  answers.applied += run.use == "applied" ? 1 : 0;
  answers.none_loaded += loaded ? 0 : 1;
}

TEST(DoctorFacts, TheUseOfScalesIsThatOfTheServersOwnCode) {
  std::filesystem::path newest;
  for (const auto& file : std::filesystem::directory_iterator(KVCAL_SOURCE_DIR "/tests/loaders/results"))
    if (file.path().filename().string().starts_with("scale-use-")) newest = std::max(newest, file.path());
  ASSERT_NE(newest, "");
  const Json json = read_json_file(newest);
  const Json* runs = find_member(json, "results");
  const Json* declared = find_member(json, "declared");
  ASSERT_NE(runs, nullptr);
  ASSERT_NE(declared, nullptr);
  Answers answers;
  for (const Json& line : *runs) {
    const Recorded run(line);
    for (const Json& place : *find_member(line, "declared")) {
      const Diagnosis d = diagnosed(run.model == "MLA" ? kLatent : kDense, declared->at(place.get<size_t>()),
                                    run.server, run.command());
      expect_said(run, d, line.dump() + " of " + place.dump(), answers);
    }
  }
  EXPECT_EQ(answers.plain, 379u);
  EXPECT_EQ(answers.plain_known, 352u);
  EXPECT_EQ(answers.garbage, 18u);
  EXPECT_EQ(answers.stops, 10u);
  EXPECT_EQ(answers.applied, 128u);
  EXPECT_EQ(answers.none_loaded, 90u);
  EXPECT_EQ(answers.use_known, 374u);
}

// A checkpoint of many layers may give as many findings.
TEST(DoctorFacts, EachVersionSharesWhatTheCheckpointSays) {
  CheckpointFacts checkpoint;
  for (int layer = 0; layer < 20000; ++layer)
    checkpoint.report.add("V03", "layers[" + std::to_string(layer) + "].key.scale", "stands for no layer with a cache");
  Facts facts;
  facts.server = Engine::Vllm;
  facts.checkpoint = std::make_shared<const CheckpointFacts>(std::move(checkpoint));
  ASSERT_GT(with_each_version(facts).size(), 20u);
  const Cost cost = cost_of([&] { with_each_version(facts); });
  EXPECT_TRUE(cost.ended);
  EXPECT_LT(cost.kilobytes, 8 << 10);
}

}  // namespace
}  // namespace kvcal
