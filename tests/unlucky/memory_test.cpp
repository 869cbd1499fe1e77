// A model of four times the memory budget runs, within the budget, and takes what --dry-run says; the program itself is
// small. The checkpoints are written here, mostly as holes: feed-forward weights of zero cost no disk.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/json.h"
#include "base/read_file.h"
#include "tensor/shape.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kHidden = 1024, kVocab = 512, kLayers = 32, kHeads = 8, kKvHeads = 2, kHeadDim = 64;
constexpr int64_t kFeedForward = 8192;                // 48 MiB of a layer
constexpr int64_t kExperts = 64, kExpertWidth = 128;  // the same in pieces
constexpr int64_t kDeltaHeads = 8, kDeltaDim = 64, kQkv = 3 * kDeltaHeads * kDeltaDim;
constexpr double kTolerance = 1.15;

using Shapes = std::map<std::string, Shape>;

enum class Kind { Dense, Hybrid, Experts };

class Folder {
 public:
  // In the build tree: a temporary folder may be made of memory.
  Folder() {
    std::string name = KVCAL_BUILD_DIR "/memory-XXXXXX";
    if (!mkdtemp(name.data())) throw std::runtime_error("no scratch folder");
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path operator/(const char* name) const { return path_ / name; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

Json config_of(Kind kind) {
  Json c = {{"vocab_size", kVocab},         {"hidden_size", kHidden},          {"intermediate_size", kFeedForward},
            {"num_hidden_layers", kLayers}, {"num_attention_heads", kHeads},   {"num_key_value_heads", kKvHeads},
            {"head_dim", kHeadDim},         {"max_position_embeddings", 4096}, {"rms_norm_eps", 1e-6},
            {"hidden_act", "silu"},         {"tie_word_embeddings", true}};
  if (kind == Kind::Dense) {
    c.update(Json{{"architectures", {"Qwen3ForCausalLM"}}, {"model_type", "qwen3"}, {"rope_theta", 1e6}});
    return c;
  }
  const char* name = kind == Kind::Hybrid ? "Qwen3_5ForCausalLM" : "Qwen3NextForCausalLM";
  c.update(Json{{"architectures", {name}},
                {"model_type", kind == Kind::Hybrid ? "qwen3_5_text" : "qwen3_next"},
                {"full_attention_interval", 4},
                {"linear_num_key_heads", kDeltaHeads},
                {"linear_num_value_heads", kDeltaHeads},
                {"linear_key_head_dim", kDeltaDim},
                {"linear_value_head_dim", kDeltaDim},
                {"linear_conv_kernel_dim", 4}});
  if (kind == Kind::Hybrid)
    c["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e7}, {"partial_rotary_factor", 0.25}};
  else
    c.update(Json{{"rope_theta", 1e7},
                  {"partial_rotary_factor", 0.25},
                  {"decoder_sparse_step", 1},
                  {"mlp_only_layers", Json::array()},
                  {"num_experts", kExperts},
                  {"num_experts_per_tok", 4},
                  {"norm_topk_prob", true},
                  {"moe_intermediate_size", kExpertWidth},
                  {"shared_expert_intermediate_size", kExpertWidth}});
  return c;
}

void add_swiglu(Shapes& t, const std::string& at, int64_t width) {
  t[at + "gate_proj.weight"] = t[at + "up_proj.weight"] = {width, kHidden};
  t[at + "down_proj.weight"] = {kHidden, width};
}

void add_layer(Shapes& t, Kind kind, int64_t index) {
  const std::string layer = "model.layers." + std::to_string(index) + ".";
  t[layer + "input_layernorm.weight"] = t[layer + "post_attention_layernorm.weight"] = {kHidden};
  if (kind == Kind::Dense || index % 4 == 3) {
    const std::string a = layer + "self_attn.";
    t[a + "q_proj.weight"] = {(kind == Kind::Dense ? 1 : 2) * kHeads * kHeadDim, kHidden};  // hybrids: with a gate
    t[a + "k_proj.weight"] = t[a + "v_proj.weight"] = {kKvHeads * kHeadDim, kHidden};
    t[a + "o_proj.weight"] = {kHidden, kHeads * kHeadDim};
    t[a + "q_norm.weight"] = t[a + "k_norm.weight"] = {kHeadDim};
  } else {
    const std::string a = layer + "linear_attn.";
    if (kind == Kind::Hybrid) {
      t[a + "in_proj_qkv.weight"] = {kQkv, kHidden};
      t[a + "in_proj_z.weight"] = {kDeltaHeads * kDeltaDim, kHidden};
      t[a + "in_proj_a.weight"] = t[a + "in_proj_b.weight"] = {kDeltaHeads, kHidden};
    } else {
      t[a + "in_proj_qkvz.weight"] = {kQkv + kDeltaHeads * kDeltaDim, kHidden};
      t[a + "in_proj_ba.weight"] = {2 * kDeltaHeads, kHidden};
    }
    t[a + "conv1d.weight"] = {kQkv, 1, 4};
    t[a + "A_log"] = t[a + "dt_bias"] = {kDeltaHeads};
    t[a + "norm.weight"] = {kDeltaDim};
    t[a + "out_proj.weight"] = {kHidden, kDeltaHeads * kDeltaDim};
  }
  if (kind != Kind::Experts) return add_swiglu(t, layer + "mlp.", kFeedForward);
  t[layer + "mlp.gate.weight"] = {kExperts, kHidden};
  t[layer + "mlp.shared_expert_gate.weight"] = {1, kHidden};
  add_swiglu(t, layer + "mlp.shared_expert.", kExpertWidth);
  for (int64_t e = 0; e < kExperts; ++e) add_swiglu(t, layer + "mlp.experts." + std::to_string(e) + ".", kExpertWidth);
}

/// Returns the bytes of the weights.
uint64_t write_model(const Folder& folder, Kind kind) {
  Shapes shapes = {{"model.embed_tokens.weight", {kVocab, kHidden}}, {"model.norm.weight", {kHidden}}};
  for (int64_t i = 0; i < kLayers; ++i) add_layer(shapes, kind, i);
  Json header = Json::object();
  uint64_t end = 0;
  for (const auto& [name, shape] : shapes) {
    Json extents = Json::array();
    for (int i = 0; i < shape.rank(); ++i) extents.push_back(shape[i]);
    const uint64_t begin = end;
    end += 2 * static_cast<uint64_t>(shape.elements());
    header[name] = {{"dtype", "BF16"}, {"shape", extents}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size(), data = 8 + length;
  std::ofstream file(folder / "model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << text;
  uint32_t x = 1;
  for (const auto& [name, shape] : shapes) {
    if (name.find(".mlp.") != std::string::npos) continue;
    std::vector<uint16_t> values(static_cast<size_t>(shape.elements()));
    for (uint16_t& v : values) {
      x = x * 1664525u + 1013904223u;
      // A gain of 1, or a number between 1/64 and 1/16 of either sign.
      v = name.ends_with("norm.weight") ? 0x3F80 : static_cast<uint16_t>((x >> 31 << 15) | (0x3C80 + (x >> 8) % 256));
    }
    file.seekp(static_cast<std::streamoff>(data + header[name]["data_offsets"][0].get<uint64_t>()));
    file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(2 * values.size()));
  }
  file.close();
  fs::resize_file(folder / "model.safetensors", data + end);
  std::ofstream(folder / "config.json") << config_of(kind).dump();
  std::ofstream prompts(folder / "prompts.jsonl");
  for (int p = 0; p < 4; ++p) {
    Json ids = Json::array();
    for (int t = 0; t < 100; ++t) ids.push_back((37 * t + 101 * p) % kVocab);
    prompts << Json{{"input_ids", ids}}.dump() << '\n';
  }
  return end;
}

struct Ended {
  int code = -1;
  uint64_t peak = 0;  // bytes of resident memory
  std::string out;
};

Ended run(std::vector<std::string> arguments, const fs::path& out) {
  arguments.insert(arguments.begin(), KVCAL_PROGRAM);
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char*> argv;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    if (!freopen(out.c_str(), "w", stdout)) _exit(125);
    execv(KVCAL_PROGRAM, argv.data());
    _exit(125);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          static_cast<uint64_t>(usage.ru_maxrss) * 1024, read_file(out, size_t{1} << 20)};
}

class Memory : public testing::TestWithParam<Kind> {};

TEST_P(Memory, AModelOfFourTimesTheBudgetTakesWhatThePlanSays) {
#ifdef KVCAL_SANITIZED
  GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  const Folder folder;
  const uint64_t weights = write_model(folder, GetParam());
  const std::vector<std::string> command = {"calibrate",   folder.path().string(),
                                            "--prompts",   folder / "prompts.jsonl",
                                            "--memory",    std::to_string(weights / 4 / 1024) + "KiB",
                                            "--no-sanity", "--threads",
                                            "2",           "-q",
                                            "--json"};
  std::vector<std::string> dry = command, real = command;
  dry.emplace_back("--dry-run");
  real.insert(real.end(), {"-o", folder / "s.json"});
  const Ended planned = run(dry, folder / "plan.json");
  ASSERT_EQ(planned.code, 0);
  const auto total = parse_json(planned.out)["memory"]["total"].get<uint64_t>();
  EXPECT_LE(4 * total, weights) << "the plan is beyond the budget";
  const Ended ran = run(real, folder / "out.json");
  EXPECT_EQ(ran.code, 0);
  EXPECT_LE(static_cast<double>(ran.peak), kTolerance * static_cast<double>(total));
  std::printf("weights %llu MiB, plan %llu MiB, peak %llu MiB, %.2f of the plan\n",
              static_cast<unsigned long long>(weights >> 20), static_cast<unsigned long long>(total >> 20),
              static_cast<unsigned long long>(ran.peak >> 20),
              static_cast<double>(ran.peak) / static_cast<double>(total));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Memory, testing::Values(Kind::Dense, Kind::Hybrid, Kind::Experts), [](const auto& kind) {
      return std::string(kind.param == Kind::Dense ? "Dense" : kind.param == Kind::Hybrid ? "Hybrid" : "Experts");
    });

TEST(Program, IsSmall) {
#if defined(KVCAL_SANITIZED) || !defined(NDEBUG)
  GTEST_SKIP() << "a release build only";
#endif
  EXPECT_LT(fs::file_size(KVCAL_PROGRAM), uintmax_t{15} << 20);
}

}  // namespace
}  // namespace kvcal
