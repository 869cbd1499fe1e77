// The page as a whole: well-formed, self-contained, escaped, equal twice, small enough for eighty layers.
#include <gtest/gtest.h>

#include "report/markup.h"
#include "report/report.h"
#include "unit/report_html_checker.h"
#include "unit/solve_synthetic.h"
#include "unit/solved_artifact.h"

namespace kvcal {
namespace {

std::string page_of(const Statistics& statistics, bool with_statistics = true) {
  const Artifact artifact = solved_artifact(statistics);
  return report_html({artifact, with_statistics ? &statistics : nullptr, "run.kvstats", "kvcal test"});
}

void expect_sound(const std::string& page) {
  HtmlChecker checker(page);
  EXPECT_EQ(checker.check(), "");
  EXPECT_TRUE(checker.addresses.empty()) << checker.addresses[0];
  for (const char* name : {"script", "link", "img", "iframe", "object", "embed", "form", "base"})
    EXPECT_FALSE(checker.elements.contains(name)) << name;
  for (const char* loader : {"url(", "@import", "javascript:", "http:", "https:"})
    EXPECT_EQ(page.find(loader), std::string::npos) << loader;
}

size_t count(const std::string& page, std::string_view part) {
  size_t n = 0;
  for (size_t at = page.find(part); at != page.npos; at = page.find(part, at + part.size())) ++n;
  return n;
}

TEST(HtmlChecker, finds_what_is_wrong) {
  const auto check = [](const std::string& body) { return HtmlChecker("<!DOCTYPE html>\n" + body).check(); };
  EXPECT_EQ(check("<p id=\"a\">x &amp; y<br/></p>\n"), "");
  for (const char* bad :
       {"<p>", "</p>", "<p><b></p></b>", "<p a=b></p>", "<p a='b'></p>", "a & b", "a > b", "<p a=\"<\"></p>",
        "<p onclick=\"x\"></p>", "<p id=\"a\"></p><p id=\"a\"></p>", "<a href=\"#b\"></a>", "<p", "<p a=\"b"})
    EXPECT_NE(check(bad), "") << bad;
  EXPECT_NE(HtmlChecker("<p></p>").check(), "");
}

TEST(Page, of_statistics_is_sound_and_has_every_section) {
  const std::string page = page_of(synthetic_statistics(ordinary_run()));
  expect_sound(page);
  for (const char* id : {"summary", "layers", "formats", "heads", "histograms", "growth", "outliers", "provenance"})
    EXPECT_EQ(count(page, std::string("<section id=\"") + id + "\">"), 1U) << id;
  EXPECT_EQ(count(page, "<figcaption>layer 3 "), 3U);  // histograms of key, value, query
  EXPECT_NE(page.find("gated_delta_net: layer(s) 0-2, 4-7"), std::string::npos);
}

TEST(Page, shows_recurrent_states_where_they_were_counted) {
  Artifact artifact = solved_artifact(synthetic_statistics(ordinary_run()));
  const auto page = [&] { return report_html({artifact, nullptr, "scales.json", "kvcal test"}); };
  EXPECT_EQ(page().find("Recurrent state"), std::string::npos);
  ArtifactState state;
  state.index = 5;
  state.kind = "gated_delta_net";
  state.heads = 16;
  state.observations = 1234;
  state.absmax = 5.0625f;
  state.where.prompt = "<a>";
  state.error.at_one = 0.0312f;
  artifact.state_layers = {state};
  expect_sound(page());
  EXPECT_EQ(count(page(), "<section id=\"states\">"), 1U);
  for (const char* cell : {"gated_delta_net", "1,234", "5.062", "&lt;a&gt;", "3.12 %"})
    EXPECT_NE(page().find(std::string(">") + cell + "<"), std::string::npos) << cell;
}

TEST(Page, of_int8_calls_its_format_so) {
  SolveOptions options;
  options.format = "int8";
  options.policy = "absmax";
  Artifact artifact = solved_artifact(synthetic_statistics(ordinary_run()), options);
  for (ArtifactLayer& layer : artifact.layers) {
    layer.key.assessment.scale = ScaleNeed::Needed;
    layer.value.assessment.fp8 = Fitness::Keep16;
  }
  const std::string page = report_html({artifact, nullptr, "scales.json", "kvcal test"});
  EXPECT_NE(page.find("<th scope=\"col\">int8</th>"), std::string::npos);
  EXPECT_EQ(page.find(">fp8<"), std::string::npos);
  EXPECT_NE(page.find("all of them among those to leave in the model&#39;s dtype"), std::string::npos);
  EXPECT_EQ(page.find("the server must load these scales"), std::string::npos);
}

TEST(Page, of_a_scale_file_alone_has_what_that_knows) {
  const std::string page = page_of(synthetic_statistics(ordinary_run()), false);
  expect_sound(page);
  EXPECT_EQ(count(page, "<section id=\"histograms\">"), 0U);
  EXPECT_EQ(count(page, "<section id=\"heads\">"), 1U);
  EXPECT_NE(page.find("Made from a scale file only"), std::string::npos);
}

TEST(Page, of_an_mla_model_shows_both_parts) {
  const std::string page = page_of(synthetic_statistics(latent_run()));
  expect_sound(page);
  EXPECT_NE(page.find(">latent part<"), std::string::npos);
  EXPECT_NE(page.find(">rope part<"), std::string::npos);
  EXPECT_NE(page.find("<figcaption>layer 3 latent "), std::string::npos);
  EXPECT_EQ(page.find("<figcaption>layer 3 key"), std::string::npos);
}

TEST(Page, is_the_same_twice) {
  const Statistics statistics = synthetic_statistics(ordinary_run());
  EXPECT_EQ(page_of(statistics), page_of(statistics));
}

bool has(const std::string& page, std::string_view part) { return page.find(part) != std::string::npos; }

/// A page about one layer whose key and value have these answers.
std::string page_with(Assessment key, Assessment value) {
  Artifact artifact = solved_artifact(synthetic_statistics(ordinary_run()));
  key.at_scale.fitness = key.fp8;
  value.at_scale.fitness = value.fp8;
  artifact.layers[0].key.assessment = key;
  artifact.layers[0].value.assessment = value;
  const std::string page = report_html({artifact, nullptr, "scales.json", "kvcal test"});
  expect_sound(page);
  return page;
}

TEST(Page, says_what_is_needed) {
  SyntheticRun run = ordinary_run();
  run.value = gaussian(1e-4, 2);  // everything below 2^-10 is lost at 1.0
  const std::string page = page_of(synthetic_statistics(run));
  EXPECT_TRUE(has(page, "<div class=\"answers needed\">"));
  EXPECT_TRUE(has(page, "loads the scales of layer(s) 3"));
  const std::string ordinary = page_of(synthetic_statistics(ordinary_run()));
  EXPECT_TRUE(has(ordinary, "<div class=\"answers fine\">"));
  EXPECT_TRUE(has(ordinary, "Nothing for layer(s) 3"));
  EXPECT_FALSE(has(ordinary, "loads the scales of"));
}

TEST(Page, gives_both_answers_and_what_to_do) {
  const Assessment fine, keep16 = {ScaleNeed::Any, Fitness::Keep16, {}, {}},
                         needed = {ScaleNeed::Needed, Fitness::Fine, {}, {}};
  const std::string both = page_with(needed, fine);
  EXPECT_TRUE(has(both, "<div class=\"answers needed\">"));
  EXPECT_TRUE(has(both, "loads the scales of layer(s) 3"));
  EXPECT_FALSE(has(both, "Nothing for layer"));
  EXPECT_FALSE(has(both, "Attention changes most"));
  Assessment felt;
  felt.at_scale.severity = 0.6;
  EXPECT_TRUE(has(page_with(felt, fine), "Attention changes most in layer(s) 3; what that does"));
  const std::string ruined = page_with(keep16, needed);
  EXPECT_TRUE(has(ruined, "<div class=\"answers keep16\">"));
  EXPECT_TRUE(has(ruined, "Leave the whole cache in the model's dtype")) << "there is one layer";
  EXPECT_LT(ruined.find("fine for this cache?"), ruined.find("Do the scales matter?"));
  EXPECT_FALSE(has(ruined, "loads the scales of")) << "the layer is kept out of FP8";
  EXPECT_TRUE(has(ruined, "these scales ruin the layers")) << "the key is fine at 1.0";
}

TEST(Page, marks_answers_without_color) {
  const std::string page =
      page_with({ScaleNeed::Needed, Fitness::Fine, {}, {}}, {ScaleNeed::Any, Fitness::Keep16, {}, {}});
  for (const char* badge : {"needed\">! needed", "any\">\u2713 any", "keep16\">\u2717 keep16", "fine\">\u2713 fine"})
    EXPECT_TRUE(has(page, "<span class=\"v " + std::string(badge) + "</span>")) << badge;
}

TEST(Page, shows_the_figure_that_decided) {
  Assessment key, value;
  key.at_scale.kl = 0.0021;
  key.at_scale.on_stream = 0.0004;
  key.at_scale.by = Basis::Attention;
  key.at_scale.decided_by = Figure::Kl;
  key.at_one.decided_by = Figure::Clipped;
  value.at_scale.rel = 0.027;
  value.at_one.flushed_tokens = 0.5;
  value.at_one.decided_by = Figure::FlushedTokens;
  const std::string page = page_with(key, value);
  EXPECT_TRUE(has(page, "<td class=\"n\">kl 0.0021</td><td class=\"n\">clipped</td>"));
  EXPECT_TRUE(has(page,
                  "rel 2.70 % <span class=\"of\">predicted</span></td><td class=\"n\">flushed_tokens 50.00 % "
                  "<span class=\"of\">predicted</span></td>"));
  EXPECT_TRUE(has(page, "<td class=\"n\">2.00 %</td></tr>")) << "the stream";
  EXPECT_TRUE(has(page_with({}, {}), "<td class=\"n\">-</td><td class=\"n\">-</td>")) << "version 1.0 has no figures";
}

TEST(Page, says_the_limits_once) {
  Artifact artifact = solved_artifact(synthetic_statistics(ordinary_run()));
  artifact.quantization.limits.kl = 0.0123;
  const std::string page = report_html({artifact, nullptr, "scales.json", "kvcal test"});
  EXPECT_EQ(count(page, "Above 0.0123 the site is keep16."), 1U);
  EXPECT_EQ(count(page, "0.0123"), 2U) << "there, and in the provenance";
}

TEST(Page, defines_every_word_of_the_table_once) {
  const std::string page = page_of(synthetic_statistics(latent_run()));
  for (const char* word : {"query", "latent part, rope part", "scale", "error", "attention", "kl", "rel", "noise",
                           "flushed_tokens", "clipped", "kl_unseen", "stream", "scale?", "fp8"})
    EXPECT_EQ(count(page, "<dt>" + std::string(word) + "</dt>"), 1U) << word;
  for (const char* answer : {"any: ", "needed: ", "fine: ", "keep16: "}) EXPECT_EQ(count(page, answer), 1U) << answer;
}

// What a scale loses is marked by more than color: at 1.0 all values of this head are below 2^-6, a triangle down.
TEST(Page, marks_heads_without_color) {
  SyntheticRun run = ordinary_run();
  run.value = gaussian(1e-4, 2);
  const std::string low = page_of(synthetic_statistics(run));
  EXPECT_EQ(count(low, "l4 7 4-7z"), 2U);  // two heads
  EXPECT_EQ(count(low, "l4-7 4 7z"), 0U);
  run.value = gaussian(1000, 2);
  EXPECT_EQ(count(page_of(synthetic_statistics(run)), "l4-7 4 7z"), 2U);
}

TEST(Page, escapes_names_and_ids_of_strangers) {
  const std::string attack = "<script>alert(1)</script>\"'&\xFF";
  Statistics statistics = synthetic_statistics(ordinary_run());
  for (std::string& id : statistics.run.prompt_ids) id = attack + id;
  statistics.run.model->architecture = "<script>alert(2)</script>";
  statistics.run.model->model_type = "\"><script>alert(3)</script>";
  statistics.run.model->further["<b>"] = "<b>";
  statistics.run.calibration->tool_version = "</dd><script>alert(4)</script>";
  statistics.run.layers_without_kv->at(0).kind = "<script>alert(5)</script>";
  const Artifact artifact = solved_artifact(statistics);
  const std::string page = report_html({artifact, &statistics, "<script>alert(6)</script>.kvstats", "kvcal <7>"});
  expect_sound(page);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  for (const char* number : {"2", "3", "4", "5", "6"})
    EXPECT_NE(page.find("&lt;script&gt;alert(" + std::string(number) + ")"), std::string::npos) << number;
  EXPECT_NE(page.find("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;\xEF\xBF\xBDprompt-1"), std::string::npos);
}

// What is shown without a click: the page less all that is folded.
std::string in_sight(std::string page) {
  for (size_t from; (from = page.rfind("<details>")) != page.npos;)  // the innermost of nested ones first
    page.erase(from, page.find("</details>", from) + std::string("</details>").size() - from);
  return page;
}

TEST(Page, folds_what_asks_for_nothing) {
  const std::string page = page_of(synthetic_statistics(ordinary_run())), open = in_sight(page);
  EXPECT_TRUE(has(open, "No site needs anything"));
  EXPECT_FALSE(has(open, "<svg"));
  EXPECT_EQ(count(open, "<table>"), 1U) << "the worst site of each format";
  EXPECT_EQ(count(open, "<li class=\"v fine\" title=\"layer 3: scale any, fp8 fine\">"), 1U);
}

TEST(Page, begins_with_the_worst) {
  const Statistics statistics = synthetic_layers(40);
  Artifact artifact = solved_artifact(statistics);
  const auto set = [&](int layer, ScaleNeed scale, Fitness fp8, double severity) {
    Assessment& a = artifact.layers[static_cast<size_t>(layer)].key.assessment;
    a.scale = scale;
    a.fp8 = fp8;
    a.at_scale.severity = a.at_one.severity = severity;
  };
  for (int layer = 0; layer < 30; ++layer) set(layer, ScaleNeed::Needed, Fitness::Fine, 1 + 0.01 * layer);
  set(31, ScaleNeed::Needed, Fitness::Fine, 2);
  set(32, ScaleNeed::Any, Fitness::Keep16, 5);
  set(33, ScaleNeed::Needed, Fitness::Keep16, 9);
  artifact.layers[34].query.assessment.fp8 = Fitness::Keep16;  // decides about no layer
  const std::string page = report_html({artifact, &statistics, "run.kvstats", "kvcal test"}), open = in_sight(page);
  expect_sound(page);
  const size_t table = open.find("Sites that need something");
  size_t at = table;
  for (const char* layer : {"33", "32", "31", "29", "28", "27", "26", "25", "24", "23", "22", "21"}) {
    const size_t row = open.find("<th scope=\"row\" class=\"n\">" + std::string(layer) + "</th><td>key</td>", table);
    ASSERT_NE(row, open.npos) << layer;
    EXPECT_GT(row, at) << layer;
    at = row;
  }
  EXPECT_TRUE(has(open, "22 more of them are in the table of all sites."));
  EXPECT_EQ(count(open, "<figcaption>layer "), 6U);
  EXPECT_LT(open.find("<figcaption>layer 33 key"), open.find("<figcaption>layer 31 key"));
  EXPECT_EQ(count(page, "<figcaption>layer "), 120U) << "each once";
}

// All that comes before the answers is the row's name.
TEST(Page, has_the_answers_in_the_first_columns) {
  const std::string page = page_of(synthetic_statistics(ordinary_run()));
  EXPECT_TRUE(
      has(page, "layer</th><th scope=\"col\">site</th><th scope=\"col\">scale?</th><th scope=\"col\">fp8</th>"));
  EXPECT_TRUE(
      has(page, ">3</th><td>key</td><td><span class=\"v any\">\u2713 any</span></td><td><span class=\"v fine\">"));
}

// Normal numbers with scale 1 have a few in a million that become zero. With scale 2^9 hardly one is left.
TEST(Page, marks_what_is_lost_where_it_matters) {
  const Statistics statistics = synthetic_statistics(ordinary_run());
  Artifact artifact = solved_artifact(statistics);
  const auto page = [&](float scale) {
    artifact.layers[0].value.scale = scale;
    return report_html({artifact, &statistics, "run.kvstats", "kvcal test"});
  };
  EXPECT_EQ(count(page(1), "<rect class=\"lost\""), 0U);
  EXPECT_GT(count(page(8192), "<rect class=\"lost\""), 3U);
}

TEST(Page, of_eighty_layers_is_below_two_megabytes) {
  SyntheticRun run = ordinary_run();
  run.layout.n_heads = 64;
  run.layout.n_kv_heads = 8;
  run.n_prompts = 64;
  run.tokens_per_prompt = 2;
  const std::string page = page_of(synthetic_layers(80, run));
  expect_sound(page);
  EXPECT_LT(page.size(), 2'000'000U);
  EXPECT_EQ(count(page, "<figcaption>layer "), 240U);
  RecordProperty("bytes", static_cast<int>(page.size()));
}

}  // namespace
}  // namespace kvcal
