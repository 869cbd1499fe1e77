// Pictures in the prompt: rows of the reference framework's vision towers in place of placeholder tokens, with the
// positions and streams that the class gives them, and in Gemma 3 and 4 images that are seen whole
// (tests/arch/embeddings, made by tests/reference/make_embedding_golden.py).
#include <gtest/gtest.h>

#include <numeric>

#include "arch/backend.h"
#include "arch/pictured.h"
#include "harness/compare.h"
#include "harness/message_of.h"
#include "harness/tolerances.h"
#include "harness/whole_run.h"
#include "prefill/encoder_file.h"
#include "prefill/memory_plan.h"

namespace kvcal {
namespace {

constexpr std::pair<const char*, Site> kSites[] = {
    {"key", Site::Key}, {"value", Site::Value}, {"query", Site::Query}, {"latent", Site::Latent}};

class PicturedTest : public testing::TestWithParam<std::string> {
 protected:
  void run(Precision precision, const std::string& name, double bound) {
    LoadedModel m(picture_.model, backend(precision));
    const std::vector<PromptTokens> prompts = {picture_.prompt("picture", m.model->spec())};
    const std::vector<Sequence> sequences = singles(prompts);
    DownloadingTap tap(*m.ops, tap_);
    Runner(*m.model, *m.ops, m.weights, 256).run({{&sequences, &tap, Until::Logits, &logits_}}, prompts);
    int compared = 0;
    for (const KvLayout& c : m.model->spec().caches)
      for (const auto& [site_name, site] : kSites) {
        const std::string tensor = name + "." + site_name + "." + std::to_string(c.layer);
        if (!picture_.has(tensor)) continue;
        EXPECT_TRUE(close(tap_.seen[{0, c.cache, site}].values, picture_.tensor(tensor), bound)) << tensor;
        ++compared;
      }
    const int sites = m.model->spec().caches[0].is_mla() ? 2 : 3;
    EXPECT_EQ(compared, sites * static_cast<int>(m.model->spec().caches.size()));
  }

  Pictured picture_{GetParam()};
  RecordingTap tap_;
  LastLogits logits_;
};

TEST_P(PicturedTest, f32_matches_the_reference) {
  run(Precision::F32, "f32", tolerance::kF32Rms);
  EXPECT_TRUE(close(logits_.logits[0], picture_.tensor("f32.logits"), tolerance::kF32Rms));
}

TEST_P(PicturedTest, bf16_matches_the_reference) {
  run(Precision::BF16, "bf16", tolerance::kBf16Rms);
  EXPECT_GE(compare(logits_.logits[0], picture_.tensor("bf16.logits")).cosine, tolerance::kBf16LogitsCosine);
}

// The tokens behind the prompt have positions behind those of its pictures.
TEST_P(PicturedTest, is_continued_as_by_the_reference) {
  LoadedModel m(picture_.model, backend(Precision::F32));
  const auto expected = picture_.json.at("output_ids").get<std::vector<int32_t>>();
  Generator generator(*m.model, *m.ops, m.weights, 256);
  NoTap tap;
  const GenerateOptions options{static_cast<int64_t>(expected.size()), 0, {}};
  EXPECT_EQ(generator.generate(picture_.prompt("picture", m.model->spec()), options, tap).output_ids, expected);
}

// A picture lies across the end of the first 256 positions.
TEST_P(PicturedTest, chunks_give_what_the_whole_gives) {
  for (const Precision precision : {Precision::F32, Precision::BF16}) {
    LoadedModel m(picture_.model, backend(precision));
    std::vector<int32_t> words(247);
    std::iota(words.begin(), words.end(), 0);
    for (int32_t& word : words) word = 3 + word % 80;
    const std::vector<PromptTokens> prompts = {{"words", words, 1}, picture_.prompt("picture", m.model->spec())};
    const int64_t n_words = static_cast<int64_t>(words.size()), n = static_cast<int64_t>(picture_.ids.size());
    const std::vector<Sequence> sequences = {
        {0, 1, {{0, 0, n_words}, {1, 0, n}, {0, 0, 40}, {1, 0, n}}, n_words + 2 * n + 40}};
    ASSERT_GT(make_batches(sequences, prompts, 256, 1).size(), 1u);
    const auto bytes = [&](int64_t chunk) {
      RecordingTap tap;
      DownloadingTap shown(*m.ops, tap);
      Runner(*m.model, *m.ops, m.weights, chunk).run({{&sequences, &shown, Until::LastKv, nullptr}}, prompts);
      std::map<RecordingTap::Key, std::vector<std::byte>> seen;
      for (const auto& [key, recorded] : tap.seen) seen[key] = recorded.bytes;
      return seen;
    };
    EXPECT_TRUE(bytes(256) == bytes(4096));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, PicturedTest, testing::ValuesIn(pictured_cases()),
                         [](const auto& pictured) { return pictured.param; });

TEST(Embeddings, positions_of_a_packed_sequence_go_on_behind_an_image) {
  const Pictured picture("qwen3_vl");
  LoadedModel m(picture.model, backend(Precision::F32));
  std::vector<PromptTokens> prompts = {picture.prompt("a", m.model->spec()), {"b", {5, 6, 7}, 1}};
  const int64_t n = static_cast<int64_t>(picture.ids.size());
  const std::vector<Sequence> sequences = {{0, 1, {{0, 0, n}, {1, 0, 3}}, n + 3}};
  const Batch batch = make_batches(sequences, prompts, 256, 3).at(0);
  ASSERT_EQ(batch.positions.size(), static_cast<size_t>(3 * (n + 3)));
  const auto at = [&](int64_t axis, int64_t token) {
    return batch.positions[static_cast<size_t>(axis * (n + 3) + token)];
  };
  // 5 tokens of text, 2 x 3 of an image from position 5 on, 4 of text behind position 5 + 3, 2 x 2 of another image
  // from position 12 on, 8 of text behind position 12 + 2.
  EXPECT_EQ(at(0, 5), 5);
  EXPECT_EQ(at(1, 5 + 5), 5 + 1);
  EXPECT_EQ(at(2, 5 + 5), 5 + 2);
  EXPECT_EQ(at(0, 11), 8);
  EXPECT_EQ(at(2, 15 + 3), 12 + 1);
  EXPECT_EQ(at(0, 19), 14);
  for (int axis = 0; axis < 3; ++axis) EXPECT_EQ(at(axis, n), 14 + 8);
  EXPECT_EQ(batch.encoded.size(), 10u);
  EXPECT_EQ(batch.encoded.front().row, 5);
  EXPECT_EQ(batch.encoded.back().index, 9);
  EXPECT_TRUE(batch.last_keys.empty());
}

TEST(Embeddings, the_memory_plan_counts_the_files) {
  const Pictured picture("qwen3_vl");
  LoadedModel m(picture.model, backend(Precision::F32));
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
  const Pictured picture("qwen3_vl");
  LoadedModel m(picture.model, backend(Precision::F32));
  const auto message = [&](const std::filesystem::path& file, const std::vector<int32_t>& ids, const ModelSpec& spec) {
    return message_of([&] { read_encoder_file(file, ids, spec); });
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const std::filesystem::path file = picture.folder / "picture.safetensors";
  const ModelSpec& spec = m.model->spec();
  EXPECT_EQ(message(file, picture.ids, spec), "no error");
  contains(message(picture.folder / "missing.safetensors", picture.ids, spec), "missing.safetensors");
  contains(message(picture.folder / "golden.safetensors", picture.ids, spec), "unknown tensor");
  ModelSpec text = spec;
  text.placeholders.clear();
  contains(message(file, picture.ids, text), "a Qwen3VLForConditionalGeneration is read without embeddings");
  contains(message(file, {1, 2, 3}, spec), "no placeholder token");
  std::vector<int32_t> fewer = picture.ids;
  fewer[6] = 1;
  contains(message(file, fewer, spec), "'embeddings' is F32 [10, 48], expected [9, 48]");
  std::vector<int32_t> longer = picture.ids;
  longer.push_back(1);
  contains(message(file, longer, spec), "'positions' is");
  ModelSpec deeper = spec;
  deeper.n_deepstack = 4;
  contains(message(file, picture.ids, deeper), "has no tensor 'deepstack.3'");
  ModelSpec flat = spec;
  flat.n_deepstack = 2;
  contains(message(file, picture.ids, flat), "unknown tensor 'deepstack.2'");
  ModelSpec narrow = spec;
  narrow.max_positions = 4;
  contains(message(file, picture.ids, narrow), "'positions' holds");
}

}  // namespace
}  // namespace kvcal
