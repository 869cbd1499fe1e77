// Every architecture's golden, folded: the same logits, caches shifted by their powers of two, and back byte for byte.
#include "checkpoint/fold_mark.h"
#include "checkpoint/weight_files.h"
#include "fold/runs.h"

namespace kvcal {
namespace {

struct Case {
  std::string model;
  Balance balance;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.model << " by " << name_of(c.balance); }

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& model : golden_cases())
    for (const Balance balance : {Balance::Tensor, Balance::Head, Balance::Channel}) all.push_back({model, balance});
  return all;
}

/// Sites that cannot be folded, or not as finely as asked for.
struct Known {
  std::string models;  // that begin so
  CacheSite site;
  std::string why;  // begins so
  bool coarser = false;
};

const std::vector<Known>& known() {
  static const std::vector<Known> all = {
      {"gemma3", CacheSite::Key, "keys are normed with a gain of 1 + w"},
      {"minimax_m3", CacheSite::Key, "keys are normed with a gain of 1 + w"},
      {"qwen3_5", CacheSite::Key, "keys are normed with a gain of 1 + w"},
      {"qwen3_next", CacheSite::Key, "keys are normed with a gain of 1 + w"},
      {"step3p5", CacheSite::Key, "keys are normed with a gain of 1 + w"},
      {"llama4", CacheSite::Key, "keys are normed without a gain"},
      {"muse_glimmer", CacheSite::Key, "keys are normed without a gain"},
      {"gemma3n", CacheSite::Value, "values are normed without a gain"},
      {"gemma4", CacheSite::Value, "values are normed without a gain"},
      {"zamba2", CacheSite::Key, "its weights are a block's that serves several layers"},
      {"zamba2", CacheSite::Value, "its weights are a block's that serves several layers"},
      {"falcon", CacheSite::Key, "its queries, keys and values are one weight, group by group"},
      {"falcon", CacheSite::Value, "its queries, keys and values are one weight, group by group"},
      {"gpt2", CacheSite::Key, "its weights are stored transposed"},
      {"gpt2", CacheSite::Value, "its weights are stored transposed"},
      {"gpt_neox", CacheSite::Key, "its queries, keys and values are one weight, head by head"},
      {"gpt_neox", CacheSite::Value, "its queries, keys and values are one weight, head by head"},
      {"olmo_clipped", CacheSite::Key, "its queries, keys and values are clipped"},
      {"olmo_clipped", CacheSite::Value, "its queries, keys and values are clipped"},
      {"olmoe_clipped", CacheSite::Key, "its queries, keys and values are clipped"},
      {"olmoe_clipped", CacheSite::Value, "its queries, keys and values are clipped"},
      {"phi4mm", CacheSite::Key, "the checkpoint has adapters that add to them"},
      {"phi4mm", CacheSite::Value, "the checkpoint has adapters that add to them"},
      {"phi_normed", CacheSite::Key, "its norms of q and k have biases"},
      {"phi_normed", CacheSite::Value, "its norms of q and k have biases"},
      {"stablelm_parallel", CacheSite::Key, "the norms of its heads are a tensor each"},
      {"stablelm_parallel", CacheSite::Value, "the norms of its heads are a tensor each"},
      {"deepseek_v3_fp8", CacheSite::Rope, "factors of 'model.layers.", false},
      {"deepseek_v3_fp8", CacheSite::Latent, "the inputs of 'model.layers.", true},
      {"glm4_moe_fp8", CacheSite::Key, "factors of 'model.layers.", true},
      {"glm4_moe_fp8", CacheSite::Value, "factors of 'model.layers.", true},
      {"minimax_m2_fp8", CacheSite::Value, "factors of 'model.layers.", true},
      {"qwen3_moe_fp8", CacheSite::Value, "factors of 'model.layers.", true},
  };
  return all;
}

void expect_folded_or_known(const FoldedSite& site, const Case& c) {
  SCOPED_TRACE("layer " + std::to_string(site.layer) + ", " + std::string(name_of(site.site)) + ": " + site.why);
  if (site.why.empty()) {
    EXPECT_TRUE(site.is_folded());
    EXPECT_EQ(site.balance, c.balance);
    return;
  }
  const auto is_it = [&](const Known& k) {
    return c.model.starts_with(k.models) && k.site == site.site && site.why.starts_with(k.why) &&
           k.coarser == site.is_folded();
  };
  EXPECT_TRUE(std::ranges::any_of(known(), is_it));
}

/// Codes of bf16 carry the exponent in the bits above the seventh.
uint16_t shifted(uint16_t code, int exponent) { return static_cast<uint16_t>(code + exponent * 128); }

void expect_shifted(const ChannelStatistics& before, const ChannelStatistics& after, int exponent) {
  EXPECT_EQ(after.absmax, before.absmax == 0 ? 0 : shifted(before.absmax, exponent));
  ASSERT_EQ(after.octaves.size(), before.octaves.size());
  for (size_t o = 0; o < before.octaves.size(); ++o) {
    const bool zeros = before.octaves[o].octave == 0 && before.octaves[o].sum_m == 0;
    EXPECT_EQ(after.octaves[o].octave, zeros ? 0 : before.octaves[o].octave + exponent);
    EXPECT_EQ(after.octaves[o].count, before.octaves[o].count);
    EXPECT_EQ(after.octaves[o].sum_m, before.octaves[o].sum_m);
    EXPECT_EQ(after.octaves[o].sum_m2, before.octaves[o].sum_m2);
    EXPECT_EQ(after.octaves[o].signed_sum_m, before.octaves[o].signed_sum_m);
  }
}

/// No bin is split: every one of the original is there, a whole number of octaves further.
void expect_shifted(const HeadStatistics& before, const HeadStatistics& after, int exponent) {
  EXPECT_EQ(after.histogram.zeros, before.histogram.zeros);
  ASSERT_EQ(after.histogram.counts.size(), before.histogram.counts.size());
  for (size_t i = 0; i < before.histogram.counts.size(); ++i) {
    EXPECT_EQ(after.histogram.counts[i].first, shifted(before.histogram.counts[i].first, exponent));
    EXPECT_EQ(after.histogram.counts[i].second, before.histogram.counts[i].second);
  }
}

void expect_site_shifted(const SiteStatistics& before, const SiteStatistics& after, const std::vector<int>& exponents) {
  ASSERT_EQ(before.channels.size(), exponents.size());
  ASSERT_EQ(after.channels.size(), exponents.size());
  for (size_t c = 0; c < exponents.size(); ++c) expect_shifted(before.channels[c], after.channels[c], exponents[c]);
  const size_t width = exponents.size() / before.heads.size();
  for (size_t h = 0; h < before.heads.size(); ++h) {
    const auto of_head = std::span(exponents).subspan(h * width, width);
    if (std::ranges::all_of(of_head, [&](int e) { return e == of_head[0]; }))
      expect_shifted(before.heads[h], after.heads[h], of_head[0]);
  }
}

/// Where values are folded, the largest of each group lies at its place: up to two octaves below 448, less than three.
void expect_placed(const FoldedSite& site, const SiteStatistics& after) {
  if (!site.is_folded() || site.balance != Balance::Tensor) return;
  EXPECT_LE(absmax_of(after), 112);
  EXPECT_GT(absmax_of(after), 112.0 / 4) << "keys: the largest norm of a pair is placed, up to sqrt(2) above them";
}

class Fold : public ::testing::TestWithParam<Case> {};

TEST_P(Fold, ComputesTheSameAndGoesBack) {
  const ScratchFolder scratch;
  const fs::path model = Golden(GetParam().model).folder;
  const FoldRequest request = request_for(model, scratch, GetParam().balance);
  const FoldResult result = folded(request);
  for (const FoldedSite& site : result.record.plan.sites) expect_folded_or_known(site, GetParam());
  if (!result.folds()) return;
  ASSERT_TRUE(result.check);
  EXPECT_GT(result.check->n_logits, 1000);
  EXPECT_GT(result.check->n_rows, 100);

  const Statistics before = read_statistics(request.statistics), after = measured(request.out);
  size_t at = 0;
  for (size_t c = 0; c < before.caches.size(); ++c)
    for (const CacheSite s : sites_of(before.caches[c].layout)) {
      if (s == CacheSite::Query) continue;
      const FoldedSite& site = result.record.plan.sites.at(at++);
      ASSERT_EQ(site.site, s);
      SCOPED_TRACE("layer " + std::to_string(site.layer) + ", " + std::string(name_of(s)));
      expect_site_shifted(before.caches[c].at(s), after.caches[c].at(s), site.exponents);
      expect_placed(site, after.caches[c].at(s));
    }
  EXPECT_EQ(at, result.record.plan.sites.size());
  EXPECT_NE(after.run.model->weights_fingerprint, before.run.model->weights_fingerprint);

  unfolded(request.out, scratch / "again");
  for (const fs::directory_entry& entry : fs::directory_iterator(scratch / "again"))
    EXPECT_EQ(bytes_of(entry.path()), bytes_of(model / entry.path().filename())) << entry.path();
  for (const fs::path& shard : find_weight_files(model).shards)
    EXPECT_TRUE(fs::exists(scratch / "again" / shard.filename()));
  EXPECT_FALSE(fs::exists(scratch / "again" / kFoldRecord));
}

INSTANTIATE_TEST_SUITE_P(Goldens, Fold, ::testing::ValuesIn(cases()), [](const auto& each) {
  return each.param.model + "_" + std::string(name_of(each.param.balance));
});

}  // namespace
}  // namespace kvcal
