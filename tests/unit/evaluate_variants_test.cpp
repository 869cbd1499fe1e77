// What each variant does to each site.
#include <gtest/gtest.h>

#include "artifact/nvfp4_scale.h"
#include "base/error.h"
#include "evaluate/make_variants.h"
#include "unit/solve_synthetic.h"
#include "unit/solved_artifact.h"

namespace kvcal {
namespace {

ModelSpec spec_of(const KvLayout& layout) {
  ModelSpec spec;
  spec.layers.resize(static_cast<size_t>(layout.layer) + 1);
  spec.caches = {layout};
  return spec;
}

struct Measured {
  explicit Measured(const SyntheticRun& run, const SolveOptions& options = absmax_options())
      : spec(spec_of(run.layout)),
        statistics(synthetic_statistics(run)),
        artifact(solved_artifact(statistics, options)) {}
  ModelSpec spec;
  Statistics statistics;
  Artifact artifact;
};

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Variants, AtOneEverySiteThatIsStoredIsRounded) {
  const Measured m(ordinary_run());
  const Variant v = at_one(m.spec, stored_format("fp8_e5m2"));
  EXPECT_EQ(v.name, "scale_1.0");
  EXPECT_EQ(v.format, "fp8_e5m2");
  const SiteRounding one = {CacheFormat::E5m2, {1}, {1}};
  EXPECT_EQ(v.caches[0].key, one);
  EXPECT_EQ(v.caches[0].value, one);
  EXPECT_FALSE(v.caches[0].query);
  EXPECT_EQ(v.first_cache(), 0);
}

TEST(Variants, AFileGivesItsScales) {
  const Measured m(ordinary_run());
  const Variant v = at_scales(m.spec, m.artifact, "file");
  const ArtifactLayer& layer = m.artifact.layers[0];
  EXPECT_EQ(v.caches[0].key->write, std::vector{layer.key.scale});
  EXPECT_EQ(v.caches[0].value->read, std::vector{layer.value.scale});
  EXPECT_NE(layer.key.scale, layer.value.scale);
  EXPECT_EQ(v.caches[0].key->format, CacheFormat::E4m3);
}

TEST(Variants, AFileByHeadGivesOneForEach) {
  SolveOptions options;
  options.granularity = Granularity::Head;
  const Measured m(ordinary_run(), options);
  const Variant v = at_scales(m.spec, m.artifact, "file");
  EXPECT_EQ(v.caches[0].key->write, m.artifact.layers[0].key.scale_per_head);
  EXPECT_EQ(v.caches[0].key->write.size(), 2U);
}

TEST(Variants, AFileByChannelGivesOneForEach) {
  SolveOptions options;
  options.format = "int8";
  options.granularity = Granularity::Channel;
  const Measured m(ordinary_run(), options);
  const Variant v = at_scales(m.spec, m.artifact, "file");
  EXPECT_EQ(v.caches[0].key->write, m.artifact.layers[0].key.scale_per_channel);
  EXPECT_EQ(v.caches[0].value->read.size(), 32U);
  EXPECT_EQ(v.caches[0].key->format, CacheFormat::Int8);
}

TEST(Variants, SwappedExchangesKeysAndValues) {
  const Measured m(ordinary_run());
  const Variant file = at_scales(m.spec, m.artifact, "file"), v = swapped(file);
  EXPECT_EQ(v.name, "swapped");
  EXPECT_EQ(v.caches[0].key, file.caches[0].value);
  EXPECT_EQ(v.caches[0].value, file.caches[0].key);
}

TEST(Variants, OfLatentAttentionTheRowIsOneSite) {
  const Measured m(latent_run());
  const Variant v = at_scales(m.spec, m.artifact, "file");
  EXPECT_EQ(v.caches[0].key->write, std::vector{m.artifact.layers[0].latent.scale});
  EXPECT_FALSE(v.caches[0].value);
  EXPECT_EQ(swapped(v).caches[0].key, v.caches[0].key);
  const Variant by_head = in_format(m.spec, stored_format("int8_per_head"), ranges_of(m.statistics));
  EXPECT_EQ(by_head.caches[0].key->write.size(), 1U);
  const Variant by_channel = in_format(m.spec, stored_format("int8_per_channel"), ranges_of(m.statistics));
  EXPECT_EQ(by_channel.caches[0].key->write.size(), 24U);
}

TEST(Variants, AFormatJustHoldsWhatWasMeasured) {
  const Measured m(ordinary_run());
  const SiteStatistics& key = m.statistics.caches[0].at(CacheSite::Key);
  const auto scales = [&](const char* name) {
    return in_format(m.spec, stored_format(name), ranges_of(m.statistics)).caches[0].key->write;
  };
  EXPECT_EQ(scales("int8"), std::vector{absmax_of(key) / 127});
  EXPECT_EQ(scales("fp8_e4m3fnuz"), std::vector{absmax_of(key) / 240});
  EXPECT_EQ(scales("nvfp4"), std::vector{nvfp4_global_scale(absmax_of(key))}) << "as export writes it";
  const std::vector<float> heads = scales("fp8_e4m3_per_head"), channels = scales("int8_per_channel");
  ASSERT_EQ(heads.size(), 2U);
  for (size_t h = 0; h < 2; ++h) EXPECT_EQ(heads[h], magnitude_of(key.heads[h].absmax) / 448);
  ASSERT_EQ(channels.size(), 32U);
  for (size_t c = 0; c < 32; ++c) EXPECT_EQ(channels[c], magnitude_of(key.channels[c].absmax) / 127);
  EXPECT_TRUE(scales("fp8_per_token_head").empty());
}

TEST(Variants, AScaleFileKnowsRangesOfTensorsOnly) {
  const Measured m(ordinary_run());
  const Variant v = in_format(m.spec, stored_format("int8"), ranges_of(m.artifact));
  EXPECT_EQ(v.caches[0].value->write, std::vector{m.artifact.layers[0].value.absmax / 127});
  EXPECT_NE(error_of([&] { in_format(m.spec, stored_format("int8_per_head"), ranges_of(m.artifact)); }), "");
}

TEST(Variants, AChannelOfZerosHasTheScaleOne) {
  SyntheticRun run = ordinary_run();
  run.key = [](const Provenance& where) { return where.channel == 3 ? 0.0f : 1.0f; };
  const Measured m(run);
  const auto scales =
      in_format(m.spec, stored_format("int8_per_channel"), ranges_of(m.statistics)).caches[0].key->write;
  EXPECT_EQ(scales[3], 1);
  EXPECT_EQ(scales[4], 1.0f / 127);
}

// Channel 3 lies around 100, channel 5 around 0, and a channel with an offset that is sometimes 0 reaches down to it.
TEST(Variants, MeansAreMovedByAndScalesHoldWhatIsLeft) {
  SyntheticRun run = ordinary_run();
  run.key = [](const Provenance& where) {
    const float small = where.token % 2 == 0 ? 1.0f : -1.0f;
    if (where.channel == 3) return 100.0f + 4 * small;
    return where.channel == 4 && where.token == 0 ? 0.0f : where.channel == 4 ? 24.0f : small;
  };
  const Measured m(run);
  const SiteRounding key = *in_format(m.spec, stored_format("fp8_e4m3_affine"), ranges_of(m.statistics)).caches[0].key;
  ASSERT_EQ(key.means.size(), 32U);
  EXPECT_NEAR(key.means[3], 100, 4);
  EXPECT_NEAR(key.means[5], 0, 1);
  EXPECT_EQ(key.moved, Moved::ByMeans);
  const float largest = key.write[0] * 448;
  EXPECT_GE(largest, key.means[4]) << "a zero is as far from the mean as this";
  EXPECT_GE(largest, 4);
  EXPECT_LE(largest, 44) << "100 - 4 is of the octave that begins at 64";
  const float nvfp4 = in_format(m.spec, stored_format("nvfp4_affine"), ranges_of(m.statistics)).caches[0].key->write[0];
  EXPECT_EQ(nvfp4, nvfp4_global_scale(largest));
}

TEST(Variants, BlocksNeedRowsThatTheyFill) {
  SyntheticRun run = ordinary_run();
  run.layout.head_dim_v = 24;
  const Measured m(run);
  const auto error = [&](const char* name) {
    return error_of([&] { check_rows(in_format(m.spec, stored_format(name), ranges_of(m.statistics)), m.spec); });
  };
  EXPECT_EQ(error("nvfp4_affine"), error("nvfp4"));
  EXPECT_EQ(error("nvfp4"), "NVFP4 stores blocks of 16 channels, layer 3 has rows of 24");
  EXPECT_EQ(error("nvfp4:fp8_e4m3_affine"), "");
}

TEST(Variants, WhatIsTurnedIsHeldWhereverItFalls) {
  SyntheticRun run = ordinary_run();
  run.key = [](const Provenance&) { return 2.0f; };  // turned, one number of sqrt(16) as much
  const Measured m(run);
  const SiteRounding key = *in_format(m.spec, stored_format("nvfp4_rotated"), ranges_of(m.statistics)).caches[0].key;
  EXPECT_EQ(key.moved, Moved::Turned);
  EXPECT_EQ(key.write, std::vector{nvfp4_global_scale(8)});
  EXPECT_NE(error_of([&] { in_format(m.spec, stored_format("nvfp4_rotated"), ranges_of(m.artifact)); }), "");
  EXPECT_NE(error_of([&] { in_format(m.spec, stored_format("nvfp4_affine"), ranges_of(m.artifact)); }), "");
}

TEST(Variants, KeysAndValuesInFormatsOfTheirOwn) {
  const Measured m(ordinary_run());
  const auto sites = [&](const char* name) {
    return in_format(m.spec, stored_format(name), ranges_of(m.statistics)).caches[0];
  };
  const CacheSites fp8 = sites("fp8_e4m3"), nvfp4 = sites("nvfp4"), pair = sites("fp8_e4m3:nvfp4");
  EXPECT_EQ(pair.key, fp8.key);
  EXPECT_EQ(pair.value, nvfp4.value);
  EXPECT_EQ(sites("bf16:int4_per_token_head").value, (SiteRounding{CacheFormat::RotatedInt4, {}, {}}));
  EXPECT_FALSE(sites("bf16:int4_per_token_head").key);
  EXPECT_FALSE(sites("int8:bf16").value);
  EXPECT_EQ(in_format(m.spec, stored_format("int8:nvfp4"), ranges_of(m.artifact)).format, "int8:nvfp4");
  EXPECT_NE(error_of([] { stored_format("bf16:bf16"); }).find("as it is"), std::string::npos);
  EXPECT_NE(error_of([] { stored_format("int8:turboquant_k8v4"); }).find("keys and values together"),
            std::string::npos);
  EXPECT_NE(error_of([] { stored_format("int8:"); }).find("unknown cache format ''"), std::string::npos);
  for (const char* served : {"mxfp8", "fp4_e2m1", "octave_k3v4", "nvfp4_4over6:fp8_e4m3", "bf16:fp8_ds_mla"})
    EXPECT_NE(error_of([&] { stored_format(served); }).find("is not modelled"), std::string::npos) << served;
  for (const char* none : {"fp8", "auto", "bfloat16", "q8_0"})
    EXPECT_NE(error_of([&] { stored_format(none); }).find("unknown cache format"), std::string::npos) << none;
  EXPECT_NE(error_of([] { stored_format("int8:int8:int8"); }).find("unknown cache format"), std::string::npos);
}

TEST(Variants, APairTakesTheFilesScalesWhereItHasItsFormat) {
  const Measured m(ordinary_run());
  const StoredFormat pair = stored_format("fp8_e4m3:nvfp4"), other = stored_format("int8:fp8_e4m3");
  Variant mixed = in_format(m.spec, pair, ranges_of(m.artifact)),
          values = in_format(m.spec, other, ranges_of(m.artifact));
  const std::vector<float> of_int8 = values.caches[0].key->write;
  take_scales(mixed, pair, m.spec, m.artifact);
  take_scales(values, other, m.spec, m.artifact);
  const ArtifactLayer& layer = m.artifact.layers[0];
  EXPECT_EQ(mixed.caches[0].key->write, std::vector{layer.key.scale});
  EXPECT_EQ(mixed.caches[0].value->write, std::vector{nvfp4_global_scale(layer.value.absmax)});
  EXPECT_EQ(values.caches[0].key->write, of_int8);
  EXPECT_EQ(values.caches[0].value->read, std::vector{layer.value.scale});
}

TEST(Variants, OnlyScalesThatFollowFromRangesNeedThem) {
  for (const char* name : {"int4_per_token_head", "turboquant_k8v4", "bf16:fp8_per_token_head"})
    EXPECT_FALSE(stored_format(name).has_measured_scales()) << name;
  for (const char* name : {"int8", "fp8_e4m3:int4_per_token_head", "int4_per_token_head:nvfp4"})
    EXPECT_TRUE(stored_format(name).has_measured_scales()) << name;
}

TEST(Variants, OfLatentAttentionOneFormat) {
  const Measured m(latent_run());
  EXPECT_TRUE(in_format(m.spec, stored_format("int4_per_token_head"), nullptr).caches[0].key);
  EXPECT_NE(error_of([&] { in_format(m.spec, stored_format("turboquant_k8v4"), nullptr); }).find("one latent row"),
            std::string::npos);
}

TEST(Variants, TurboquantSparesTheEndsOfModelsWithoutRecurrentState) {
  ModelSpec spec;
  spec.layers.resize(7);
  for (int layer = 0; layer < 7; ++layer) {
    KvLayout layout = ordinary_run().layout;
    layout.layer = layout.cache = layer;
    spec.caches.push_back(layout);
  }
  const auto rounded_layers = [&] {
    std::vector<int> layers;
    const Variant v = in_format(spec, stored_format("turboquant_k8v4"), nullptr);
    for (int layer = 0; layer < 7; ++layer)
      if (v.caches[static_cast<size_t>(layer)].any()) layers.push_back(layer);
    EXPECT_EQ(v.caches[3].key, (SiteRounding{CacheFormat::E4m3, {1}, {1}}));
    EXPECT_EQ(v.caches[3].value, (SiteRounding{CacheFormat::Uint4, {}, {}}));
    return layers;
  };
  EXPECT_EQ(rounded_layers(), (std::vector{2, 3, 4}));
  spec.layers[1].state_bytes = 8;
  EXPECT_EQ(rounded_layers().size(), 7U);
}

TEST(Variants, BytesOfRows) {
  KvLayout layout = ordinary_run().layout;
  layout.n_kv_heads = 2, layout.head_dim_k = 64, layout.head_dim_v = 32;
  EXPECT_EQ(bf16_bytes_per_token(layout), 2 * (128 + 64));
  EXPECT_EQ(bytes_per_token(layout, stored_format("fp8_e4m3:nvfp4")), 2 * (64 + 16 + 2));
  EXPECT_EQ(bytes_per_token(layout, stored_format("int4_per_token_head")), 2 * (32 + 4 + 16 + 4));
  EXPECT_EQ(bytes_per_token(layout, stored_format("turboquant_k8v4")), 2 * (64 + 16 + 4));
  EXPECT_EQ(bytes_per_token(layout, stored_format("bf16:int8_per_token_head")), 2 * (128 + 32 + 4));
}

TEST(Variants, QueriesAreRoundedWhereTheyAreAskedFor) {
  const Measured m(ordinary_run());
  Variant file = at_scales(m.spec, m.artifact, "file"), one = at_one(m.spec, stored_format("fp8_e4m3"));
  round_queries(file, m.spec, &m.artifact);
  round_queries(one, m.spec, nullptr);
  EXPECT_EQ(file.caches[0].query->write, std::vector{m.artifact.layers[0].query.scale});
  EXPECT_EQ(one.caches[0].query->write, std::vector{1.0f});
}

TEST(Variants, OneLayerLeavesTheOthersAsTheyAre) {
  ModelSpec spec = spec_of(small_layout(3));
  spec.caches.push_back(small_layout(7));
  spec.caches[1].cache = 1;
  const Variant all = at_one(spec, stored_format("fp8_e4m3")), alone = one_cache(all, spec.caches[1]);
  EXPECT_EQ(alone.layer, 7);
  EXPECT_EQ(alone.first_cache(), 1);
  EXPECT_FALSE(alone.caches[0].any());
  EXPECT_EQ(alone.caches[1].value, all.caches[1].value);
}

TEST(Variants, AFileWithoutALayerIsRefused) {
  const Measured m(ordinary_run());
  const std::string error = error_of([&] { at_scales(spec_of(small_layout(5)), m.artifact, "file"); });
  EXPECT_NE(error.find("layer 5"), std::string::npos) << error;
}

}  // namespace
}  // namespace kvcal
