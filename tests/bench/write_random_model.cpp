// Writes a checkpoint with random weights and a known shape, for benchmarks and for runs at real size:
//   write_random_model SHAPE FOLDER [PROMPTS LENGTH]
// Also FOLDER/prompts.jsonl: 8 prompts of 512 given token ids, or as told. Equal arguments give equal files. Shapes
// that end in "-layers" have the layers of a large model, and few of them: for what a layer costs.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>

#include "base/json.h"
#include "base/thread_pool.h"
#include "checkpoint/safetensors_writer.h"

namespace kvcal {
namespace {

using Shapes = std::map<std::string, Shape>;

struct Dims {
  int64_t vocab, hidden, ffn, layers, heads, kv_heads, head_dim;
};

void add_mlp(Shapes& t, const std::string& layer, const Dims& d) {
  t[layer + "input_layernorm.weight"] = t[layer + "post_attention_layernorm.weight"] = {d.hidden};
  t[layer + "mlp.gate_proj.weight"] = t[layer + "mlp.up_proj.weight"] = {d.ffn, d.hidden};
  t[layer + "mlp.down_proj.weight"] = {d.hidden, d.ffn};
}

void add_attention(Shapes& t, const std::string& layer, const Dims& d, int64_t q_parts, bool norms = true) {
  const std::string a = layer + "self_attn.";
  t[a + "q_proj.weight"] = {q_parts * d.heads * d.head_dim, d.hidden};
  t[a + "k_proj.weight"] = t[a + "v_proj.weight"] = {d.kv_heads * d.head_dim, d.hidden};
  t[a + "o_proj.weight"] = {d.hidden, d.heads * d.head_dim};
  if (norms) t[a + "q_norm.weight"] = t[a + "k_norm.weight"] = {d.head_dim};
}

void add_delta_net(Shapes& t, const std::string& layer, const Dims& d, int64_t heads, int64_t dim) {
  const std::string a = layer + "linear_attn.";
  t[a + "in_proj_qkv.weight"] = {3 * heads * dim, d.hidden};
  t[a + "in_proj_z.weight"] = {heads * dim, d.hidden};
  t[a + "in_proj_a.weight"] = t[a + "in_proj_b.weight"] = {heads, d.hidden};
  t[a + "conv1d.weight"] = {3 * heads * dim, 1, 4};
  t[a + "A_log"] = t[a + "dt_bias"] = {heads};
  t[a + "norm.weight"] = {dim};
  t[a + "out_proj.weight"] = {d.hidden, heads * dim};
}

struct RandomModel {
  Json config;
  Shapes tensors;
  bool one_plus = false;  // norm gains are 1 + w
};

Json general_config(const char* architecture, const char* type, const Dims& d) {
  return {{"architectures", {architecture}},
          {"model_type", type},
          {"vocab_size", d.vocab},
          {"hidden_size", d.hidden},
          {"intermediate_size", d.ffn},
          {"num_hidden_layers", d.layers},
          {"num_attention_heads", d.heads},
          {"num_key_value_heads", d.kv_heads},
          {"head_dim", d.head_dim},
          {"max_position_embeddings", 40960},
          {"rms_norm_eps", 1e-6},
          {"hidden_act", "silu"},
          {"tie_word_embeddings", true},
          {"torch_dtype", "bfloat16"}};
}

/// A decoder of equal layers; with norms on queries and keys it is a Qwen3, without a Llama.
RandomModel decoder(const Dims& d, bool norms) {
  RandomModel m{norms ? general_config("Qwen3ForCausalLM", "qwen3", d) : general_config("LlamaForCausalLM", "llama", d),
                {},
                false};
  m.config["rope_theta"] = 1e6;
  m.tensors["model.embed_tokens.weight"] = {d.vocab, d.hidden};
  m.tensors["model.norm.weight"] = {d.hidden};
  for (int64_t i = 0; i < d.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    add_mlp(m.tensors, layer, d);
    add_attention(m.tensors, layer, d, 1, norms);
  }
  return m;
}

constexpr int64_t kFewWords = 8192;  // no table of words where layers are what counts

RandomModel qwen3_0_6b() { return decoder({151936, 1024, 3072, 28, 16, 8, 128}, true); }
RandomModel qwen3_8b_4_layers() { return decoder({kFewWords, 4096, 12288, 4, 32, 8, 128}, true); }
RandomModel llama_70b_2_layers() { return decoder({kFewWords, 8192, 28672, 2, 64, 8, 128}, false); }
RandomModel toy_dense() { return decoder({256, 64, 96, 2, 4, 2, 16}, true); }

struct MoeDims {
  int64_t experts, active, ffn, key_heads, value_heads, delta_dim;
};

void add_experts(Shapes& t, const std::string& layer, const Dims& d, const MoeDims& moe) {
  t[layer + "input_layernorm.weight"] = t[layer + "post_attention_layernorm.weight"] = {d.hidden};
  const std::string mlp = layer + "mlp.";
  t[mlp + "gate.weight"] = {moe.experts, d.hidden};
  t[mlp + "shared_expert_gate.weight"] = {1, d.hidden};
  const auto add_expert = [&](const std::string& expert) {
    t[expert + "gate_proj.weight"] = t[expert + "up_proj.weight"] = {moe.ffn, d.hidden};
    t[expert + "down_proj.weight"] = {d.hidden, moe.ffn};
  };
  add_expert(mlp + "shared_expert.");
  for (int64_t e = 0; e < moe.experts; ++e) add_expert(mlp + "experts." + std::to_string(e) + ".");
}

/// Three delta nets to one attention, with experts: the layers of a Qwen3-Next.
RandomModel hybrid_moe(const Dims& d, const MoeDims& moe) {
  RandomModel m{general_config("Qwen3NextForCausalLM", "qwen3_next", d), {}, true};
  m.config["rope_theta"] = 1e7;
  m.config["partial_rotary_factor"] = 0.25;
  m.config["full_attention_interval"] = 4;
  m.config["linear_num_key_heads"] = moe.key_heads;
  m.config["linear_num_value_heads"] = moe.value_heads;
  for (const char* key : {"linear_key_head_dim", "linear_value_head_dim"}) m.config[key] = moe.delta_dim;
  m.config["num_experts"] = moe.experts;
  m.config["num_experts_per_tok"] = moe.active;
  for (const char* key : {"moe_intermediate_size", "shared_expert_intermediate_size"}) m.config[key] = moe.ffn;
  m.config["decoder_sparse_step"] = 1;
  m.config["norm_topk_prob"] = true;
  m.config["mlp_only_layers"] = Json::array();
  m.tensors["model.embed_tokens.weight"] = {d.vocab, d.hidden};
  m.tensors["model.norm.weight"] = {d.hidden};
  const int64_t keys = moe.key_heads * moe.delta_dim, values = moe.value_heads * moe.delta_dim;
  for (int64_t i = 0; i < d.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".", delta = layer + "linear_attn.";
    add_experts(m.tensors, layer, d, moe);
    if (i % 4 == 3) {
      add_attention(m.tensors, layer, d, 2);
      continue;
    }
    m.tensors[delta + "in_proj_qkvz.weight"] = {2 * keys + 2 * values, d.hidden};
    m.tensors[delta + "in_proj_ba.weight"] = {2 * moe.value_heads, d.hidden};
    m.tensors[delta + "conv1d.weight"] = {2 * keys + values, 1, 4};
    m.tensors[delta + "A_log"] = m.tensors[delta + "dt_bias"] = {moe.value_heads};
    m.tensors[delta + "norm.weight"] = {moe.delta_dim};
    m.tensors[delta + "out_proj.weight"] = {d.hidden, values};
  }
  return m;
}

/// Extents of Qwen3.5-35B-A3B.
RandomModel qwen3_5_35b_a3b_4_layers() {
  return hybrid_moe({kFewWords, 2048, 5632, 4, 16, 2, 256}, {256, 8, 512, 16, 32, 128});
}
RandomModel toy_hybrid_moe() { return hybrid_moe({256, 64, 96, 4, 4, 2, 16}, {4, 2, 32, 2, 4, 16}); }

struct LatentMoeDims {
  int64_t vocab, hidden, ffn, layers, heads, q_rank, kv_rank, nope, rope, value;  // ffn: of dense layers
  int64_t experts, active, expert_ffn, mixed_step;  // every mixed_step-th layer, from the first on, has experts
};

void add_latent_attention(Shapes& t, const std::string& layer, const LatentMoeDims& d) {
  const std::string a = layer + "self_attn.";
  t[a + "q_a_proj.weight"] = {d.q_rank, d.hidden};
  t[a + "q_a_layernorm.weight"] = {d.q_rank};
  t[a + "q_b_proj.weight"] = {d.heads * (d.nope + d.rope), d.q_rank};
  t[a + "kv_a_proj_with_mqa.weight"] = {d.kv_rank + d.rope, d.hidden};
  t[a + "kv_a_layernorm.weight"] = {d.kv_rank};
  t[a + "kv_b_proj.weight"] = {d.heads * (d.nope + d.value), d.kv_rank};
  t[a + "o_proj.weight"] = {d.hidden, d.heads * d.value};
}

Json latent_moe_config(const LatentMoeDims& d) {
  Json c = general_config("DeepseekV3ForCausalLM", "deepseek_v3",
                          {d.vocab, d.hidden, d.ffn, d.layers, d.heads, d.heads, d.nope + d.rope});
  c["rope_theta"] = 1e4;
  c["q_lora_rank"] = d.q_rank;
  c["kv_lora_rank"] = d.kv_rank;
  c["qk_nope_head_dim"] = d.nope;
  c["qk_rope_head_dim"] = d.rope;
  c["v_head_dim"] = d.value;
  c["n_routed_experts"] = d.experts;
  c["num_experts_per_tok"] = d.active;
  c["moe_intermediate_size"] = d.expert_ffn;
  c["n_shared_experts"] = c["n_group"] = c["topk_group"] = 1;
  c["first_k_dense_replace"] = 0;
  c["moe_layer_freq"] = d.mixed_step;
  return c;
}

/// Latent attention with experts: the layers of a DeepSeek-V3 or a GLM-4.7-Flash.
RandomModel latent_moe(const LatentMoeDims& d) {
  RandomModel m{latent_moe_config(d), {}, false};
  m.tensors["model.embed_tokens.weight"] = {d.vocab, d.hidden};
  m.tensors["model.norm.weight"] = {d.hidden};
  const auto add_glu = [&](const std::string& at, int64_t ffn) {
    m.tensors[at + "gate_proj.weight"] = m.tensors[at + "up_proj.weight"] = {ffn, d.hidden};
    m.tensors[at + "down_proj.weight"] = {d.hidden, ffn};
  };
  for (int64_t i = 0; i < d.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".", mlp = layer + "mlp.";
    m.tensors[layer + "input_layernorm.weight"] = m.tensors[layer + "post_attention_layernorm.weight"] = {d.hidden};
    add_latent_attention(m.tensors, layer, d);
    if (i % d.mixed_step != 0) {
      add_glu(mlp, d.ffn);
      continue;
    }
    m.tensors[mlp + "gate.weight"] = {d.experts, d.hidden};
    m.tensors[mlp + "gate.e_score_correction_bias"] = {d.experts};
    add_glu(mlp + "shared_experts.", d.expert_ffn);
    for (int64_t e = 0; e < d.experts; ++e) add_glu(mlp + "experts." + std::to_string(e) + ".", d.expert_ffn);
  }
  return m;
}

/// The layer behind the last experts is dense: of it only queries and latent rows are computed.
RandomModel deepseek_v3_2_layers() {
  return latent_moe({kFewWords, 7168, 18432, 2, 128, 1536, 512, 128, 64, 128, 256, 8, 2048, 2});
}
RandomModel glm_4_7_flash_3_layers() {
  return latent_moe({kFewWords, 2048, 10240, 3, 20, 768, 512, 192, 64, 256, 64, 4, 1536, 1});
}
RandomModel toy_latent_moe() { return latent_moe({256, 64, 96, 2, 4, 32, 32, 16, 8, 16, 4, 2, 32, 2}); }

RandomModel qwen3_5() {
  const Dims d = {248320, 1024, 3584, 24, 8, 2, 256};
  constexpr int64_t kDeltaHeads = 16, kDeltaDim = 128;
  RandomModel m{general_config("Qwen3_5ForCausalLM", "qwen3_5_text", d), {}, true};
  m.config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e7}, {"partial_rotary_factor", 0.25}};
  m.config["full_attention_interval"] = 4;
  for (const char* key : {"linear_num_key_heads", "linear_num_value_heads"}) m.config[key] = kDeltaHeads;
  for (const char* key : {"linear_key_head_dim", "linear_value_head_dim"}) m.config[key] = kDeltaDim;
  m.tensors["model.embed_tokens.weight"] = {d.vocab, d.hidden};
  m.tensors["model.norm.weight"] = {d.hidden};
  for (int64_t i = 0; i < d.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    add_mlp(m.tensors, layer, d);
    if (i % 4 == 3)
      add_attention(m.tensors, layer, d, 2);
    else
      add_delta_net(m.tensors, layer, d, kDeltaHeads, kDeltaDim);
  }
  return m;
}

// Sum of four uniform numbers: near enough to a normal distribution, and the same everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  float normal() {
    int64_t sum = 0;
    for (int i = 0; i < 4; ++i) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      sum += static_cast<int64_t>(state_ >> 48) - 32768;
    }
    return static_cast<float>(sum) * (1.0f / 37837.2f);  // standard deviation 1
  }

 private:
  uint64_t state_;
};

// Mean and spread by the role that the name tells.
void fill(const std::string& name, const Shape& shape, bool one_plus, ThreadPool& pool, std::vector<bf16>& out) {
  float mean = 0, spread = 1.0f / std::sqrt(static_cast<float>(shape[-1]));
  if (name.ends_with("norm.weight")) {
    mean = one_plus && name.find("linear_attn") == std::string::npos ? 0.0f : 1.0f;
    spread = 0.1f;
  } else if (name.ends_with("A_log")) {
    mean = 0.5f, spread = 0.3f;
  } else if (name.ends_with("e_score_correction_bias")) {
    spread = 0.01f;
  } else if (name.ends_with("dt_bias")) {
    mean = -2.0f, spread = 0.5f;
  } else if (name.ends_with("conv1d.weight")) {
    spread = 0.5f;
  } else if (name.ends_with("embed_tokens.weight")) {
    spread = 0.05f;
  }
  out.resize(static_cast<size_t>(shape.elements()));
  constexpr size_t kBlock = 1 << 20;  // each with its own numbers, so that threads share the work
  const size_t seed = std::hash<std::string>{}(name);
  pool.parallel_for(static_cast<int64_t>((out.size() + kBlock - 1) / kBlock), [&](int64_t block, int) {
    Random random(seed + static_cast<size_t>(block));
    const size_t first = static_cast<size_t>(block) * kBlock;
    for (size_t i = first; i < std::min(out.size(), first + kBlock); ++i)
      out[i] = to_bf16(mean + spread * random.normal());
  });
}

struct Prompts {
  int64_t count = 8, length = 512;
};

void write_prompts(const std::filesystem::path& path, int64_t vocab, const Prompts& prompts) {
  std::ofstream file(path);
  Random random(7);
  for (int64_t p = 0; p < prompts.count; ++p) {
    Json ids = Json::array();
    for (int64_t t = 0; t < prompts.length; ++t)
      ids.push_back(static_cast<int64_t>(std::fabs(random.normal()) * 1e6f) % (vocab - 1));
    file << Json{{"id", "p" + std::to_string(p)}, {"input_ids", ids}}.dump() << '\n';
  }
}

void write(const RandomModel& model, const std::filesystem::path& folder, const Prompts& prompts) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << model.config.dump(1) << '\n';
  write_prompts(folder / "prompts.jsonl", model.config["vocab_size"], prompts);
  SafetensorsWriter writer(folder / "model.safetensors", Existing::Replace, {{"format", "pt"}});
  for (const auto& [name, shape] : model.tensors) writer.declare(name, DType::BF16, shape);
  std::vector<bf16> values;
  ThreadPool pool(available_processors());
  for (const auto& [name, shape] : model.tensors) {
    fill(name, shape, model.one_plus, pool, values);
    writer.write(name, std::as_bytes(std::span(values)));
  }
  writer.commit();
}

}  // namespace
}  // namespace kvcal

int main(int argc, char** argv) {
  const std::map<std::string, kvcal::RandomModel (*)()> shapes = {
      {"qwen3-0.6b", kvcal::qwen3_0_6b},
      {"qwen3.5-0.8b", kvcal::qwen3_5},
      {"qwen3-8b-4-layers", kvcal::qwen3_8b_4_layers},
      {"llama-70b-2-layers", kvcal::llama_70b_2_layers},
      {"qwen3.5-35b-a3b-4-layers", kvcal::qwen3_5_35b_a3b_4_layers},
      {"glm-4.7-flash-3-layers", kvcal::glm_4_7_flash_3_layers},
      {"deepseek-v3-2-layers", kvcal::deepseek_v3_2_layers},
      {"toy-dense", kvcal::toy_dense},
      {"toy-latent-moe", kvcal::toy_latent_moe},
      {"toy-hybrid-moe", kvcal::toy_hybrid_moe}};
  const auto shape = argc == 3 || argc == 5 ? shapes.find(argv[1]) : shapes.end();
  kvcal::Prompts prompts;
  if (argc == 5) prompts = {std::atoll(argv[3]), std::atoll(argv[4])};
  if (shape == shapes.end() || prompts.count < 1 || prompts.length < 1) {
    std::fprintf(stderr, "usage: write_random_model SHAPE FOLDER [PROMPTS LENGTH]; shapes:");
    for (const auto& [name, make] : shapes) std::fprintf(stderr, " %s", name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  try {
    kvcal::write(shape->second(), argv[2], prompts);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "write_random_model: %s\n", e.what());
    return 2;
  }
  return 0;
}
