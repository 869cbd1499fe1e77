// Runs every case below tests/cli (cli_case.h says what a case is). They test the program, not the numerics.
//   test_cli [--update] [gtest options]      --update: what comes out becomes what is expected
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string_view>

#include "artifact/schema_check.h"
#include "cli/cli_case.h"

namespace kvcal::cli {
namespace {

bool g_update = false;

const Places& places() {
  static const Places all = {KVCAL_PROGRAM, KVCAL_SOURCE_DIR, KVCAL_BUILD_DIR, KVCAL_CMAKE};
  return all;
}

// Of what `kvcal VERB --json` prints; evaluate prints its file.
std::filesystem::path schema_of(const std::string& verb) {
  const std::filesystem::path schemas = std::filesystem::path(KVCAL_SOURCE_DIR) / "schemas";
  return verb == "evaluate" ? schemas / "evaluation.v1.schema.json" : schemas / ("output-" + verb + ".v1.schema.json");
}

// prompts and generate print one document a line.
std::vector<Json> documents_in(const std::string& text) {
  if (Json whole = Json::parse(text, nullptr, false); !whole.is_discarded()) return {whole};
  std::vector<Json> documents;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) documents.push_back(Json::parse(line, nullptr, false));
  return documents;
}

// What is described elsewhere, or with a word for each member: fold prints its record.
bool has_schema(const std::string& verb) {
  const std::set<std::string> none = {"fold", "generate", "merge", "stats"};
  return !none.contains(verb);
}

void expect_schema_holds(const JsonOutput& output) {
  std::ifstream file(schema_of(output.verb));
  ASSERT_TRUE(file) << schema_of(output.verb) << " is not there";
  const std::string schema{std::istreambuf_iterator<char>(file), {}};
  for (const Json& document : documents_in(output.text)) {
    ASSERT_FALSE(document.is_discarded()) << "not JSON: " << output.text;
    for (const SchemaError& error : check_schema(document, schema))
      ADD_FAILURE() << "kvcal " << output.verb << " --json: " << error.path << ": " << error.message;
  }
}

class CaseTest final : public testing::Test {
 public:
  explicit CaseTest(Case c) : case_(std::move(c)) {}

  void TestBody() override {
    const Outcome outcome = run(case_, places());
    for (const std::string& file : outcome.left_in_tree) ADD_FAILURE() << "left in the source tree: " << file;
    for (const JsonOutput& output : outcome.json)
      if (has_schema(output.verb)) expect_schema_holds(output);
    if (g_update) return update(case_, outcome);
    const Outcome want = expected(case_);
    EXPECT_EQ(outcome.exit, want.exit);
    EXPECT_TRUE(matches(want.out, outcome.out)) << "stdout is:\n" << outcome.out << "expected:\n" << want.out;
    EXPECT_TRUE(matches(want.err, outcome.err)) << "stderr is:\n" << outcome.err << "expected:\n" << want.err;
  }

 private:
  Case case_;
};

TEST(Harness, WildcardsInLines) {
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "x\n"));
  EXPECT_FALSE(matches("x\n", ""));
  EXPECT_TRUE(matches("a*c\n", "abbbc\n"));
  EXPECT_TRUE(matches("a*c\n", "ac\n"));
  EXPECT_TRUE(matches("*b*d\n", "abcbd\n"));
  EXPECT_FALSE(matches("a*c\n", "abcd\n"));
  EXPECT_FALSE(matches("a\n", "a\nb\n"));
}

TEST(Harness, WildcardLines) {
  EXPECT_TRUE(matches("...\n", ""));
  EXPECT_TRUE(matches("a\n...\nz\n", "a\nz\n"));
  EXPECT_TRUE(matches("a\n...\nz\n", "a\nz\nb\nz\n"));
  EXPECT_FALSE(matches("a\n...\nz\n", "a\nz\nb\n"));
  EXPECT_TRUE(matches("...\nb\n...\n", "a\nb\nc\n"));
  EXPECT_FALSE(matches("...\nb\n...\n", "a\nc\n"));
}

TEST(Harness, FilesLeftInTheTreeAreSeen) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("kvcal_cli_tree_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder / "tests");
  std::ofstream(folder / "tests/writes.cmd") << "echo here >here.txt\necho there >\"$SOURCE/tests/there.txt\"\n";
  Places moved = places();
  moved.source = folder;
  const Outcome outcome = run({"writes", folder / "tests/writes"}, moved);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(outcome.left_in_tree, std::vector<std::string>{"tests/there.txt"});
}

// An expectation whose command is gone would look like a test and never run.
TEST(Harness, EveryExpectationHasItsCommand) {
  std::set<std::string> stems;
  for (const Case& c : find_cases(std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/cli")) stems.insert(c.stem.string());
  EXPECT_FALSE(stems.empty());
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/cli")) {
    std::filesystem::path path = entry.path();
    if (path.extension() == ".stdout" || path.extension() == ".stderr") {
      EXPECT_TRUE(stems.contains(path.replace_extension().string())) << entry.path();
    }
  }
}

void expect_closed(const Json& schema, const std::string& where) {
  if (schema.is_object() && schema.contains("properties")) {
    EXPECT_EQ(schema.value("additionalProperties", true), false) << where;
  }
  for (const auto& [name, member] : schema.items())
    if (member.is_structured()) expect_closed(member, where + "/" + name);
}

// A member that nobody described would otherwise pass.
TEST(Schemas, ObjectsOfOutputsAreClosed) {
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(KVCAL_SOURCE_DIR) / "schemas")) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("output-")) continue;
    std::ifstream file(entry.path());
    const Json schema = Json::parse(file);
    EXPECT_EQ(schema.at("$id"), name);
    expect_closed(schema, name);
  }
}

void register_cases() {
  for (const Case& c : find_cases(std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/cli")) {
    const size_t slash = c.name.find('/');
    testing::RegisterTest(("Cli_" + c.name.substr(0, slash)).c_str(), c.name.substr(slash + 1).c_str(), nullptr,
                          nullptr, __FILE__, __LINE__, [c]() -> testing::Test* { return new CaseTest(c); });
  }
}

}  // namespace
}  // namespace kvcal::cli

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) kvcal::cli::g_update |= std::string_view(argv[i]) == "--update";
  kvcal::cli::register_cases();
  return RUN_ALL_TESTS();
}
