// A prompt that is cut into batches: later ones attend to rows that earlier ones left rounded, in every kind of cache.
#include <gtest/gtest.h>

#include "arch/backend.h"
#include "arch/golden.h"
#include "evaluate/evaluate.h"

namespace kvcal {
namespace {

PromptSet prompts_of(std::initializer_list<int> lengths) {
  PromptSet set;
  for (const int length : lengths) {
    PromptRecord record;
    record.id = record.canonical = std::to_string(length);
    record.kind = PromptKind::Ids;
    for (int i = 0; i < length; ++i) record.input_ids.push_back((i * i + 5 * i + length) % 96);
    set.records.push_back(record);
  }
  return set;
}

VariantSet coarse(const ModelSpec& spec) {
  Variant variant{"coarse", "int8", {}};
  const SiteRounding rounding{CacheFormat::Int8, {0.1f}, {0.1f}};
  for (const KvLayout& layout : spec.caches) {
    variant.caches.push_back({rounding, rounding, {}});
    if (layout.is_mla()) variant.caches.back().value.reset();
  }
  return {{variant}, {}, {}};
}

std::vector<ComparedToken> tokens_in_batches_of(const Golden& model, int64_t rows) {
  EvaluationOptions options;
  options.precision = Precision::F32;
  options.chunk_tokens = rows;
  CalibrationListener silent;
  Evaluation evaluation = evaluate({.model = model.folder,
                                    .prompts =
                                        [](bool) {
                                          return prompts_of({500, 90});
                                        },
                                    .open_device = [] { return backend(Precision::F32); }},
                                   options, coarse, silent);
  EXPECT_EQ(evaluation.memory.chunk_tokens, rows);
  return std::move(evaluation.compared[0].tokens);
}

class Batches : public ::testing::TestWithParam<const char*> {};

TEST_P(Batches, DoNotMatter) {
  const Golden model(GetParam());
  const std::vector<ComparedToken> whole = tokens_in_batches_of(model, 768), cut = tokens_in_batches_of(model, 256);
  ASSERT_EQ(whole.size(), 590U);
  ASSERT_EQ(cut.size(), 590U);
  double sum = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    ASSERT_EQ(cut[i].prompt, whole[i].prompt);
    ASSERT_EQ(cut[i].position, whole[i].position);
    EXPECT_EQ(cut[i].difference.kl, whole[i].difference.kl) << "position " << cut[i].position;
    EXPECT_EQ(cut[i].difference.nll_variant, whole[i].difference.nll_variant) << "position " << cut[i].position;
    sum += whole[i].difference.kl;
  }
  EXPECT_GT(sum, 0.001) << "nothing was rounded";
}

INSTANTIATE_TEST_SUITE_P(All, Batches,
                         ::testing::Values("qwen3", "deepseek_v3", "kimi_linear", "gemma4", "mistral_window", "gemma2",
                                           "gpt_oss", "qwen3_next", "jamba"),
                         [](const auto& given) { return std::string(given.param); });

}  // namespace
}  // namespace kvcal
