// What each way to store the cache does to predictions, against the reference framework whose cache is rounded with
// other code: at every position of every prompt, in f32 on both sides. Goldens: golden/README.md. And how far the rows
// themselves are off: row_errors.json, by tests/reference/make_row_error_goldens.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "arch/backend.h"
#include "arch/golden.h"
#include "evaluate/evaluation_figures.h"
#include "evaluate/make_variants.h"
#include "harness/message_of.h"
#include "harness/tolerances.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

/// Errors of rows, as a share of themselves: those of the first layer (measured: 5e-6, of six digits), and behind it,
/// where a value that lies where rounding jumps has moved the rows themselves (3e-4).
constexpr double kFirstRowError = 2e-5, kRowError = 2e-3;

fs::path golden_folder() { return fs::path(KVCAL_SOURCE_DIR) / "tests/evaluate/golden"; }

std::vector<std::string> evaluation_cases() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(golden_folder()))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

CacheFormat format_of(const std::string& name) {
  const std::vector<std::pair<std::string, CacheFormat>> all = {{"e4m3", CacheFormat::E4m3},
                                                                {"e4m3fnuz", CacheFormat::E4m3Fnuz},
                                                                {"e5m2", CacheFormat::E5m2},
                                                                {"int8", CacheFormat::Int8},
                                                                {"nvfp4", CacheFormat::Nvfp4}};
  return std::ranges::find(all, name, &std::pair<std::string, CacheFormat>::first)->second;
}

std::optional<SiteRounding> site_of(const Json& sites, const char* name) {
  if (!sites.contains(name)) return std::nullopt;
  const Json& site = sites.at(name);
  SiteRounding rounding{format_of(site.at("format")), {}, {}};
  rounding.means = site.value("means", rounding.means);
  if (site.contains("means") || site.contains("turned"))
    rounding.moved = site.contains("turned") ? Moved::Turned : Moved::ByMeans;
  if (!site.contains("write")) return rounding;
  rounding.write = site.at("write").get<std::vector<float>>();
  rounding.read = site.value("read", rounding.write);
  return rounding;
}

ProbabilityRounding probabilities_of(const Json& sites) {
  const Json* rounding = find_member(sites, "probabilities");
  return rounding ? ProbabilityRounding{rounding->at("factor"), rounding->at("sinks_last")} : ProbabilityRounding{};
}

Variant variant_of(const Json& golden, const ModelSpec& spec) {
  Variant variant{golden.at("name"), "", {}};
  for (const KvLayout& layout : spec.caches) {
    const Json sites = golden.at("layers").value(std::to_string(layout.layer), Json::object());
    variant.caches.push_back({site_of(sites, layout.is_mla() ? "latent" : "key"), site_of(sites, "value"),
                              site_of(sites, "query"), probabilities_of(sites)});
  }
  return variant;
}

PromptSet prompts_of(const Golden& model, size_t n) {
  PromptSet set;
  for (size_t i = 0; i < n; ++i) {
    PromptRecord record;
    record.id = record.canonical = std::to_string(i);
    record.kind = PromptKind::Ids;
    record.input_ids = model.sequences()[i];
    set.records.push_back(record);
  }
  return set;
}

Evaluation evaluated(const Golden& model, size_t n_prompts, const MakeVariants& variants, int64_t keep_recent = 0) {
  EvaluationOptions options;
  options.precision = Precision::F32;
  options.keep_recent = keep_recent;
  CalibrationListener silent;
  return evaluate({.model = model.folder,
                   .prompts = [&](bool) { return prompts_of(model, n_prompts); },
                   .open_device = [] { return backend(Precision::F32); }},
                  options, variants, silent);
}

MakeVariants all_of(const Json& variants) {
  return [&](const ModelSpec& spec) {
    VariantSet set;
    for (const Json& v : variants) set.compared.push_back(variant_of(v, spec));
    return set;
  };
}

/// NaN differs from everything, and no maximum may pass it over.
double difference(double actual, double expected) {
  const double d = std::fabs(actual - expected);
  return std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
}

/// Of none: 0.
double largest(const std::vector<double>& all) { return all.empty() ? 0 : *std::ranges::max_element(all); }

double median(std::vector<double> all) {
  if (all.empty()) return 0;
  std::ranges::sort(all);
  return all[all.size() / 2];
}

double median_of_lists(const Json& lists) {
  std::vector<double> all;
  for (const Json& list : lists) all.insert(all.end(), list.begin(), list.end());
  return median(all);
}

/// Of one variant, the difference to its golden at every position: of KL as a share of it, or of the variant's median
/// where that is more; of NLL in nats. Steady positions come before the first value that lies where rounding jumps;
/// behind it any program may have rounded otherwise.
struct Differences {
  std::vector<double> kl, nll, top, unsteady_kl;

  Differences(const std::vector<ComparedToken>& tokens, const Json& golden) {
    const double median_kl = median_of_lists(golden.at("kl"));
    for (const ComparedToken& token : tokens) add(token, golden, median_kl);
  }

 private:
  void add(const ComparedToken& token, const Json& golden, double median_kl) {
    const auto prompt = static_cast<size_t>(token.prompt), position = static_cast<size_t>(token.position);
    const PredictionDifference& ours = token.difference;
    const bool is_steady = position < golden.at("steady").at(prompt).get<size_t>();
    const double expected = golden.at("kl").at(prompt).at(position);
    (is_steady ? kl : unsteady_kl).push_back(difference(ours.kl, expected) / std::max(expected, median_kl));
    if (!is_steady) return;
    const Json& other_top = golden.at("other_top").at(prompt);
    const bool same_top = std::find(other_top.begin(), other_top.end(), position) == other_top.end();
    top.push_back(ours.same_top == same_top ? 0 : 1);
    if (token.has_next) nll.push_back(difference(ours.nll_variant, golden.at("nll").at(prompt).at(position)));
  }
};

class EvaluationReference : public ::testing::TestWithParam<std::string> {
 protected:
  /// The model with its cache as it is.
  void check_reference(const std::vector<ComparedToken>& tokens, const Json& nll) {
    for (const ComparedToken& token : tokens) {
      if (!token.has_next) continue;
      const double expected = nll.at(static_cast<size_t>(token.prompt)).at(static_cast<size_t>(token.position));
      EXPECT_NEAR(token.difference.nll_reference, expected, tolerance::kEvaluationNll)
          << "prompt " << token.prompt << ", position " << token.position;
    }
  }

  void check_all(const Evaluation& evaluation, const Json& variants) {
    ASSERT_EQ(evaluation.compared.size(), variants.size());
    for (size_t v = 0; v < variants.size(); ++v) {
      const std::vector<ComparedToken>& tokens = evaluation.compared[v].tokens;
      ASSERT_EQ(tokens.size(), variants[v].at("kl").at(0).size() + variants[v].at("kl").at(1).size());
      check(tokens, variants[v]);
    }
  }

  /// Of the worst head of every layer that is rounded; of no other.
  void check_errors(const Evaluation& evaluation, const Json& golden) {
    for (const VariantFigures& v : figures_of(evaluation).variants) {
      SCOPED_TRACE(v.name);
      const Json layers = golden.value(v.name, Json::object());
      EXPECT_EQ(v.errors.size(), layers.size());
      for (const LayerErrors& layer : v.errors) {
        const Json expected = layers.value(std::to_string(layer.index), Json::object());
        const double tolerance = layer.index == v.errors[0].index ? kFirstRowError : kRowError;
        check_error(layer.key, expected.value("key", -1.0), tolerance);
        check_error(layer.value, expected.value("value", -1.0), tolerance);
        check_error(layer.latent, expected.value("latent", -1.0), tolerance);
      }
    }
  }

  /// Below 0: none is expected.
  void check_error(const std::optional<double>& error, double expected, double tolerance) {
    EXPECT_EQ(error.has_value(), expected >= 0);
    EXPECT_NEAR(error.value_or(expected), expected, tolerance * std::fabs(expected));
  }

  void check(const std::vector<ComparedToken>& tokens, const Json& golden) {
    SCOPED_TRACE(golden.at("name").get<std::string>());
    const Differences d(tokens, golden);
    EXPECT_LE(largest(d.kl), tolerance::kEvaluationKl);
    EXPECT_LE(largest(d.nll), tolerance::kEvaluationNll);
    EXPECT_EQ(largest(d.top), 0) << "another token is the likeliest";
    EXPECT_LE(median(d.unsteady_kl), tolerance::kEvaluationUnsteadyKl);
  }
};

TEST_P(EvaluationReference, AtEveryPosition) {
  const Golden model(GetParam());
  const Json golden = read_json_file(golden_folder() / (GetParam() + ".json"));
  if (GetParam() == "llama" && backend(Precision::F32)->device_memory().own) {
    EXPECT_NE(message_of([&] { evaluated(model, 1, all_of(golden.at("variants"))); }).find("--device cpu"),
              std::string::npos);
    return;
  }
  const Evaluation evaluation = evaluated(model, golden.at("n_sequences"), all_of(golden.at("variants")));
  check_all(evaluation, golden.at("variants"));
  check_reference(evaluation.compared[0].tokens, golden.at("nll"));
  const Json errors = read_json_file(fs::path(KVCAL_SOURCE_DIR) / "tests/evaluate/row_errors.json");
  if (const Json* of_rows = find_member(errors.at("cases"), GetParam())) check_errors(evaluation, *of_rows);
  if (const Json* in_blocks = find_member(golden, "in_blocks")) {
    SCOPED_TRACE("in blocks");
    const Json& variants = in_blocks->at("variants");
    check_all(evaluated(model, golden.at("n_sequences"), all_of(variants), in_blocks->at("keep_recent")), variants);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EvaluationReference, ::testing::ValuesIn(evaluation_cases()),
                         [](const auto& given) { return given.param; });

}  // namespace
}  // namespace kvcal
