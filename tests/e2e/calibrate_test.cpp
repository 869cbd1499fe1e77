// Calibration from checkpoint to artifact, as a library and as a program: equal bytes whatever the threads, chunks,
// order and warm-ups; the verdicts of the demo models; solve gives what calibrate gave.
#include "calibrate/calibrate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "base/read_file.h"
#include "build_info.h"
#include "checkpoint/safetensors_writer.h"
#include "command_line.h"
#include "e2e/runs.h"
#include "prompt_flags.h"
#include "stats/statistics_file.h"
#include "unit/solved_artifact.h"

namespace kvcal {
namespace {

std::string bytes_of(const fs::path& folder, const std::vector<PromptTokens>& prompts, const RunOptions& options,
                     CalibrationListener& listener) {
  return artifact_text(solved_artifact(measure(folder, prompts, options, listener)));
}

std::string bytes_of(const fs::path& folder, const std::vector<PromptTokens>& prompts, const RunOptions& options) {
  Recorder listener;
  return bytes_of(folder, prompts, options, listener);
}

void expect_bytes_to_depend_on_nothing(const fs::path& folder, Precision precision) {
  const auto prompts = prompts_of({1, 63, 65, 257, 700}, 90);
  RunOptions options;
  options.precision = precision;
  options.threads = 1;
  options.chunk_tokens = 4096;
  const std::string base = bytes_of(folder, prompts, options);
  EXPECT_EQ(bytes_of(folder, prompts, options), base) << "the same run again";
  options.threads = 2;
  options.chunk_tokens = 256;
  EXPECT_EQ(bytes_of(folder, prompts, options), base) << "2 threads, chunks of 256";
  options.threads = 3;
  options.chunk_tokens = 700;
  auto reversed = prompts;
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_EQ(bytes_of(folder, reversed, options), base) << "3 threads, chunks of 512, prompts in reverse";
  for (const int warmup : {0, 3}) {
    options.sequences.warmup_passes = warmup;
    EXPECT_EQ(bytes_of(folder, prompts, options), base) << warmup << " warm-up passes";
  }
}

// A Llama whose down projection sums over 3,328 channels: more than small shapes ever do.
fs::path write_wide_model(const fs::path& folder) {
  const int64_t hidden = 64, ffn = 3328, vocab = 90;
  const Json config = {{"architectures", {"LlamaForCausalLM"}},
                       {"model_type", "llama"},
                       {"vocab_size", vocab},
                       {"hidden_size", hidden},
                       {"intermediate_size", ffn},
                       {"num_hidden_layers", 3},
                       {"num_attention_heads", 4},
                       {"num_key_value_heads", 2},
                       {"tie_word_embeddings", true}};
  std::ofstream(folder / "config.json") << config.dump();
  std::map<std::string, Shape> tensors = {{"model.embed_tokens.weight", {vocab, hidden}},
                                          {"model.norm.weight", {hidden}}};
  for (int i = 0; i < 3; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    for (const char* norm : {"input_layernorm.weight", "post_attention_layernorm.weight"})
      tensors[layer + norm] = {hidden};
    for (const char* p : {"q_proj", "o_proj"}) tensors[layer + "self_attn." + p + ".weight"] = {hidden, hidden};
    for (const char* p : {"k_proj", "v_proj"}) tensors[layer + "self_attn." + p + ".weight"] = {hidden / 2, hidden};
    for (const char* p : {"gate_proj", "up_proj"}) tensors[layer + "mlp." + p + ".weight"] = {ffn, hidden};
    tensors[layer + "mlp.down_proj.weight"] = {hidden, ffn};
  }
  SafetensorsWriter writer(folder / "model.safetensors", Existing::Refuse);
  for (const auto& [name, shape] : tensors) writer.declare(name, DType::BF16, shape);
  uint32_t x = 3;
  for (const auto& [name, shape] : tensors) {
    std::vector<bf16> values(static_cast<size_t>(shape.elements()));
    for (bf16& v : values) {
      x = x * 1664525u + 1013904223u;
      const float uniform = static_cast<float>(x >> 8) / 16777216.0f - 0.5f;
      v = to_bf16(name.ends_with("norm.weight") ? 1 + uniform / 4 : uniform * 0.6f);
    }
    writer.write(name, std::as_bytes(std::span(values)));
  }
  writer.commit();
  return folder;
}

TEST(Bytes, of_the_demo_hybrid_depend_on_nothing_that_must_not_matter) {
  expect_bytes_to_depend_on_nothing(source("datasets/demo/stressed"), Precision::BF16);
}

TEST(Bytes, in_f32_too) { expect_bytes_to_depend_on_nothing(source("datasets/demo/natural"), Precision::F32); }

TEST(Bytes, of_long_sums_too) {
  const Scratch scratch;
  expect_bytes_to_depend_on_nothing(write_wide_model(scratch.path()), Precision::BF16);
}

TEST(Solve, from_saved_statistics_gives_the_bytes_of_calibrate) {
  const Scratch scratch;
  const Statistics statistics = measure(source("datasets/demo/natural"), prompts_of({40, 100, 300}, 600), RunOptions());
  const fs::path file = scratch.path() / "run.kvstats";
  write_statistics(file, statistics, Existing::Refuse);
  const Statistics read = read_statistics(file);
  for (const char* policy : {"absmax", "pow2", "percentile", "mse", "kl"})
    for (const Granularity granularity : {Granularity::Tensor, Granularity::Head}) {
      SolveOptions options;
      options.policy = policy;
      options.granularity = granularity;
      EXPECT_EQ(artifact_text(solved_artifact(read, options)), artifact_text(solved_artifact(statistics, options)))
          << policy;
    }
}

// As the program does it.
CalibrationResult calibrated(const fs::path& model, const PromptFlags& flags) {
  CalibrationOptions options;
  options.prompts = flags.resolve();
  options.tool_version = std::string("kvcal ") + build_info().version;
  Recorder listener;
  return calibrate({.model = model,
                    .prompts = [&](bool chat) { return read_prompt_files(flags, chat); },
                    .open_devices = [] { return open_device("auto", Precision::BF16, 0); }},
                   options, listener);
}

Artifact demo(const char* model) {
  PromptFlags flags;
  flags.files = {source("datasets/demo/prompts.jsonl").string()};
  flags.max_length = 1024;
  return *calibrated(source(std::string("datasets/demo/") + model), flags).artifact;
}

TEST(Library, gives_the_files_of_the_program) {
  const Scratch scratch;
  const std::string model = source("datasets/demo/stressed").string(),
                    prompts = source("datasets/demo/prompts.jsonl").string(),
                    statistics_file = (scratch.path() / "run.kvstats").string(),
                    scale_file = (scratch.path() / "scales.json").string();
  const std::vector<const char*> command = {
      "kvcal", "calibrate", model.c_str(),           "--prompts", prompts.c_str(),    "--max-prompts",
      "12",    "--stats",   statistics_file.c_str(), "-o",        scale_file.c_str(), "-q"};
  ASSERT_EQ(parse_command_line(static_cast<int>(command.size()), command.data())(), Exit::Done);
  PromptFlags flags;
  flags.files = {prompts};
  flags.max_prompts = 12;
  const CalibrationResult result = calibrated(model, flags);
  const fs::path own_file = scratch.path() / "own.kvstats";
  write_statistics(own_file, result.statistics, Existing::Refuse);
  constexpr size_t kMost = size_t{64} << 20;
  EXPECT_TRUE(read_file(own_file, kMost) == read_file(statistics_file, kMost));
  EXPECT_EQ(artifact_text(*result.artifact), read_file(scale_file, kMost));
  EXPECT_EQ(*result.artifact, solved_artifact(read_statistics(own_file), {}));
}

TEST(RangesBy, tags_and_kinds_of_tokens_come_from_prompts_to_the_artifact) {
  const Scratch scratch;
  std::ofstream(scratch.path() / "p.json") << R"([
    {"id": "a", "tags": ["sums"], "messages": [{"role": "user", "content": "What is 7 * 8 + 3?"}]},
    {"id": "b", "tags": ["sums", "talk"], "messages": [{"role": "user", "content": "What is 2 + 3?"},
      {"role": "assistant", "content": "5."}, {"role": "user", "content": "And 4 + 4?"}]},
    {"id": "c", "text": "red blue"}])";
  PromptFlags flags;
  flags.files = {(scratch.path() / "p.json").string()};
  const CalibrationResult result = calibrated(source("datasets/demo/natural"), flags);
  EXPECT_EQ(result.statistics.run.tags, (PromptTags{{"sums", {0, 1}}, {"talk", {1}}}));
  const Artifact& a = *result.artifact;
  std::map<std::string, std::vector<std::string>> names;
  for (const auto& [grouping, groups] : a.ranges_by.items())
    for (const Json& group : groups) {
      names[grouping].push_back(group["name"]);
      for (const char* site : {"key", "value", "query"}) {
        EXPECT_GT(group[site]["share"].get<double>(), 0) << group.dump();
        EXPECT_LE(group[site]["share"].get<double>(), 1) << group.dump();
      }
    }
  EXPECT_EQ(names["tag"], (std::vector<std::string>{"sums", "talk"}));
  EXPECT_EQ(names["role"], (std::vector<std::string>{"text", "user", "assistant"}));
  EXPECT_EQ(names["turn"], (std::vector<std::string>{"none", "1", "2"}));
  EXPECT_EQ(artifact_from_json(to_json(a)), a);
}

TEST(Demo, the_natural_model_is_neutral) {
  const Artifact a = demo("natural");
  ASSERT_EQ(a.layers.size(), 2u);
  EXPECT_EQ(a.layers[0].index, 3);
  EXPECT_EQ(a.layers[1].index, 7);
  for (const ArtifactLayer& l : a.layers) {
    EXPECT_EQ(l.key.verdict(), Verdict::Neutral);
    EXPECT_EQ(l.value.verdict(), Verdict::Neutral);
  }
  // The training data's own maxima (datasets/demo/README.md); the prompts are a sample of it.
  EXPECT_NEAR(a.layers[0].key.absmax, 6.62, 0.4);
  EXPECT_NEAR(a.layers[0].value.absmax, 11.2, 0.6);
  EXPECT_NEAR(a.layers[1].key.absmax, 6.19, 0.4);
  EXPECT_NEAR(a.layers[1].value.absmax, 18.2, 0.9);
  EXPECT_EQ(a.kv_cache.size(), 8u);
}

TEST(Demo, the_stressed_twin_needs_its_scales) {
  const Artifact natural = demo("natural"), twin = demo("stressed");
  ASSERT_EQ(twin.layers.size(), 2u);
  const float key[] = {128, 1.0f / 32}, value[] = {1.0f / 16384, 1024};
  for (size_t i = 0; i < 2; ++i) {
    // The twin is the same function: its maxima are the natural ones times its powers of two.
    EXPECT_EQ(twin.layers[i].key.absmax, natural.layers[i].key.absmax * key[i]);
    EXPECT_EQ(twin.layers[i].value.absmax, natural.layers[i].value.absmax * value[i]);
    EXPECT_EQ(twin.layers[i].value.verdict(), Verdict::Needed) << "layer " << twin.layers[i].index;
  }
  EXPECT_EQ(twin.layers[0].key.verdict(), Verdict::Needed);
  EXPECT_TRUE(twin.kv_cache.empty()) << "one scale for key and value cannot serve both";
  EXPECT_FALSE(twin.kv_cache_left_out.empty());
}

TEST(Convergence, is_denied_where_the_last_prompts_still_raise_the_maximum) {
  std::vector<PromptTokens> prompts;
  for (const char* id : {"a", "b", "c"}) prompts.push_back({id, {10, 10, 10}, 1});
  prompts.push_back({"d", prompts_of({300}, 600)[0].ids, 1});
  const Artifact never = solved_artifact(measure(source("datasets/demo/natural"), prompts, RunOptions()));
  EXPECT_FALSE(never.layers[0].key.growth.converged);
  for (const char* id : {"a", "b", "c"}) prompts[static_cast<size_t>(id[0] - 'a')].ids = prompts[3].ids;
  const Artifact settled = solved_artifact(measure(source("datasets/demo/natural"), prompts, RunOptions()));
  EXPECT_TRUE(settled.layers[0].key.growth.converged);
}

// Ids in the order of the list.
std::vector<PromptTokens> many_prompts(size_t n, int64_t length) {
  std::vector<PromptTokens> prompts = prompts_of(std::vector<int64_t>(n, length), 600);
  for (size_t i = 0; i < n; ++i) prompts[i].id = std::to_string(100 + i);
  return prompts;
}

TEST(UntilStable, draws_new_prompts_and_gives_the_bytes_of_a_run_over_them) {
  auto prompts = many_prompts(40, 40);
  RunOptions options;
  const std::string first_16 =
      bytes_of(source("datasets/demo/natural"), {prompts.begin(), prompts.begin() + 16}, options);
  options.until_stable = 50;  // of 8 prompts and 16 the ranges are the same but for noise
  EXPECT_EQ(bytes_of(source("datasets/demo/natural"), prompts, options), first_16);
  options.threads = 1;
  options.chunk_tokens = 256;
  std::reverse(prompts.begin(), prompts.end());
  EXPECT_EQ(bytes_of(source("datasets/demo/natural"), prompts, options), first_16);
}

TEST(UntilStable, takes_all_prompts_where_they_do_not_settle) {
  const auto prompts = many_prompts(20, 30);
  RunOptions options;
  for (const int passes : {1, 3}) {
    options.sequences.passes = passes;
    options.until_stable = -1;
    const std::string all = bytes_of(source("datasets/demo/natural"), prompts, options);
    options.until_stable = 0;
    Recorder listener;
    EXPECT_EQ(bytes_of(source("datasets/demo/natural"), prompts, options, listener), all);
    EXPECT_TRUE(listener.heard("all 20 prompts are used, and the last prompts raised layer ")) << listener.text();
  }
}

// Drawn prompts are run in every pass, others count in later ones by what the first showed.
TEST(Passes, that_run_a_prompt_again_find_the_same) {
  auto prompts = many_prompts(20, 40);
  for (size_t i = 0; i < 20; i += 3) prompts[i].ids.resize(25 + i / 3), prompts[i].kinds.resize(25 + i / 3);
  RunOptions options;
  options.sequences.passes = 3;
  options.sequences.max_length = 60;
  const auto bytes_with = [&](double until_stable) {
    options.until_stable = until_stable;
    const Scratch scratch;
    const fs::path file = scratch.path() / "s.kvstats";
    write_statistics(file, measure(source("datasets/demo/natural"), prompts, options), Existing::Replace);
    return read_file(file, 1 << 26);
  };
  EXPECT_EQ(bytes_with(-1), bytes_with(0));
}

TEST(UntilStable, says_that_few_prompts_show_nothing) {
  RunOptions options;
  options.until_stable = 1000;
  Recorder listener;
  EXPECT_EQ(measure(source("datasets/demo/natural"), many_prompts(8, 20), options, listener).run.n_passes, 2);
  EXPECT_TRUE(listener.heard("all 8 prompts are used, and there are too few to tell")) << listener.text();
}

// The checkpoint with one tensor renamed in the header: as good as missing.
void copy_with_renamed_tensor(const fs::path& from, const fs::path& to, const std::string& name) {
  fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  std::ifstream in(from / "model.safetensors", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const size_t at = bytes.find(name);
  ASSERT_NE(at, std::string::npos);
  bytes[at + name.size() - 1] = '_';
  std::ofstream(to / "model.safetensors", std::ios::binary) << bytes;
}

TEST(Plan, finds_a_missing_tensor_of_the_last_layer_before_anything_runs) {
  const Scratch scratch;
  copy_with_renamed_tensor(source("datasets/demo/natural"), scratch.path(), "model.layers.7.mlp.up_proj.weight");
  OpenedModel model(scratch.path());
  try {
    plan_of(model, prompts_of({40}, 600), RunOptions());
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("checking the weights of layer 7"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("model.layers.7.mlp.up_proj.weight"), std::string::npos) << e.what();
  }
}

TEST(Memory, a_budget_that_is_too_small_is_refused_with_the_numbers) {
  RunOptions options;
  options.memory = 1 << 20;
  try {
    measure(source("datasets/demo/natural"), prompts_of({40}, 600), options);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("the budget is 1.0 MiB"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace kvcal
