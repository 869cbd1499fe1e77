// Deployments drawn at random: whatever a diagnosis says of one must agree with itself, with the options that it
// advises and with what is known.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>

#include "doctor/diagnose.h"
#include "doctor_fixture.h"
#include "servers/without_export.h"

namespace kvcal {
namespace {

#ifdef KVCAL_SANITIZED
constexpr int kDeployments = 500;
#else
constexpr int kDeployments = 10000;
#endif

using Ids = std::set<std::string_view>;

Ids all_ids(const Diagnosis& d) {
  Ids ids;
  for (const auto* signs : {&d.findings, &d.notes})
    for (const Sign& sign : *signs) ids.insert(sign.entry->id);
  return ids;
}

/// Never both of one run: one of them says, or presumes, that the other is not so.
constexpr std::array<std::pair<std::string_view, std::string_view>, 34> kExclude = {{
    {"W01", "W03"}, {"W01", "F13"}, {"W01", "C22"},  {"W01", "LG1"}, {"W01", "LG2"}, {"W01", "LG14"}, {"W01", "LG16"},
    {"W01", "F08"}, {"W01", "B16"}, {"W02", "F13"},  {"W02", "W03"}, {"W03", "F13"}, {"W03", "LG14"}, {"C18", "F13"},
    {"C18", "C22"}, {"C18", "LG2"}, {"C18", "F08"},  {"W01", "W04"}, {"W03", "W04"}, {"F13", "W04"},  {"F08", "F07"},
    {"RS3", "RS4"}, {"RS3", "RS8"}, {"RS4", "RS18"}, {"F16", "F15"}, {"F16", "F33"}, {"L08", "LG2"},  {"F09", "F09b"},
    {"B17", "F13"}, {"F40", "W02"}, {"F32", "W02"},  {"F30", "F08"}, {"F30", "S22"}, {"F30", "S22b"},
}};

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  bool one_in(unsigned n) { return random_() % n == 0; }
  template <class Range>
  const auto& of(const Range& range) {
    return range[random_() % range.size()];
  }

 private:
  std::mt19937 random_;
};

const std::vector<std::string> kConfigs = {
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "num_attention_heads": 8,
        "num_key_value_heads": 2, "head_dim": 64)",
    R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "bfloat16", "num_attention_heads": 8,
        "num_key_value_heads": 2, "head_dim": 64)",
    R"({"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "torch_dtype": "bfloat16",
        "num_attention_heads": 16, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128)",
    R"({"architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "torch_dtype": "float16",
        "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "layer_types": ["linear_attention", "full_attention"])",
    R"({"architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text", "num_attention_heads": 8,
        "num_key_value_heads": 2, "head_dim": 256, "global_head_dim": 512)",
    R"({"architectures": ["DeepseekV32ForCausalLM"], "model_type": "deepseek_v32", "torch_dtype": "bfloat16", "index_topk": 2048,
        "num_attention_heads": 16, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128)",
};
const std::vector<std::string> kDeclarations = {
    "}",
    R"(, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}})",
    R"(, "quantization_config": {"quant_method": "compressed-tensors", "config_groups": {}, "kv_cache_scheme": null}})",
    R"(, "quantization_config": {"quant_method": "compressed-tensors", "config_groups": {}, "kv_cache_scheme": {"num_bits": 8,
        "type": "float", "strategy": "tensor", "symmetric": true, "dynamic": false}}})",
    R"(, "quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}})",
    R"(, "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "NVFP4"}})",
    R"(, "quantization_config": {"quant_method": "quark", "export": {"kv_cache_group": ["*k_proj"]}, "layer_quant_config":
        {"*k_proj": {"output_tensors": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}}}}})",
};
const std::vector<std::string> kTensors = {
    "",
    "model.layers.0.self_attn.o_proj.weight 1\n",
    "model.layers.0.self_attn.k_scale 0.02\nmodel.layers.0.self_attn.v_scale 0.03\n",
    "model.layers.0.self_attn.k_scale 1\nmodel.layers.0.self_attn.v_scale 1\n",
    "model.layers.0.self_attn.v_scale 0.03\n",
};
const std::vector<std::string> kServers = {"vllm",         "vllm@0.10.2",   "vllm@0.14.1",   "vllm@0.19.0",
                                           "vllm@0.22.0",  "vllm@0.28.0",   "vllm@0.33.0",   "sglang",
                                           "sglang@0.5.9", "sglang@0.5.12", "sglang@0.5.19", "sglang@0.5.23"};
const std::vector<std::string> kTypes = {"",
                                         "",
                                         "auto",
                                         "fp8",
                                         "fp8_e4m3",
                                         "fp8_e5m2",
                                         "bfloat16",
                                         "float16",
                                         "bf16",
                                         "nvfp4",
                                         "fp8_per_token_head",
                                         "mxfp8",
                                         "fp4_e2m1",
                                         "int8_per_token_head",
                                         "turboquant_k8v4",
                                         "ultraquant_4bit",
                                         "fp8_ds_mla"};
const std::vector<std::string> kBackends = {
    "",       "",    "FLASHINFER", "FLASH_ATTN", "TRITON_ATTN",     "CUTLASS_MLA", "flashinfer",
    "triton", "fa3", "trtllm_mha", "trtllm_mla", "FLASHMLA_SPARSE", "trtllm"};
const std::vector<std::string> kGpus = {"", "", "H100", "A100", "sm_75", "B200", "RTX 5090", "RTX 4090", "MI300X"};
const std::vector<std::string> kOptions = {" --calculate-kv-scales",
                                           " --enable-prefix-caching --speculative-config '{\"method\": \"mtp\"}'",
                                           " --speculative-config '{\"method\": \"mtp\", \"model\": \"draft\"}'",
                                           " --speculative-algorithm NEXTN",
                                           " --quantization-param-path scales.json",
                                           " --tensor-parallel-size 4",
                                           " --enable-sleep-mode",
                                           " --max-model-len 131072",
                                           " --enforce-eager",
                                           " --block-size 64",
                                           " --load-format kv_cache_scales",
                                           " --mamba-ssm-cache-dtype float16",
                                           " --mamba-cache-dtype bfloat16",
                                           " --mamba-ssm-dtype bfloat16",
                                           " --enable-mamba-cache-stochastic-rounding",
                                           " --linear-attn-backend flashinfer",
                                           " --enable-int8-mamba-checkpoint --enable-hierarchical-cache",
                                           " --mamba-block-size 1024",
                                           " --enable-mixed-chunk"};
const std::vector<std::string> kLines = {
    "INFO Using fp8 data type to store kv cache. It reduces the GPU memory footprint\n",
    "WARNING Using KV cache scaling factor 1.0 for fp8_e4m3. If this is unintended, verify\n",
    "Using KV cache dtype: torch.bfloat16\n",
    "Using KV cache dtype: torch.float8_e4m3fn\n",
    "Using FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of 1.0.\n",
    "Checkpoint has k_scale but KV cache dtype is not FP8. Ignoring k_scale for BMM1\n",
    "Using AttentionBackendEnum.FLASHINFER backend.\n",
    "ValueError: fp8_e5m2 kv-cache is not supported with fp8 checkpoints.\n",
    "RuntimeError: CUDA error: an illegal memory access was encountered\n",
    "triton: type fp8e4nv not supported in this architecture\n",
};

/// Of one that needs them, one whose layers are all fine at 1.0, and one for SGLang; the last of another model.
const std::vector<std::string> kScaleFiles = {
    R"({"format": "kv-cache-scales", "model": {"architecture": "LlamaForCausalLM"}, "layers": [{"key": {"scale": 0.02,
        "assessment": {"scale": "needed", "fp8": "fine"}}, "value": {"scale": 0.02, "assessment": {"scale": "any", "fp8": "fine"}}}]})",
    R"({"format": "kv-cache-scales", "model": {"architecture": "LlamaForCausalLM"}, "layers": [{"key": {"scale": 0.02,
        "assessment": {"scale": "any", "fp8": "fine"}}, "value": {"scale": 0.02, "assessment": {"scale": "any", "fp8": "fine"}}}]})",
    R"({"kv_cache": {"dtype": "float8_e4m3fn", "scaling_factor": {"0": {"0": 0.02}}}})",
    R"({"format": "kv-cache-scales", "model_type": "phi", "model": {"architecture": "PhiForCausalLM"}, "layers": [{"key":
        {"scale": 0.02}, "value": {"scale": 0.02}}]})",
};

/// Each configuration with each declaration and each set of tensors, written once.
std::vector<std::filesystem::path> write_checkpoints(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (size_t c = 0; c < kConfigs.size(); ++c)
    for (size_t d = 0; d < kDeclarations.size(); ++d)
      for (size_t t = 0; t < kTensors.size(); ++t) {
        const auto path = folder / (std::to_string(c) + std::to_string(d) + std::to_string(t));
        std::filesystem::create_directories(path);
        write_text(path / "config.json", kConfigs[c] + kDeclarations[d]);
        if (!kTensors[t].empty()) write_text(path / "model.safetensors", safetensors_of(kTensors[t]));
        paths.push_back(kTensors[t].empty() ? path / "config.json" : path);
      }
  return paths;
}

struct Deployment {
  std::string server, gpu, command, log, output;
  std::string scales;                // what is in the scale file, or empty
  bool installed = false;            // a server that has few names
  std::filesystem::path checkpoint;  // or empty

  Diagnosis diagnose() const {
    Doctor doctor;
    if (!server.empty()) doctor.add_server(parse_engine(server));
    if (installed) {
      const NamedEngine named = parse_engine(server);
      doctor.add_installed({named.server,
                            named.version,
                            "python3",
                            {"auto", "fp8_e4m3", "bfloat16"},
                            {"FLASHINFER", "FLASH_ATTN", "flashinfer", "fa3"},
                            {"LlamaForCausalLM"}});
    }
    if (!gpu.empty()) doctor.add_gpu(gpu);
    if (!command.empty()) doctor.add_command("command", command);
    if (!checkpoint.empty()) doctor.add_checkpoint(checkpoint);
    if (!scales.empty()) {
      const std::filesystem::path file =
          std::filesystem::path(testing::TempDir()) / ("doctor_scales_" + std::to_string(::getpid()) + ".json");
      write_text(file, scales);
      doctor.add_scale_file(file);
      std::filesystem::remove(file);
    }
    if (!log.empty()) doctor.add_log("server.log", reading(log));
    if (!output.empty()) doctor.add_output("answer", output);
    return doctor.diagnose();
  }
  std::string text() const {
    return server + (installed ? " installed" : "") + " | " + gpu + " | " + command + " | " + checkpoint.string() +
           "\n" + scales + log + output + "\n" + diagnosis_text(diagnose()).text();
  }
};

Deployment drawn(unsigned seed, const std::vector<std::filesystem::path>& checkpoints) {
  Draw draw(seed);
  Deployment d;
  const std::string server = draw.of(kServers);
  if (!draw.one_in(4)) d.server = server;
  d.installed = !d.server.empty() && draw.one_in(8);
  d.gpu = draw.of(kGpus);
  if (!draw.one_in(8)) {
    d.command = server.starts_with("vllm") ? "vllm serve m" : "python3 -m sglang.launch_server --model-path m";
    if (const std::string type = draw.of(kTypes); !type.empty()) d.command += " --kv-cache-dtype " + type;
    if (const std::string backend = draw.of(kBackends); !backend.empty())
      d.command += " --attention-backend " + backend;
    for (int i = 0; i < 2; ++i)
      if (draw.one_in(3)) d.command += draw.of(kOptions);
  }
  if (!draw.one_in(4)) d.checkpoint = draw.of(checkpoints);
  for (int i = 0; i < 2; ++i)
    if (draw.one_in(3)) d.log += draw.of(kLines);
  if (draw.one_in(2)) d.output = std::string(64, '!');
  if (draw.one_in(4)) d.scales = draw.of(kScaleFiles);
  return d;
}

class Deployments : public testing::Test {
 protected:
  Deployments()
      : folder_(std::filesystem::path(testing::TempDir()) / ("doctor_deployments_" + std::to_string(::getpid()))) {
    checkpoints_ = write_checkpoints(folder_);
  }
  ~Deployments() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
  std::vector<std::filesystem::path> checkpoints_;
};

void expect_agreement(const Deployment& deployment, const Diagnosis& d) {
  const Ids ids = all_ids(d);
  for (const auto& [one, other] : kExclude)
    EXPECT_FALSE(ids.contains(one) && ids.contains(other)) << one << " and " << other << "\n" << deployment.text();
}

/// Of rules: every fact that it presumes holds and is known.
void expect_known(const Deployment& deployment, const Diagnosis& d) {
  const Ids ids = all_ids(d);
  for (const auto rules : rule_tables())
    for (const CombinationRule& rule : rules)
      if (ids.contains(rule.entry.id) && !d.facts.seen(rule.entry.id)) {
        EXPECT_EQ(applies(rule, d.facts).all, Trait::Yes) << rule.entry.id << "\n" << deployment.text();
      }
  for (const auto& skipped : d.not_evaluated)
    EXPECT_FALSE(skipped.missing.empty()) << skipped.id << " does not say what would settle it\n" << deployment.text();
}

/// What stops a server is not said of one that answered.
Deployment not_run(Deployment deployment) {
  deployment.output.clear();
  return deployment;
}

/// With a type that a fix advises in place of the command's: not what is there, and no new stop.
void expect_useful_fixes(const Deployment& deployment, const Diagnosis& d) {
  const std::string option = "--kv-cache-dtype ";
  const auto stops = [](const Diagnosis& of) {
    Ids ids;
    for (const Sign& sign : of.findings)
      if (sign.severity() == Severity::Fatal && !of.facts.seen(sign.entry->id)) ids.insert(sign.entry->id);
    return ids;
  };
  for (const Sign& sign : d.findings) {
    const std::string fix = fix_text(*sign.entry, d.facts);
    const size_t at = fix.find(option);
    const bool of_others = fix.find('(') < at;  // said of other inputs
    const bool shows_command = sign.entry->fix.find("{command}") != std::string_view::npos;
    if (at == std::string::npos || deployment.command.empty() || shows_command || of_others) continue;
    const std::string value =
        fix.substr(at + option.size(), fix.find_first_of(" ,;)", at + option.size()) - at - option.size());
    EXPECT_NE(value, d.facts.flag_value("kv-cache-dtype")) << sign.entry->id << ": " << fix << "\n"
                                                           << deployment.text();
    Deployment after = not_run(deployment);
    after.log.clear();
    after.command += " --kv-cache-dtype=" + value;  // the last one counts
    if (const size_t old = after.command.find(option); old != std::string::npos)
      after.command.erase(old, after.command.find(' ', old + option.size()) - old);
    const Ids before = stops(not_run(deployment).diagnose()), then = stops(after.diagnose());
    EXPECT_TRUE(std::ranges::includes(before, then)) << sign.entry->id << ": " << fix << "\n" << after.text();
  }
}

/// Of exports: not for a server that loads nothing of this class so, and not beside tensors that it would refuse to
/// replace.
void expect_exports_that_are_taken(const Deployment& deployment, const Diagnosis& d) {
  const CheckpointFacts* checkpoint = d.facts.checkpoint.get();
  if (checkpoint == nullptr || d.facts.model.architecture.empty()) return;
  const auto takes = [&](ServerKind kind, bool ServerSupport::*what) {
    return support_of_export(kind, d.facts.model.architecture, carrier_of(checkpoint->declaration, kind)).*what;
  };
  const auto loads = [&](ServerKind kind) { return takes(kind, &ServerSupport::loads); };
  for (const Sign& sign : d.findings)
    for (const FixPart& part : parts_of(fix_text(*sign.entry, d.facts))) {
      const size_t at = part.text.find("kvcal export");
      if (at == std::string::npos) continue;
      const std::string command = part.text.substr(at);
      const auto has = [&](const char* words) { return command.find(words) != std::string::npos; };
      const bool json = has("--to sglang-json"), sglang = has("--to sglang") || has("(or sglang)");
      const bool vllm = has("--to vllm"), to_own = !vllm && !sglang;
      const bool one_is_enough = to_own && d.facts.is(Engine::Unknown);
      if (has("--to tgi") || has("--to vllm-ascend")) continue;  // the table is not about them
      const bool refused = json ? !takes(ServerKind::Sglang, &ServerSupport::json)
                           : one_is_enough
                               ? !loads(ServerKind::Vllm) && !loads(ServerKind::Sglang)
                               : ((vllm || (to_own && d.facts.is(Engine::Vllm))) && !loads(ServerKind::Vllm)) ||
                                     ((sglang || (to_own && d.facts.is(Engine::Sglang))) && !loads(ServerKind::Sglang));
      EXPECT_FALSE(refused) << sign.entry->id << ": " << command << "\n" << deployment.text();
      EXPECT_TRUE(json || checkpoint->n_scales() == 0 || has("--replace-scales"))
          << sign.entry->id << ": " << command << "\n"
          << deployment.text();
    }
}

/// Neither variables nor backends of another server.
void expect_words_of_server(const Deployment& deployment, const Diagnosis& d) {
  if (d.facts.is(Engine::Unknown)) return;
  const bool vllm = d.facts.is(Engine::Vllm);
  const std::string option = "--attention-backend ";
  for (const Sign& sign : d.findings) {
    if (sign.entry->fix.find("{command}") != std::string_view::npos) continue;  // as it was given
    const std::string fix = fix_text(*sign.entry, d.facts);
    EXPECT_EQ(fix.find(vllm ? "SGLANG_" : "VLLM_"), std::string::npos) << fix << "\n" << deployment.text();
    const size_t at = fix.find(option);
    const std::string rest = at == std::string::npos ? "" : fix.substr(at + option.size());
    const std::string backend = rest.substr(0, rest.find_first_of(" ,;)"));
    EXPECT_TRUE(backend.empty() || backend != d.facts.flag_value("attention-backend")) << fix << "\n"
                                                                                       << deployment.text();
    const char first = at == std::string::npos ? '\0' : fix[at + option.size()];
    EXPECT_FALSE(vllm ? first >= 'a' && first <= 'z' : first >= 'A' && first <= 'Z') << fix << "\n"
                                                                                     << deployment.text();
  }
}

/// A cache that is known to hold another format is not called one of FP8.
void expect_format_of_cache(const Deployment& deployment, const Diagnosis& d) {
  if (d.facts.cache.quantized != Trait::Yes || holds_fp8(d.facts.cache.name)) return;
  std::string said;
  for (const Sign& sign : d.findings) said += std::string(sign.entry->meaning) + "\n";
  for (const Sign& sign : d.notes) said += std::string(sign.entry->meaning) + "\n";
  for (const Explanation& e : d.explanations) said += title_of(e.cause, d.facts.cache) + "\n";
  EXPECT_EQ(said.find("FP8 cache"), std::string::npos) << said << deployment.text();
}

/// Where the scale file says that 1.0 does as well, nothing is put down to 1.0 or to the file's not being read.
void expect_word_of_scale_file(const Deployment& deployment, const Diagnosis& d) {
  if (!d.facts.scales || !d.facts.scales->one_would_do || !is_one_enough(d.facts)) return;
  for (const Sign& sign : d.findings)
    EXPECT_TRUE(sign.entry->id != "F08" && sign.entry->id != "F30") << sign.entry->id << "\n" << deployment.text();
}

TEST_F(Deployments, AreToldWithoutContradictionOrUselessAdvice) {
  for (unsigned seed = 0; seed < kDeployments && !HasFailure(); ++seed) {
    const Deployment deployment = drawn(seed, checkpoints_);
    const Diagnosis d = deployment.diagnose();
    expect_agreement(deployment, d);
    expect_known(deployment, d);
    expect_useful_fixes(deployment, d);
    expect_words_of_server(deployment, d);
    expect_exports_that_are_taken(deployment, d);
    expect_format_of_cache(deployment, d);
    expect_word_of_scale_file(deployment, d);
  }
}

}  // namespace
}  // namespace kvcal
