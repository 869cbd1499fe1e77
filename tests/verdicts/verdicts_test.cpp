// What the program says of a site (does it need its scale, is FP8 fine there) against what rounding the site does to
// attention. Cases and their truth are data, made by tests/reference/verdicts; README.md defines what is accepted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

#include "base/read_file.h"
#include "e2e/runs.h"
#include "solve/sampled_damage.h"
#include "stats/statistics_file.h"
#include "unit/solved_artifact.h"
#include "verdicts/case_checkpoint.h"

namespace kvcal {
namespace {

const fs::path kFolder = source("tests/verdicts");

std::vector<Json> read_lines(const char* file) {
  std::ifstream in(kFolder / file);
  std::vector<Json> objects;
  for (std::string line; std::getline(in, line);) objects.push_back(parse_json(line));
  return objects;
}

/// A case with what is true of it.
struct Judged {
  Json given, truth;
};

std::vector<Judged> judged_cases() {
  const std::vector<Json> given = read_lines("cases.jsonl"), truth = read_lines("truth.jsonl");
  if (given.size() != truth.size()) throw std::runtime_error("cases.jsonl and truth.jsonl have different lengths");
  std::vector<Judged> cases;
  for (size_t i = 0; i < given.size(); ++i) cases.push_back({given[i], truth[i]});
  return cases;
}

void PrintTo(const Judged& c, std::ostream* out) { *out << c.given["name"]; }

SolveOptions options_of(const Json& run) {
  SolveOptions options;
  options.format = get_string(run, "dtype");
  options.policy = get_string_or(run, "policy", "absmax");
  options.percentile = get_number_or(run, "percentile", options.percentile);
  if (run.contains("headroom")) options.headroom = get_number_or(run, "headroom", 0);
  options.granularity = granularity_from_name(get_string_or(run, "granularity", "tensor"));
  return options;
}

/// Sampled as `kvcal calibrate` would with the options of the run.
Statistics measure_case(const Json& given, const CaseTables& tables, const Json& run) {
  const Scratch scratch;
  write_case_checkpoint(scratch.path(), given, tables, read_json_file(kFolder / "classes.json"));
  RunOptions options;
  options.sequences.passes = 1;  // prompts alone, as the judge has them
  options.sequences.warmup_passes = 0;
  options.sequences.sanity = false;
  options.sequences.max_length = get_int(given, "positions");
  options.threads = 1;
  options.solve = options_of(run);
  return measure(scratch.path(), prompts_of_case(given), options);
}

/// With KVCAL_VERDICT_STATISTICS, a folder, kept there, for whoever changes nothing but what is made of them
/// (break_parts.py).
Statistics measured_or_kept(const Json& given, size_t run) {
  const auto measure_it = [&] { return measure_case(given, build_tables(given), given["runs"][run]); };
  const char* folder = std::getenv("KVCAL_VERDICT_STATISTICS");
  if (!folder) return measure_it();
  const fs::path file = fs::path(folder) / (get_string(given, "name") + "." + std::to_string(run) + ".kvstats");
  if (!fs::exists(file)) write_statistics(file, measure_it(), Existing::Refuse);
  return read_statistics(file);
}

/// Of a run of a case: once, for all questions to it.
const Statistics& measured(const Json& given, size_t run) {
  static std::map<std::pair<std::string, size_t>, Statistics> all;
  const std::pair key(get_string(given, "name"), run);
  const auto found = all.find(key);
  if (found != all.end()) return found->second;
  return all.emplace(key, measured_or_kept(given, run)).first->second;
}

/// Numbers that only sums of float32 in another order and sines of another library separate: one step of bfloat16.
/// Without rotation and norms there is nothing to add, and everything is known to the bit.
double tolerance(const Json& given) {
  const std::string kind = get_string(given, "class");
  return kind == "rope" || kind == "latent" ? 0x1p-7 : 1e-6;
}

double largest(const CacheStatistics& cache, const std::string& site) {
  if (site == "latent") return std::max(absmax_of(cache.at(CacheSite::Latent)), absmax_of(cache.at(CacheSite::Rope)));
  return absmax_of(cache.at(site == "key" ? CacheSite::Key : site == "value" ? CacheSite::Value : CacheSite::Query));
}

bool contains(const Json& list, const Json& word) { return std::find(list.begin(), list.end(), word) != list.end(); }

void expect_near(const Json& actual, const Json& expected, double relative, const std::string& what) {
  if (expected.is_array()) {
    ASSERT_EQ(actual.size(), expected.size()) << what;
    for (size_t i = 0; i < expected.size(); ++i) expect_near(actual[i], expected[i], relative, what);
    return;
  }
  EXPECT_NEAR(actual.get<double>(), expected.get<double>(), relative * expected.get<double>()) << what;
}

/// A wrong answer of the rule from histograms that is known, and why it cannot be right.
const Json* known_limit(const Judged& c, size_t run, const std::string& site, const std::string& question) {
  static const Json all = read_json_file(kFolder / "histogram_limits.json");
  for (const Json& limit : all)
    for (const Json& answer : limit["answers"])
      if (answer["case"] == c.given["name"] && answer["run"] == run && answer["site"] == site &&
          answer["question"] == question)
        return &answer;
  return nullptr;
}

/// One run: the scales first, as judgements hold for them alone.
void check_run(const Judged& c, size_t i, const Json& artifact) {
  const Json &truth = c.truth["runs"][i], &run = c.given["runs"][i];
  for (const auto& [name, judged] : truth.items()) {
    const Json& site = artifact["layers"][0][name];
    const std::string what = run.dump() + ", " + name + ": " + judged.dump();
    expect_near(site[judged["scale"].is_array() ? "scale_per_head" : "scale"], judged["scale"], tolerance(c.given),
                what);
    for (const char* question : {"scale", "fp8"}) {
      EXPECT_TRUE(contains(judged["accepted"][question], site["assessment"][question]))
          << question << " is " << site["assessment"] << " in " << what;
    }
  }
}

class Verdicts : public testing::TestWithParam<Judged> {};

TEST_P(Verdicts, MeasuredIsWhatWasJudged) {
  const auto& [given, truth] = GetParam();
  ASSERT_EQ(given["name"], truth["name"]);
  ASSERT_EQ(fingerprint(build_tables(given)), truth["sha256"].get<std::string>());
  const Statistics& statistics = measured(given, 0);
  for (const auto& [name, judged] : truth["runs"][0].items())
    expect_near(largest(statistics.caches.at(0), name), judged["absmax"], tolerance(given), name);
}

TEST_P(Verdicts, AssessmentIsTrue) {
  const Judged& c = GetParam();
  for (size_t i = 0; i < c.given["runs"].size(); ++i)
    check_run(c, i, to_json(solved_artifact(measured(c.given, i), options_of(c.given["runs"][i]))));
}

/// As where nothing was sampled near a scale: what is left is the rule from histograms.
Statistics without_samples(Statistics statistics) {
  for (CacheStatistics& cache : statistics.caches)
    for (SiteStatistics& site : cache.sites) site.sampled.clear();
  return statistics;
}

bool is_ruined(const Json& error) { return error["rel_raw"] > .30 || error["rel_centered"] > .30 || error["kl"] > .05; }

/// Visits what is said of each question without samples: (run, site, judgement, question, answer).
template <class Visit>
void visit_predictions(const Judged& c, Visit visit) {
  for (size_t i = 0; i < c.given["runs"].size(); ++i) {
    const Json artifact =
        to_json(solved_artifact(without_samples(measured(c.given, i)), options_of(c.given["runs"][i])));
    for (const auto& [name, judged] : c.truth["runs"][i].items())
      for (const char* question : {"scale", "fp8"})
        visit(i, name, judged, question, artifact["layers"][0][name]["assessment"][question]);
  }
}

TEST_P(Verdicts, PredictionIsTrue) {
  const Judged& c = GetParam();
  visit_predictions(
      c, [&](size_t run, const std::string& site, const Json& judged, const char* question, const Json& answer) {
        EXPECT_FALSE(answer == "fine" && is_ruined(judged["at_scale"])) << site << ": " << judged;
        if (known_limit(c, run, site, question)) return;
        EXPECT_TRUE(contains(judged["accepted"][question], answer))
            << question << " is " << answer << " in " << c.given["runs"][run] << ", " << site << ": " << judged;
      });
}

TEST_P(Verdicts, KnownLimitsOfPredictionAreThere) {
  const Judged& c = GetParam();
  visit_predictions(
      c, [&](size_t run, const std::string& site, const Json& judged, const char* question, const Json& answer) {
        const Json* limit = known_limit(c, run, site, question);
        if (!limit) return;
        EXPECT_EQ(answer, (*limit)["says"]) << question << " of " << site;
        EXPECT_FALSE(contains(judged["accepted"][question], answer)) << question << " of " << site << " is right";
      });
}

INSTANTIATE_TEST_SUITE_P(Cases, Verdicts, testing::ValuesIn(judged_cases()),
                         [](const auto& c) { return c.param.given["name"].template get<std::string>(); });

}  // namespace
}  // namespace kvcal
