// What an encoder's rows become where the residual stream has several rows of a token. No golden case brings such rows:
// the tower of the class is of another package.
#include <gtest/gtest.h>

#include <cmath>

#include "arch/backend.h"
#include "arch/golden.h"
#include "harness/whole_run.h"

namespace kvcal {
namespace {

constexpr int32_t kImage = 92;  // beyond the table of embeddings by layer, where all tokens have those of token 0

/// The embedding of token 0, as the model scales it, for each image token.
std::shared_ptr<const EncoderRows> rows_of_token_0(LoadedModel& m, const std::vector<int32_t>& ids) {
  const ModelSpec& spec = m.model->spec();
  const Tensor table = m.weights.text("embed_tokens.weight", {spec.vocab, spec.hidden});
  const auto memory = std::make_shared<Storage>(Shape{1, spec.hidden}, DType::F32);
  float* row = memory->tensor().as<float>();
  convert_to_float(table.dtype, table.data, row, static_cast<size_t>(spec.hidden));
  for (int64_t i = 0; i < spec.hidden; ++i) row[i] *= std::sqrt(static_cast<float>(spec.hidden));
  auto rows = std::make_shared<EncoderRows>();
  rows->embeddings = memory->tensor();
  rows->memory = memory;
  rows->n_axes = 1;
  for (size_t i = 0; i < ids.size(); ++i) {
    rows->row_of.push_back(ids[i] == kImage ? 0 : -1);
    rows->positions.push_back(static_cast<int32_t>(i));
  }
  return rows;
}

std::map<RecordingTap::Key, std::vector<std::byte>> seen(LoadedModel& m, const PromptTokens& prompt) {
  const std::vector<PromptTokens> prompts = {prompt};
  const std::vector<Sequence> sequences = singles(prompts);
  RecordingTap tap;
  DownloadingTap shown(*m.ops, tap);
  Runner(*m.model, *m.ops, m.weights, 256).run({{&sequences, &shown, Until::LastKv, nullptr}}, prompts);
  std::map<RecordingTap::Key, std::vector<std::byte>> bytes;
  for (const auto& [key, recorded] : tap.seen) bytes[key] = recorded.bytes;
  return bytes;
}

TEST(Streams, are_made_of_an_encoders_rows_as_of_embeddings) {
  LoadedModel m(Golden("gemma3n_vl").folder, backend(Precision::F32));
  const std::vector<int32_t> pictured = {3, kImage, kImage, 7, 11, kImage, 20};
  const std::vector<int32_t> text = {3, 0, 0, 7, 11, 0, 20}, other = {3, kImage, kImage, 7, 11, kImage, 20};
  const auto expected = seen(m, {"text", text, 1});
  EXPECT_TRUE(seen(m, {"pictured", pictured, 1, rows_of_token_0(m, pictured)}) == expected);
  EXPECT_FALSE(seen(m, {"other", other, 1}) == expected);
}

TEST(Streams, of_generated_tokens_are_made_of_an_encoders_rows_too) {
  LoadedModel m(Golden("gemma3n_vl").folder, backend(Precision::F32));
  const std::vector<int32_t> pictured = {3, kImage, kImage, 7}, text = {3, 0, 0, 7};
  Generator generator(*m.model, *m.ops, m.weights, 256);
  NoTap tap;
  EXPECT_EQ(generator.last_logits({"pictured", pictured, 1, rows_of_token_0(m, pictured)}, {4}, tap),
            generator.last_logits({"text", text, 1}, {4}, tap));
}

}  // namespace
}  // namespace kvcal
