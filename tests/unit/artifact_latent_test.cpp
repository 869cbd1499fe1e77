// MLA caches from statistics to the file: one scale for the whole row, judged for each part.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "artifact/difference.h"
#include "artifact/schema_check.h"
#include "base/read_file.h"
#include "solve/solve.h"
#include "unit/solve_synthetic.h"
#include "unit/solved_artifact.h"

namespace kvcal {
namespace {

const Statistics& statistics() {
  static const Statistics s = synthetic_statistics(latent_run());
  return s;
}

const CacheStatistics& cache() { return statistics().caches[0]; }

double absmax(CacheSite site) { return static_cast<double>(absmax_of(cache().at(site))); }

SolveOptions short_context() {
  SolveOptions options = absmax_options();
  options.max_model_len = 64;  // less than was measured: no envelope
  return options;
}

TEST(LatentArtifact, OneScaleFollowsFromTheLargerPart) {
  const Artifact a = solved_artifact(statistics(), short_context());
  const ArtifactLayer& layer = a.layers.at(0);
  EXPECT_EQ(layer.kind, "mla");
  EXPECT_GT(absmax(CacheSite::Rope), 16 * absmax(CacheSite::Latent));
  EXPECT_EQ(layer.latent.absmax, absmax(CacheSite::Rope));
  EXPECT_EQ(layer.latent.parts->absmax_rope, absmax(CacheSite::Rope));
  EXPECT_EQ(layer.latent.parts->absmax_latent, absmax(CacheSite::Latent));
  EXPECT_FLOAT_EQ(layer.latent.scale, layer.latent.absmax * 2 / 448);
  EXPECT_EQ(layer.latent.absmax_per_head, std::vector<float>{layer.latent.absmax});
  EXPECT_EQ(layer.latent.observations, 640U);
  EXPECT_GE(layer.latent.where.channel, 16);  // of the row, so in its rope part
  EXPECT_EQ(layer.query.absmax_per_head.size(), 4U);
}

TEST(LatentArtifact, ALargerLatentPartCountsToo) {
  SyntheticRun run = latent_run();
  std::swap(run.latent, run.rope);
  const ArtifactSite latent = solved_artifact(synthetic_statistics(run), short_context()).layers.at(0).latent;
  EXPECT_EQ(latent.absmax, latent.parts->absmax_latent);
  EXPECT_LT(latent.where.channel, 16);
  EXPECT_FLOAT_EQ(latent.scale, latent.absmax * 2 / 448);
}

TEST(LatentArtifact, EnvelopeBoundsThePairsOfTheRopePart) {
  double bound = absmax(CacheSite::Latent);
  for (const double norm : cache().at(CacheSite::Rope).pair_norm) bound = std::max(bound, norm * (1 + 0x1p-7));
  const SolvedCache solved = solve_cache(cache(), statistics().run, absmax_options());
  EXPECT_EQ(solved.latent.envelope, bound);
  EXPECT_GT(bound, absmax(CacheSite::Rope));
  EXPECT_TRUE(solved.latent.provides_for_envelope);
  EXPECT_FLOAT_EQ(solved.latent.scale, static_cast<float>(bound * 2 / 448));
}

// The definition written out: round trips of every value of a part, and the noise of the whole row.
TEST(LatentArtifact, PartsAreJudgedSeparatelyAndTheNoiseTogether) {
  const SolvedSite latent = solve_cache(cache(), statistics().run, short_context()).latent;
  ASSERT_EQ(latent.at_scale.size(), 2U);
  const NumberFormat& format = number_format("fp8_e4m3");
  size_t part = 0;
  for (const CacheSite site : {CacheSite::Latent, CacheSite::Rope}) {
    double error = 0, energy = 0, lost = 0;
    for (const auto& [code, count] : cache().at(site).heads[0].histogram.counts) {
      const double x = magnitude_of(code), n = static_cast<double>(count), scale = latent.scale;
      const double difference = round_trip(format, x, scale) - x;
      error += n * difference * difference;
      energy += n * x * x;
      if (x < format.smallest_normal * scale || x > format.max * scale) lost += n * x * x;
    }
    EXPECT_NEAR(latent.at_scale[part].error, std::sqrt(error / energy), 1e-12);
    EXPECT_NEAR(latent.at_scale[part].lost, lost / energy, 1e-12);
    ++part;
  }
  EXPECT_EQ(latent.at_scale[0].noise, latent.at_scale[1].noise);
  // White noise: the error of each part, its energy and that of the queries. Channels differ by a few per cent.
  const double e0 = latent.at_scale[0].error, e1 = latent.at_scale[1].error;
  const double square = 0.25 * (16 * e0 * e0 * 0.125 * 0.125 + 8 * e1 * e1 * 16);
  EXPECT_NEAR(latent.at_scale[0].noise, 0.25 * std::sqrt(square), 0.1 * 0.25 * std::sqrt(square));
  EXPECT_GT(latent.at_scale[0].dominating, 1.0 / 8);  // a pair of the rope part
}

TEST(LatentArtifact, AFlushedLatentPartIsInadequate) {
  SyntheticRun run = latent_run();
  run.latent = gaussian(4.0 / 65536, 1);  // far below what a scale for the rope part can store
  const Artifact a = solved_artifact(synthetic_statistics(run));
  const ArtifactSite& latent = a.layers.at(0).latent;
  EXPECT_GT(latent.parts->error_latent.lost_at_scale, 0.5F);
  EXPECT_LT(latent.parts->error_rope.lost_at_scale, 0.01F);
  EXPECT_EQ(latent.error.lost_at_scale, latent.parts->error_latent.lost_at_scale);
  EXPECT_EQ(latent.verdict(), Verdict::Inadequate);
}

TEST(LatentArtifact, FileHasTheMembersAndReadsBack) {
  for (const Granularity granularity : {Granularity::Tensor, Granularity::Head}) {
    SolveOptions options = absmax_options();
    options.granularity = granularity;
    const Artifact a = solved_artifact(statistics(), options);
    const Json json = to_json(a);
    const Json& layer = json["layers"][0];
    EXPECT_TRUE(layer.contains("latent") && layer.contains("query"));
    EXPECT_FALSE(layer.contains("key") || layer.contains("value") || layer.contains("joint"));
    for (const char* member : {"scale", "absmax", "absmax_latent", "absmax_rope", "envelope", "uses_envelope",
                               "observations", "verdict", "error", "error_latent", "error_rope", "where", "growth"})
      EXPECT_TRUE(layer["latent"].contains(member)) << member;
    EXPECT_EQ(layer["latent"].contains("scale_per_head"), granularity == Granularity::Head);
    EXPECT_TRUE(layer["latent"]["error"].contains("noise_at_scale"));
    EXPECT_FALSE(layer["latent"]["error_rope"].contains("noise_at_scale"));
    EXPECT_FALSE(json.contains("kv_cache"));
    EXPECT_NE(json["kv_cache_left_out"].get<std::string>().find("MLA"), std::string::npos);
    EXPECT_TRUE(artifact_from_json(json) == a);
    EXPECT_EQ(artifact_text(artifact_from_json(json)), artifact_text(a));
  }
}

TEST(LatentArtifact, SchemaKnowsBothKindsOfLayers) {
  const std::string schema =
      read_file(std::filesystem::path(KVCAL_SOURCE_DIR) / "schemas" / kArtifactSchemaFile, size_t{1} << 20);
  const Json good = to_json(solved_artifact(statistics()));
  const auto errors = [&](const std::function<void(Json&)>& change) {
    Json json = good;
    change(json["layers"][0]);
    std::string text;
    for (const SchemaError& e : check_schema(json, schema)) text += e.path + ": " + e.message + "\n";
    return text;
  };
  EXPECT_EQ(errors([](Json&) {}), "");
  EXPECT_NE(errors([](Json& l) { l.erase("latent"); }).find("latent"), std::string::npos);
  EXPECT_NE(errors([](Json& l) { l["latent"].erase("absmax_rope"); }).find("absmax_rope"), std::string::npos);
  EXPECT_NE(errors([](Json& l) { l["key"] = l["latent"]; }), "");
  EXPECT_NE(errors([](Json& l) { l["n_kv_heads"] = 2; }).find("n_kv_heads"), std::string::npos);
  EXPECT_NE(errors([](Json& l) { l["kind"] = "gqa"; }), "");
}

TEST(LatentArtifact, DifferencesAreOfTheRow) {
  SyntheticRun larger = latent_run();
  larger.rope = [plain = larger.rope](const Provenance& w) mutable { return plain(w) * 4; };
  const Artifact a = solved_artifact(statistics()), b = solved_artifact(synthetic_statistics(larger));
  const ArtifactDifference d = compare(a, b);
  ASSERT_EQ(d.sites.size(), 2U);
  EXPECT_EQ(d.sites[0].site, "latent");
  EXPECT_NEAR(d.sites[0].change(), 3, 0.01);
  EXPECT_EQ(d.sites[0].effect, "A clips what B measured");
  EXPECT_TRUE(compare(a, a).within(0));
  const Artifact other = solved_artifact(synthetic_statistics(ordinary_run()));
  EXPECT_FALSE(compare(a, other).within(100));
}

TEST(LatentArtifact, SitesWithoutValuesAreNamed) {
  Statistics empty = statistics();
  empty.caches[0].at(CacheSite::Rope) = {};
  try {
    solved_artifact(empty);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()), "layer 3 (layers.3.self_attn), rope: no observations");
  }
}

}  // namespace
}  // namespace kvcal
