// MTP layers, folded with their models: what they cache is shifted, what they put out is the same, and the files come
// back byte for byte.
#include "fold/runs.h"
#include "harness/whole_run.h"

namespace kvcal {
namespace {

class FoldedMtp : public ::testing::TestWithParam<std::string> {};

/// Of its layer with all its tail, for rows of the residual stream that no weight made.
std::vector<float> output_of_mtp_layer(const fs::path& model) {
  LoadedModel m(model, backend(Precision::F32));
  m.model->add_mtp_layer();
  const ModelSpec& spec = m.model->spec();
  const std::vector<PromptTokens> prompts = prompts_of({drawn_prompts().records[2].input_ids});
  const std::vector<Batch> batches = make_batches(singles(prompts), prompts, 256, spec.n_position_axes);
  const MtpRows rows = mtp_rows(batches.front(), nullptr).front();
  const Storage x({rows.batch.n_tokens(), spec.hidden}, DType::F32);
  float* const values = x.tensor().as<float>();
  for (int64_t i = 0; i < x.tensor().elements(); ++i) values[i] = static_cast<float>(i * i % 97) / 48 - 1;
  const int layer = static_cast<int>(spec.layers.size()) - 1;
  RunStates states(spec);
  NoTap tap;
  const auto block = load_layer(*m.model, layer, *m.ops, m.weights);
  return values_of(*m.ops,
                   block->forward(*m.ops, m.ops->upload(x.tensor()), rows.batch, states.begin(layer), tap, Tail::Full));
}

TEST_P(FoldedMtp, ComputesTheSameAndGoesBack) {
  const ScratchFolder scratch;
  const fs::path model = scratch / "model";
  write_mtp_checkpoint(GetParam(), model);
  const FoldRequest request = request_for(model, scratch, Balance::Head, Mtp::Measured);
  const FoldResult result = folded(request);
  ASSERT_TRUE(result.folds() && result.check);
  const Statistics before = read_statistics(request.statistics), after = measured(request.out, Mtp::Measured);
  const CacheStatistics &cache = before.caches.back(), &shifted = after.caches.back();
  ASSERT_TRUE(before.run.model->is_mtp(cache.layout.layer));
  size_t n_folded = 0;
  for (const FoldedSite& site : result.record.plan.sites) {
    if (site.layer != cache.layout.layer) continue;
    n_folded += site.is_folded();
    const SiteStatistics &was = cache.at(site.site), &is = shifted.at(site.site);
    const size_t width = site.exponents.size() / was.heads.size();
    for (size_t h = 0; h < was.heads.size(); ++h)
      EXPECT_EQ(magnitude_of(is.heads[h].absmax),
                std::ldexp(magnitude_of(was.heads[h].absmax), site.exponents[h * width]))
          << name_of(site.site) << " of head " << h << ": " << site.why;
  }
  EXPECT_GT(n_folded, 0U);
  EXPECT_EQ(output_of_mtp_layer(request.out), output_of_mtp_layer(model));
  unfolded(request.out, scratch / "again");
  for (const char* shard : {"model.safetensors", "mtp.safetensors"})
    EXPECT_EQ(bytes_of(scratch / "again" / shard), bytes_of(model / shard)) << shard;
}

INSTANTIATE_TEST_SUITE_P(Golden, FoldedMtp, ::testing::ValuesIn(cases_of("mtp")),
                         [](const auto& i) { return i.param; });

}  // namespace
}  // namespace kvcal
