// A picture in the prompt: rows of the reference framework's vision tower in place of placeholder tokens, three rows of
// positions, and the tower's streams added behind the first layers (tests/arch/embeddings, made by
// tests/reference/make_embedding_golden.py).
#include <gtest/gtest.h>

#include <fstream>

#include "arch/backend.h"
#include "arch/golden.h"
#include "harness/compare.h"
#include "harness/loaded_model.h"
#include "harness/recording_tap.h"
#include "harness/tolerances.h"
#include "prefill/encoder_file.h"
#include "prefill/memory_plan.h"

namespace kvcal {
namespace {

struct Picture {
  std::filesystem::path folder = std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/arch/embeddings/qwen3_vl";
  std::vector<int32_t> ids;
  SafetensorsFile golden{folder / "golden.safetensors"};

  Picture() {
    std::ifstream in(folder / "prompts.jsonl");
    std::string line;
    std::getline(in, line);
    ids = parse_json(line).at("input_ids").get<std::vector<int32_t>>();
  }

  PromptTokens prompt(const std::string& id, const ModelSpec& spec) const {
    PromptTokens p{id, ids, 1};
    p.encoder = read_encoder_file(folder / "picture.safetensors", ids, spec);
    return p;
  }

  std::vector<float> tensor(const std::string& name) const {
    const TensorInfo* info = golden.find(name);
    if (!info) fail("golden has no tensor " + name);
    std::vector<float> values(static_cast<size_t>(info->shape.elements()));
    convert_to_float(info->dtype, golden.tensor(*info).data, values.data(), values.size());
    return values;
  }
};

constexpr std::pair<const char*, Site> kSites[] = {{"key", Site::Key}, {"value", Site::Value}, {"query", Site::Query}};

void check_sites(LoadedModel& m, const Picture& picture, RecordingTap& tap, const char* precision, int64_t sequence,
                 double bound) {
  for (const KvLayout& c : m.model->spec().caches)
    for (const auto& [name, site] : kSites)
      EXPECT_TRUE(close(tap.seen[{sequence, c.cache, site}].values,
                        picture.tensor(std::string(precision) + "." + name + "." + std::to_string(c.layer)), bound))
          << precision << " " << name << " of layer " << c.layer;
}

void run(Precision precision, const char* name, double bound) {
  const Picture picture;
  LoadedModel m(Golden("qwen3_vl").folder, backend(precision));
  const std::vector<PromptTokens> prompts = {picture.prompt("picture", m.model->spec())};
  const int64_t n = static_cast<int64_t>(picture.ids.size());
  const std::vector<Sequence> sequences = {{0, 1, {{0, 0, n}}, n}};
  RecordingTap tap;
  Runner(*m.model, *m.ops, m.weights, 256).run({{&sequences, &tap, Until::LastKv, nullptr}}, prompts);
  check_sites(m, picture, tap, name, 0, bound);
}

TEST(Embeddings, f32_matches_the_reference) { run(Precision::F32, "f32", tolerance::kF32Rms); }

TEST(Embeddings, bf16_matches_the_reference) { run(Precision::BF16, "bf16", tolerance::kBf16Rms); }

// The rows of an image count for fewer positions than tokens: what follows begins behind the largest of them.
TEST(Embeddings, positions_of_a_packed_sequence_go_on_behind_an_image) {
  const Picture picture;
  LoadedModel m(Golden("qwen3_vl").folder, backend(Precision::F32));
  std::vector<PromptTokens> prompts = {picture.prompt("a", m.model->spec()), {"b", {5, 6, 7}, 1}};
  const int64_t n = static_cast<int64_t>(picture.ids.size());
  const std::vector<Sequence> sequences = {{0, 1, {{0, 0, n}, {1, 0, 3}}, n + 3}};
  const Batch batch = make_batches(sequences, prompts, 256, 3).at(0);
  ASSERT_EQ(batch.positions.size(), static_cast<size_t>(3 * (n + 3)));
  const auto at = [&](int64_t axis, int64_t token) {
    return batch.positions[static_cast<size_t>(axis * (n + 3) + token)];
  };
  // 5 tokens of text, 4 x 6 of the image from position 5 on, 8 of text behind position 5 + 5.
  EXPECT_EQ(at(0, 5), 5);
  EXPECT_EQ(at(1, 5 + 23), 5 + 3);
  EXPECT_EQ(at(2, 5 + 23), 5 + 5);
  EXPECT_EQ(at(0, 29), 11);
  for (int axis = 0; axis < 3; ++axis) EXPECT_EQ(at(axis, n), 11 + 8);
  EXPECT_EQ(batch.encoded.size(), 24u);
  EXPECT_EQ(batch.encoded.front().row, 5);
  EXPECT_EQ(batch.encoded.back().index, 23);
}

TEST(Embeddings, the_memory_plan_counts_the_files) {
  const Picture picture;
  LoadedModel m(Golden("qwen3_vl").folder, backend(Precision::F32));
  const PromptTokens with = picture.prompt("picture", m.model->spec());
  const auto mapped = [&](const PromptTokens& prompt) {
    const SequencePlan sequences = plan_sequences({prompt}, {});
    MemoryOptions options;
    options.budget = uint64_t{8} << 30;
    return plan_memory(m.model->spec(), m.weights, sequences, options).mapped;
  };
  uint64_t rows = 0;
  const SafetensorsFile file(picture.folder / "picture.safetensors");
  for (const TensorInfo& info : file.tensors()) rows += info.name == "positions" ? 0 : info.bytes;
  EXPECT_EQ(mapped(with), mapped({"text", picture.ids, 1}) + rows);
}

TEST(Embeddings, refusals_name_the_cause) {
  const Picture picture;
  LoadedModel m(Golden("qwen3_vl").folder, backend(Precision::F32));
  const auto message = [&](const std::filesystem::path& file, const std::vector<int32_t>& ids, const ModelSpec& spec) {
    try {
      read_encoder_file(file, ids, spec);
      return std::string("accepted");
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const std::filesystem::path file = picture.folder / "picture.safetensors";
  const ModelSpec& spec = m.model->spec();
  EXPECT_EQ(message(file, picture.ids, spec), "accepted");
  contains(message(picture.folder / "missing.safetensors", picture.ids, spec), "missing.safetensors");
  contains(message(picture.folder / "golden.safetensors", picture.ids, spec), "unknown tensor");
  ModelSpec text = spec;
  text.placeholders.clear();
  contains(message(file, picture.ids, text), "a Qwen3VLForConditionalGeneration is read without embeddings");
  for (const char* name : {"qwen3_vl_moe", "gemma3_vl"}) {
    const auto unread = parse_model(Checkpoint::open(Golden(name).folder).config());
    contains(message(file, picture.ids, unread->spec()), "a " + unread->spec().architecture + " is read without");
  }
  contains(message(file, {1, 2, 3}, spec), "no placeholder token");
  std::vector<int32_t> fewer = picture.ids;
  fewer[6] = 1;
  contains(message(file, fewer, spec), "'embeddings' is F32 [24, 48], expected [23, 48]");
  std::vector<int32_t> longer = picture.ids;
  longer.push_back(1);
  contains(message(file, longer, spec), "'positions' is");
  ModelSpec deeper = spec;
  deeper.n_deepstack = 4;
  contains(message(file, picture.ids, deeper), "there is no tensor 'deepstack.3'");
  ModelSpec flat = spec;
  flat.n_deepstack = 2;
  contains(message(file, picture.ids, flat), "unknown tensor 'deepstack.2'");
  ModelSpec narrow = spec;
  narrow.max_positions = 4;
  contains(message(file, picture.ids, narrow), "'positions' holds");
}

}  // namespace
}  // namespace kvcal
