// An MLA model from checkpoint to artifact: the same promises as for keys and values, and a file that passes validate.
#include <gtest/gtest.h>

#include "base/read_file.h"
#include "e2e/runs.h"
#include "stats/merge.h"
#include "stats/statistics_file.h"
#include "unit/solved_artifact.h"
#include "validate/validate.h"

namespace kvcal {
namespace {

fs::path model_folder() { return source("tests/arch/golden/deepseek_v3"); }

std::vector<PromptTokens> prompts() { return prompts_of({1, 63, 65, 257, 400}, 96); }

TEST(Latent, ArtifactOfARunPassesValidate) {
  const Artifact a = solved_artifact(measure(model_folder(), prompts(), RunOptions()));
  ASSERT_EQ(a.layers.size(), 3U);
  for (const ArtifactLayer& l : a.layers) {
    EXPECT_EQ(l.kind, "mla");
    EXPECT_EQ(l.name, "model.layers." + std::to_string(l.index) + ".self_attn");
    EXPECT_EQ(l.head_dim_k, 32);
    EXPECT_EQ(l.head_dim_v, 24);
    EXPECT_GT(l.latent.parts->absmax_latent, 0);
    EXPECT_GT(l.latent.parts->absmax_rope, 0);
    EXPECT_EQ(l.query.absmax_per_head.size(), 4U);
  }
  EXPECT_TRUE(a.kv_cache.empty());
  const std::string schema = read_file(source("schemas") / kArtifactSchemaFile, size_t{1} << 20);
  const ModelIdentity model = identify_model(model_folder());
  const Report report = validate_artifact(artifact_text(a), schema, &model);
  std::string text;
  for (const Finding& f : report.findings)
    if (rule_named(f.rule).severity != Severity::Note) text += f.rule + " " + f.path + ": " + f.what + "\n";
  EXPECT_FALSE(report.has_errors()) << text;
}

TEST(Latent, BytesDoNotDependOnThreadsChunksAndOrder) {
  RunOptions options;
  options.threads = 1;
  options.chunk_tokens = 4096;
  const auto bytes = [&](std::vector<PromptTokens> p) {
    return artifact_text(solved_artifact(measure(model_folder(), std::move(p), options)));
  };
  const std::string base = bytes(prompts());
  options.threads = 2;
  options.chunk_tokens = 256;
  auto reversed = prompts();
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_EQ(bytes(reversed), base);
}

TEST(Latent, SavedStatisticsGiveTheSameArtifact) {
  const Scratch scratch;
  const Statistics statistics = measure(model_folder(), prompts(), RunOptions());
  const fs::path file = scratch.path() / "run.kvstats";
  write_statistics(file, statistics, Existing::Refuse);
  EXPECT_EQ(artifact_text(solved_artifact(read_statistics(file))), artifact_text(solved_artifact(statistics)));
}

TEST(Latent, ShardsMergeToTheWhole) {
  std::vector<Statistics> shards;
  RunOptions options;
  for (options.sequences.n_shards = 2; options.sequences.shard < 2; ++options.sequences.shard)
    shards.push_back(measure(model_folder(), prompts(), options));
  const Statistics merged = merge(shards), whole = measure(model_folder(), prompts(), RunOptions());
  ASSERT_EQ(merged.caches.size(), whole.caches.size());
  for (size_t c = 0; c < whole.caches.size(); ++c)
    for (const CacheSite site : sites_of(whole.caches[c].layout)) {
      const SiteStatistics &a = merged.caches[c].at(site), &b = whole.caches[c].at(site);
      EXPECT_EQ(a.n_tokens, b.n_tokens);
      EXPECT_EQ(a.heads[0].histogram.counts, b.heads[0].histogram.counts);
      EXPECT_EQ(a.heads[0].where, b.heads[0].where);
      EXPECT_EQ(a.pair_norm, b.pair_norm);
    }
}

}  // namespace
}  // namespace kvcal
