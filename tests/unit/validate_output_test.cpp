// What other programs read: SARIF's required members, and GitHub's escapes.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "validate/output.h"

namespace kvcal {
namespace {

Validated sample(const std::string& file = "scales.json") {
  Validated v;
  v.file = file;
  v.report.evaluated({"A01"});
  v.report.add("S02", "layers[3].key.scale", "a scale", "more than 0", "-1");
  v.report.findings.back().line = 42;
  v.report.add("S08", "", "every scale is 1.0");
  v.report.add("K05", "layers[3].key", "100 %\nmore: here, too");
  return v;
}

TEST(Sarif, HasWhatItsSchemaRequires) {
  const Json sarif = sarif_report(sample("folder with space/skål.json"), {"0.1.0"});
  EXPECT_EQ(sarif.at("version"), "2.1.0");
  EXPECT_EQ(sarif.at("runs").size(), 1u);
  const Json& run = sarif.at("runs")[0];
  const Json& driver = run.at("tool").at("driver");
  EXPECT_EQ(driver.at("name"), "kvcal");
  std::set<std::string> ids;
  for (const Json& rule : driver.at("rules")) {
    EXPECT_TRUE(ids.insert(rule.at("id")).second) << "ids are unique";
    EXPECT_FALSE(rule.at("shortDescription").at("text").get<std::string>().empty());
    EXPECT_FALSE(rule.at("help").at("text").get<std::string>().empty());
    EXPECT_TRUE(
        (std::set<std::string>{"note", "warning", "error"}.contains(rule.at("defaultConfiguration").at("level"))));
  }
  EXPECT_EQ(ids.size(), rules().size());
  ASSERT_EQ(run.at("results").size(), 3u);
  for (const Json& result : run.at("results")) {
    EXPECT_FALSE(result.at("message").at("text").get<std::string>().empty());
    EXPECT_EQ(driver.at("rules").at(result.at("ruleIndex").get<size_t>()).at("id"), result.at("ruleId"));
    const Json& place = result.at("locations").at(0).at("physicalLocation");
    EXPECT_EQ(place.at("artifactLocation").at("uri"), "folder%20with%20space/sk%C3%A5l.json");
    EXPECT_GE(place.at("region").at("startLine"), 1);
  }
  EXPECT_EQ(run["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"], 42);
  EXPECT_EQ(run["results"][0]["level"], "error");
  EXPECT_EQ(run["results"][1]["level"], "warning");
  EXPECT_EQ(run["results"][2]["level"], "note");
}

// helpUri and informationUri must be absolute: without a published site there are none.
TEST(Sarif, SaysWhereItsRulesAreDescribed) {
  const Json run = sarif_report(sample("a.json"), {"0.1.0"}).at("runs")[0];
  const Json& driver = run.at("tool").at("driver");
  const Json document = {{"uri", "schemas/validate-rules.md"}, {"uriBaseId", "KVCAL"}};
  EXPECT_EQ(driver.at("locations"), Json::array({document}));
  EXPECT_FALSE(run.at("originalUriBaseIds").at("KVCAL").at("description").at("text").get<std::string>().empty());
  EXPECT_FALSE(driver.contains("informationUri"));
  std::ifstream in(std::string(KVCAL_SOURCE_DIR) + "/schemas/validate-rules.md");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  for (const Json& rule : driver.at("rules")) {
    EXPECT_EQ(rule.at("properties").at("documentation"), document);
    EXPECT_FALSE(rule.contains("helpUri"));
    EXPECT_NE(text.find("    " + rule.at("id").get<std::string>() + "  "), std::string::npos) << rule.at("id");
  }
}

TEST(Sarif, LeadsToThePublishedPages) {
  const Json driver =
      sarif_report(sample(), {"0.1.0", "https://example.org/kvcal/"}).at("runs")[0].at("tool").at("driver");
  EXPECT_EQ(driver.at("informationUri"), "https://example.org/kvcal/");
  EXPECT_EQ(driver.at("semanticVersion"), "0.1.0");
  for (const Json& rule : driver.at("rules"))
    EXPECT_EQ(rule.at("helpUri"), "https://example.org/kvcal/rules/" + rule.at("id").get<std::string>() + "/");
}

TEST(Github, EscapesWhatItsCommandsWouldTakeForTheirOwn) {
  const std::string text = github_report(sample("a,b:c%.json")).text();
  EXPECT_EQ(text.find("::error file=a%2Cb%3Ac%25.json,line=42,title=S02::layers[3].key.scale: a scale: -1, expected"),
            0u)
      << text;
  EXPECT_NE(text.find("::warning file=a%2Cb%3Ac%25.json,line=1,title=S08::(document): "), std::string::npos) << text;
  EXPECT_NE(text.find("::notice file=a%2Cb%3Ac%25.json,line=1,title=K05::layers[3].key: 100 %25\\x0amore: here, too"),
            std::string::npos)
      << text;
}

TEST(Strict, MakesWarningsCount) {
  Validated v;
  v.report.add("K05", "", "a note");
  v.strict = true;
  EXPECT_TRUE(v.passed());
  v.report.add("S08", "", "a warning");
  EXPECT_FALSE(v.passed());
  v.strict = false;
  EXPECT_TRUE(v.passed());
  v.report.add("S02", "", "an error");
  EXPECT_FALSE(v.passed());
}

TEST(Text, EndsWithOneLine) {
  const std::string text = text_report(sample()).text();
  const auto after =
      static_cast<size_t>(std::ranges::count(sample().report.skipped_rules(), kAfterError, &Report::Skipped::reason));
  EXPECT_TRUE(text.ends_with("scales.json: NOT valid, 1 error, 1 warning, 1 note; 4 rules, " + std::to_string(after) +
                             " not checked because of an error above\n"))
      << text;
}

// Options that would add nothing are not named, and what was left out only where it is asked for.
TEST(Text, OfAGoodFileIsOneLine) {
  Validated v;
  v.file = "s.json";
  for (const Rule& rule : rules())
    if (rule.needs.empty()) v.report.evaluated({rule.id});
  std::map<std::string_view, size_t> needs;
  for (const Rule& rule : rules()) ++needs[rule.needs];
  EXPECT_EQ(text_report(v).text(), "s.json: valid; " + std::to_string(needs[""]) + " rules; --model would check " +
                                       std::to_string(needs["--model"]) + " more, --server " +
                                       std::to_string(needs["--server"]) + ", --tp " + std::to_string(needs["--tp"]) +
                                       "\n");
  v.verbose = true;
  EXPECT_NE(text_report(v).text().find("not evaluated (needs --server): V05 V08\n"), std::string::npos);
  EXPECT_EQ(json_report(v)["not_evaluated"].size(), rules().size() - needs[""]);
}

// "what: actual, expected ...": no verb is put between words that are none of ours.
TEST(Text, GluesNoSentences) {
  Validated v;
  v.report.add("S25", "", "scales of queries", "", "none");
  v.report.add("S02", "", "a scale", "more than 0", "-1");
  const std::string text = text_report(v).text();
  EXPECT_NE(text.find("scales of queries: none\n"), std::string::npos) << text;
  EXPECT_NE(text.find("a scale: -1, expected more than 0\n"), std::string::npos) << text;
}

TEST(Rules, AreUniqueAndSorted) {
  for (size_t i = 1; i < rules().size(); ++i) EXPECT_LT(rules()[i - 1].id, rules()[i].id);
  EXPECT_EQ(rules_json().size(), rules().size());
}

}  // namespace
}  // namespace kvcal
