// A prompt that is cut into batches: later ones attend to rows that earlier ones left rounded, in every kind of cache.
// And what a batch has room for, and what an answer says that fails.
#include <gtest/gtest.h>

#include <limits>

#include "arch/backend.h"
#include "arch/golden.h"
#include "evaluate/evaluate.h"
#include "evaluate/make_variants.h"
#include "evaluate/rounding_tap.h"
#include "prefill/generate.h"

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

std::vector<ComparedToken> tokens_in_batches_of(const Golden& model, int64_t rows, int64_t keep_recent = 0) {
  EvaluationOptions options;
  options.keep_recent = keep_recent;
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

void expect_equal(const std::vector<ComparedToken>& a, const std::vector<ComparedToken>& b) {
  ASSERT_EQ(a.size(), 590U);
  ASSERT_EQ(b.size(), 590U);
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].prompt, b[i].prompt);
    ASSERT_EQ(a[i].position, b[i].position);
    EXPECT_EQ(a[i].difference.kl, b[i].difference.kl) << "position " << a[i].position;
    EXPECT_EQ(a[i].difference.nll_variant, b[i].difference.nll_variant) << "position " << a[i].position;
    sum += a[i].difference.kl;
  }
  EXPECT_GT(sum, 1e-4) << "nothing was rounded";
}

class Batches : public ::testing::TestWithParam<const char*> {};

TEST_P(Batches, DoNotMatter) {
  const Golden model(GetParam());
  expect_equal(tokens_in_batches_of(model, 768), tokens_in_batches_of(model, 256));
}

// Blocks end where batches do and elsewhere; 90 is all of a prompt.
TEST_P(Batches, DoNotMatterToBlocks) {
  const Golden model(GetParam());
  for (const int64_t block : {90, 256}) {
    SCOPED_TRACE("blocks of " + std::to_string(block));
    const std::vector<ComparedToken> tokens = tokens_in_batches_of(model, 768, block);
    expect_equal(tokens, tokens_in_batches_of(model, 256, block));
    for (const ComparedToken& t : tokens)
      EXPECT_TRUE(t.position >= block || t.difference.kl == 0) << "prompt " << t.prompt << ", position " << t.position;
  }
}

/// Of models that have no recurrent state, which a token at a time leaves with other last bits.
class Blocks : public ::testing::TestWithParam<const char*> {};

// What generation does.
TEST_P(Blocks, MayComeTokenByToken) {
  OpenedModel model(Golden(GetParam()).folder);
  const std::unique_ptr<Ops> op = backend(Precision::F32);
  const Variant variant = coarse(model.spec()).compared[0];
  Generator generator(*model.model, *op, model.weights, 256);
  const PromptTokens prompt{"40", prompts_of({40}).records[0].input_ids};
  const auto logits = [&](const std::vector<int64_t>& steps, int64_t block) {
    RoundingTap tap(variant, *op, block);
    return generator.last_logits(prompt, steps, tap);
  };
  const std::vector<float> in_blocks = logits({16, 16, 8}, 16);
  EXPECT_EQ(in_blocks, logits(std::vector<int64_t>(40, 1), 16));
  EXPECT_NE(in_blocks, logits({16, 16, 8}, 0)) << "rows of the last block were rounded";
  EXPECT_NE(in_blocks, logits({40}, 64)) << "rows of complete blocks were not";
}

// Its queries and keys are in two parts, then joined.
TEST(Plan, HasRoomForWhatTheFloorPutsInAnotherOrder) {
  const Golden model("qwen3");
  EvaluationOptions options;
  options.precision = Precision::F32;
  options.chunk_tokens = 256;
  CalibrationListener silent;
  const auto activations = [&](const MakeVariants& variants) {
    const EvaluationInputs inputs{.model = model.folder,
                                  .prompts = [](bool) { return prompts_of({300}); },
                                  .open_device = [] { return backend(Precision::F32); }};
    return evaluate(inputs, options, variants, silent).memory.activations;
  };
  const KvLayout cache = OpenedModel(model.folder).spec().caches.at(0);
  const int64_t row = 2 * (cache.n_heads + cache.n_kv_heads) * cache.head_dim_k;
  const auto with_floor = [](const ModelSpec& spec) {
    VariantSet set = coarse(spec);
    set.compared.push_back(floor_of(spec));
    return set;
  };
  EXPECT_EQ(activations(with_floor), activations(coarse) + static_cast<uint64_t>(256 * row) * sizeof(float));
}

TEST(Answers, DoNotBlameTheCheckpointAloneForWhatIsRounded) {
  OpenedModel model(Golden("qwen3").folder);
  const std::unique_ptr<Ops> op = backend(Precision::F32);
  Variant variant = coarse(model.spec()).compared[0];
  for (CacheSites& sites : variant.caches) sites.key->read = {std::numeric_limits<float>::quiet_NaN()};
  Generator generator(*model.model, *op, model.weights, 256);
  RoundingTap tap(variant, *op, 0);
  try {
    generator.generate({"40", prompts_of({40}).records[0].input_ids}, {}, tap);
    FAIL() << "answered";
  } catch (const Error& e) {
    EXPECT_STREQ(
        e.what(),
        "a logit is not a number: the checkpoint or its loading is broken, or a rounded cache or state overflows");
  }
}

INSTANTIATE_TEST_SUITE_P(All, Batches,
                         ::testing::Values("qwen3", "deepseek_v3", "kimi_linear", "gemma4", "mistral_window", "gemma2",
                                           "gpt_oss", "qwen3_next", "jamba"),
                         [](const auto& given) { return std::string(given.param); });

INSTANTIATE_TEST_SUITE_P(All, Blocks,
                         ::testing::Values("qwen3", "deepseek_v3", "gemma4", "mistral_window", "gemma2", "gpt_oss"),
                         [](const auto& given) { return std::string(given.param); });

}  // namespace
}  // namespace kvcal
