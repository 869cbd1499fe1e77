// Errors of formats against what tests/reference/verdicts/make_format_errors.py computed from the values themselves.
#include <gtest/gtest.h>

#include <fstream>

#include "harness/tolerances.h"
#include "ops/cpu/cpu_ops.h"
#include "solve/format_errors.h"
#include "stats/merge.h"
#include "stats/observer.h"
#include "unit/solve_synthetic.h"
#include "verdicts/case_tables.h"

namespace kvcal {
namespace {

std::vector<Json> read_lines(const char* file) {
  std::ifstream in(std::string(KVCAL_SOURCE_DIR "/tests/unit/data/format_errors/") + file);
  std::vector<Json> objects;
  for (std::string line; std::getline(in, line);) objects.push_back(parse_json(line));
  return objects;
}

ModelSpec spec_of(const Json& the_case) {
  KvLayout l;
  l.n_heads = get_int(the_case, "heads");
  l.softmax_scale = 1;
  if (the_case.contains("rank")) {
    l.kind = "mla";
    l.n_kv_heads = 1;
    l.latent_dim = l.head_dim_v = get_int(the_case, "rank");
    l.head_dim_k = l.latent_dim + get_int(the_case, "turned");
  } else {
    l.n_kv_heads = get_int(the_case, "kv_heads");
    l.head_dim_k = l.head_dim_v = get_int(the_case, "head_dim");
  }
  ModelSpec spec;
  spec.layers.resize(1);
  spec.caches.push_back(l);
  return spec;
}

struct Feeding {
  int64_t chunk = 1 << 20;  // most rows to a batch, each of one prompt
  bool reversed = false;
  int threads = 1;
  DType dtype = DType::BF16;
  std::vector<int64_t> without{};  // prompts of another shard
};

/// What a token of the vocabulary stores, for each row of a batch.
Storage rows_of(const CaseTable& table, const std::vector<int32_t>& ids, int64_t heads, DType dtype) {
  const auto n = static_cast<int64_t>(ids.size());
  Storage rows({n, heads, table.columns / heads}, dtype);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < table.columns; ++c) {
      const bf16 x{table.codes[static_cast<size_t>(ids[static_cast<size_t>(i)] * table.columns + c)]};
      if (dtype == DType::BF16)
        rows.tensor().as<bf16>()[i * table.columns + c] = x;
      else
        rows.tensor().as<float>()[i * table.columns + c] = to_float(x);
    }
  return rows;
}

/// A layer that shows the tables of a case, and whatever queries.
class Layer {
 public:
  Layer(const Json& the_case, const Feeding& feeding)
      : tables_(build_tables(the_case)),
        prompts_(prompts_of_case(the_case)),
        spec_(spec_of(the_case)),
        feeding_(feeding),
        ops_(make_cpu_ops({Precision::BF16, 1, true})) {}

  const CaseTables& tables() const { return tables_; }

  Statistics run() {
    ObservationPlan plan{1, {}, {}};
    for (size_t i = 0; i < prompts_.size(); ++i) {
      plan.prompt_ids.push_back(prompts_[i].id);
      const auto index = static_cast<int64_t>(i);
      if (std::ranges::count(feeding_.without, index) == 0)
        plan.segments.push_back({index, 1, index, 0, 0, 0, static_cast<int64_t>(prompts_[i].ids.size())});
    }
    ThreadPool pool(feeding_.threads);
    Observer observer(spec_, plan, pool);
    std::vector<Segment> pieces;
    for (const Segment& s : plan.segments)
      for (int64_t from = 0; from < s.n_tokens; from += feeding_.chunk)
        pieces.push_back({s.sequence, 1, s.prompt, from, from, 0, std::min(feeding_.chunk, s.n_tokens - from)});
    if (feeding_.reversed) std::ranges::reverse(pieces);
    for (const Segment& piece : pieces) show(piece, plan.segments, observer);
    observer.layer_done(0);
    RunRecord record;
    record.calibration.emplace().longest = 1;
    record.model.emplace().max_positions = 1;
    return observer.take(record);
  }

 private:
  void show(const Segment& piece, const std::vector<Segment>& whole, Observer& observer) const {
    const auto& ids = prompts_[static_cast<size_t>(piece.prompt)].ids;
    Batch batch;
    const auto first = ids.begin() + piece.prompt_offset;
    batch.ids.assign(first, first + piece.n_tokens);
    batch.segments = {piece};
    const auto n_tokens = std::ranges::find(whole, piece.prompt, &Segment::prompt)->n_tokens;
    batch.sequences = {{piece.sequence, {0, piece.n_tokens, piece.first_position}, n_tokens, false}};
    batch.spans = {batch.sequences[0].span};
    const KvLayout& l = spec_.caches[0];
    const auto table = [&](const char* name) {
      return rows_of(tables_.at(name), batch.ids, l.n_kv_heads, feeding_.dtype);
    };
    const Storage q({batch.n_tokens(), l.n_heads, l.head_dim_k}, DType::F32);
    std::fill_n(q.tensor().as<float>(), q.tensor().elements(), 1.0f);
    const Storage k = table(l.is_mla() ? "row" : "k"), v = l.is_mla() ? Storage() : table("v");
    if (l.is_mla()) {
      observer.latent(0, k.tensor(), batch);
    } else {
      observer.key(0, k.tensor(), batch);
      observer.value(0, v.tensor(), batch);
    }
    observer.query(0, q.tensor(), batch);
    const AttentionSpec spec;
    const ColumnNorms norms;  // none: attention itself is not sampled
    const KvRows* kept = nullptr;
    observer.attention(*ops_, 0, {q.tensor(), k.tensor(), v.tensor(), std::span(&kept, 1), spec, norms}, batch);
  }

  CaseTables tables_;
  std::vector<PromptTokens> prompts_;
  ModelSpec spec_;
  Feeding feeding_;
  std::unique_ptr<Ops> ops_;
};

/// A case with what is true of it.
struct Judged {
  Json given, truth;
};

std::vector<Judged> judged_cases() {
  const std::vector<Json> given = read_lines("cases.jsonl"), truth = read_lines("errors.jsonl");
  std::vector<Judged> cases;
  for (size_t i = 0; i < given.size(); ++i) cases.push_back({given[i], truth.at(i)});
  return cases;
}

void PrintTo(const Judged& c, std::ostream* out) { *out << c.given["name"]; }

SolveOptions options_of(const Json& run) {
  SolveOptions options;
  options.policy = get_string_or(run, "policy", "absmax");
  options.percentile = get_number_or(run, "percentile", options.percentile);
  options.granularity = granularity_from_name(get_string_or(run, "granularity", "tensor"));
  return options;
}

CacheSite site_named(const std::string& name) {
  return name == "key" ? CacheSite::Key : name == "value" ? CacheSite::Value : CacheSite::Latent;
}

/// Channels that have nearly one value throughout: its place among the numbers of a format decides for all.
bool is_alike(const std::string& name) { return name == "offset_channels" || name == "constant_channels"; }

double tolerance_of(const std::string& column, const std::string& name) {
  if (column != "int8_per_channel") return tolerance::kFormatError;
  return is_alike(name) ? tolerance::kPredictedFormatErrorAlike : tolerance::kPredictedFormatError;
}

double stand_in_tolerance(const std::string& name) {
  return is_alike(name) ? tolerance::kStandInScaleAlike : tolerance::kStandInScale;
}

class FormatErrorsOf : public testing::TestWithParam<Judged> {};

TEST_P(FormatErrorsOf, AreTrue) {
  const auto& [given, truth] = GetParam();
  ASSERT_EQ(given["name"], truth["name"]);
  Layer layer(given, {});
  ASSERT_EQ(fingerprint(layer.tables()), truth["sha256"].get<std::string>());
  const Statistics statistics = layer.run();
  for (size_t i = 0; i < given["runs"].size(); ++i)
    for (const auto& [site, expected] : truth["runs"][i].items()) {
      const FormatErrors errors =
          format_errors(statistics.caches[0], site_named(site), statistics.run, options_of(given["runs"][i]));
      EXPECT_EQ(errors.sampled_rows, expected["sampled_rows"].get<uint64_t>());
      for (const FormatColumn& column : format_columns()) {
        const std::optional<double>& actual = errors.*column.error;
        ASSERT_EQ(actual.has_value(), expected.contains(column.key)) << site << ", " << column.key;
        if (!actual) continue;
        const auto error = expected[column.key].get<double>();
        EXPECT_NEAR(*actual, error, tolerance_of(column.key, given["name"]) * error + 1e-6)
            << site << ", " << column.key;
      }
      // What stands in for the global scale of a whole cache.
      const auto of_the_cache = expected["nvfp4_of_the_cache"].get<double>();
      EXPECT_NEAR(*errors.nvfp4, of_the_cache, stand_in_tolerance(given["name"]) * of_the_cache + 1e-6) << site;
    }
}

INSTANTIATE_TEST_SUITE_P(Cases, FormatErrorsOf, testing::ValuesIn(judged_cases()),
                         [](const auto& c) { return c.param.given["name"].template get<std::string>(); });

const Json& a_case(const std::string& name) {
  static const std::vector<Json> cases = read_lines("cases.jsonl");
  return *std::ranges::find_if(cases, [&](const Json& c) { return c["name"] == name; });
}

void expect_equal_sums(const Statistics& a, const Statistics& b) {
  for (const CacheSite site : sites_of(a.caches[0].layout)) {
    EXPECT_EQ(a.caches[0].at(site).row_formats, b.caches[0].at(site).row_formats) << name_of(site);
    EXPECT_EQ(a.caches[0].at(site).row_formats.empty(), site == CacheSite::Query);
  }
}

TEST(FormatErrors, SumsDoNotDependOnHowTheWorkIsDivided) {
  for (const char* name : {"lengths", "sinks", "latent"}) {
    const Statistics whole = Layer(a_case(name), {}).run();
    for (const Feeding& feeding :
         {Feeding{.chunk = 7, .threads = 2}, {.chunk = 64, .reversed = true}, {.chunk = 64, .dtype = DType::F32}})
      expect_equal_sums(whole, Layer(a_case(name), feeding).run());
  }
}

TEST(FormatErrors, ShardsMergeToTheWhole) {
  const Json& given = a_case("sinks");
  const Statistics whole = Layer(given, {}).run();
  Statistics a = Layer(given, {.without = {0, 2}}).run(), b = Layer(given, {.without = {1, 3}}).run();
  expect_equal_sums(whole, merge(a, b));
  expect_equal_sums(whole, merge(b, a));
}

TEST(FormatErrors, AreNoneWhereNothingIsKnown) {
  const Statistics s = synthetic_statistics(ordinary_run());
  const FormatErrors errors = format_errors(s.caches[0], CacheSite::Key, s.run, {});
  EXPECT_TRUE(errors.e4m3 && errors.e5m2 && errors.int8 && errors.int8_per_channel);
  EXPECT_FALSE(errors.e4m3_per_row);  // nothing was sampled
  EXPECT_FALSE(errors.nvfp4);
  EXPECT_FALSE(errors.int4_per_row);
  SyntheticRun zeros = ordinary_run();
  zeros.key = [](const Provenance&) { return 0.0f; };
  const Statistics z = synthetic_statistics(zeros);
  const FormatErrors none = format_errors(z.caches[0], CacheSite::Key, z.run, {});
  for (const FormatColumn& column : format_columns()) EXPECT_FALSE(none.*column.error) << column.key;
}

// As statistics 1.1 have it.
TEST(FormatErrors, Int4IsUnknownWhereSomeRowsWereNotTriedInIt) {
  const Json& given = a_case("sinks");
  const Statistics a = Layer(given, {.without = {0, 2}}).run();
  Statistics b = Layer(given, {.without = {1, 3}}).run();
  const auto errors = [](const Statistics& s, CacheSite site) { return format_errors(s.caches[0], site, s.run, {}); };
  EXPECT_TRUE(errors(a, CacheSite::Key).int4_per_row);
  std::vector<RowFormatSum>& of_keys = b.caches[0].at(CacheSite::Key).row_formats;
  of_keys.resize(1);  // other octaves are those of a alone
  of_keys[0].int4_error.reset();
  for (const Statistics& s : {merge(a, b), merge(b, a)}) {
    EXPECT_TRUE(errors(s, CacheSite::Key).nvfp4);
    EXPECT_FALSE(errors(s, CacheSite::Key).int4_per_row);
    EXPECT_TRUE(errors(s, CacheSite::Value).int4_per_row);
    for (const RowFormatSum& sum : s.caches[0].at(CacheSite::Key).row_formats) EXPECT_FALSE(sum.int4_error);
  }
}

TEST(FormatErrors, ChannelsOfWholeNumbersUpTo127AreKeptByInt8) {
  SyntheticRun run = ordinary_run();
  run.key = [](const Provenance& where) { return std::array{127.0f, -40.0f, 3.0f}[where.token % 3]; };
  const Statistics s = synthetic_statistics(run);
  EXPECT_LT(*format_errors(s.caches[0], CacheSite::Key, s.run, {}).int8_per_channel, 1e-9);
}

TEST(FormatErrors, OfTheChosenScaleAreThoseOfTheSolvedCache) {
  for (const Granularity granularity : {Granularity::Tensor, Granularity::Head}) {
    const Statistics s = synthetic_statistics(ordinary_run());
    SolveOptions options;
    options.granularity = granularity;
    const SolvedCache solved = solve_cache(s.caches[0], s.run, options);
    for (const CacheSite site : {CacheSite::Key, CacheSite::Value}) {
      double worst = 0;
      for (const HeadError& e : solved.at(site).at_scale) worst = std::max(worst, e.error);
      EXPECT_EQ(format_errors(s.caches[0], site, s.run, options).e4m3, worst);
    }
  }
}

}  // namespace
}  // namespace kvcal
