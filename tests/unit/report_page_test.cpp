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
  const Assessment fine, check = {ScaleNeed::Any, Fitness::Check, {}, {}},
                         keep16 = {ScaleNeed::Any, Fitness::Keep16, {}, {}},
                         needed_check = {ScaleNeed::Needed, Fitness::Check, {}, {}};
  const std::string checked = page_with(check, fine);
  EXPECT_TRUE(has(checked, "<div class=\"answers check\">"));
  EXPECT_TRUE(has(checked, "with and without this cache, for layer(s) 3"));
  EXPECT_FALSE(has(checked, "loads the scales of"));
  const std::string both = page_with(needed_check, fine);
  EXPECT_TRUE(has(both, "<div class=\"answers needed\">")) << "more urgent than to check";
  EXPECT_TRUE(has(both, "loads the scales of layer(s) 3"));
  EXPECT_TRUE(has(both, "with and without this cache, for layer(s) 3"));
  EXPECT_FALSE(has(both, "Nothing for layer"));
  const std::string ruined = page_with(keep16, needed_check);
  EXPECT_TRUE(has(ruined, "<div class=\"answers keep16\">"));
  EXPECT_TRUE(has(ruined, "Keep layer(s) 3 in the model's dtype"));
  EXPECT_FALSE(has(ruined, "loads the scales of")) << "the layer is kept out of FP8";
  EXPECT_TRUE(has(ruined, "these scales ruin the layers")) << "the key is fine at 1.0";
}

TEST(Page, marks_answers_without_color) {
  const std::string page =
      page_with({ScaleNeed::Needed, Fitness::Check, {}, {}}, {ScaleNeed::Any, Fitness::Keep16, {}, {}});
  for (const char* badge :
       {"needed\">! needed", "check\">~ check", "any\">\u2713 any", "keep16\">\u2717 keep16", "fine\">\u2713 fine"})
    EXPECT_TRUE(has(page, "<span class=\"v " + std::string(badge) + "</span>")) << badge;
}

TEST(Page, shows_the_figure_that_decided_with_its_limits) {
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
  EXPECT_TRUE(has(page,
                  "<td class=\"n\">kl 0.0021 <span class=\"of\">(0.012, 0.05)</span></td><td class=\"n\">clipped</td>"
                  "<td class=\"n\">2.00 %</td><td>attention, at 1.0 histogram</td>"));
  EXPECT_TRUE(has(page,
                  "rel 2.70 % <span class=\"of\">(8.00 %, 30.00 %)</span></td><td class=\"n\">flushed_tokens 50.00 % "
                  "<span class=\"of\">(2.00 %, 25.00 %)</span></td><td class=\"n\">-</td><td>histogram</td>"));
  EXPECT_TRUE(has(page_with({}, {}), "<td class=\"n\">-</td><td class=\"n\">-</td>")) << "version 1.0 has no figures";
}

TEST(Page, defines_every_word_of_the_table_once) {
  const std::string page = page_of(synthetic_statistics(latent_run()));
  for (const char* word : {"query", "latent part, rope part", "scale", "error", "attention", "kl", "rel", "noise",
                           "flushed_tokens", "clipped", "stream", "by", "scale?", "fp8"})
    EXPECT_EQ(count(page, "<dt>" + std::string(word) + "</dt>"), 1U) << word;
  for (const char* answer : {"any: ", "needed: ", "fine: ", "check: ", "keep16: ", "attention: ", "histogram: "})
    EXPECT_EQ(count(page, answer), 1U) << answer;
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

// Eighty layers of 8 key-value heads and 64 query heads, every layer with tables of its own.
Statistics eighty_layers() {
  SyntheticRun run = ordinary_run();
  run.layout.n_heads = 64;
  run.layout.n_kv_heads = 8;
  run.n_prompts = 64;
  run.tokens_per_prompt = 2;
  Statistics statistics = synthetic_statistics(run);
  statistics.run.model->n_layers = 80;
  statistics.run.model->n_kv_layers = 80;
  statistics.run.layers_without_kv->clear();
  const CacheStatistics one = statistics.caches[0];
  statistics.caches.clear();
  for (int layer = 0; layer < 80; ++layer) {
    statistics.caches.push_back(one);
    statistics.caches.back().layout.layer = statistics.caches.back().layout.cache = layer;
    statistics.caches.back().layout.name = "layers." + std::to_string(layer) + ".self_attn";
  }
  return statistics;
}

TEST(Page, of_eighty_layers_is_below_two_megabytes) {
  const std::string page = page_of(eighty_layers());
  expect_sound(page);
  EXPECT_LT(page.size(), 2'000'000U);
  EXPECT_EQ(count(page, "<figcaption>layer "), 240U);
  RecordProperty("bytes", static_cast<int>(page.size()));
}

}  // namespace
}  // namespace kvcal
