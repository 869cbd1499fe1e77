// What the tree says about itself, and each rule against samples that break it.
#include "rules/references.h"

#include <gtest/gtest.h>

#include <string>

#include "rules/whole_tree.h"

namespace kvcal::rules {
namespace {

TEST(References, FilesExist) { expect_none(cited_files_exist(tree())); }
TEST(References, SectionsExist) { expect_none(cited_sections_exist(tree())); }
TEST(References, TypesAreDefinedOnce) { expect_none(types_are_defined_once(tree())); }

TEST(References, PathsStayInside) {
  for (const SourceFile& file : tree()) expect_none(paths_stay_inside(file));
}

TEST(References, SkipsHaveReasons) {
  for (const SourceFile& file : tree()) expect_none(skips_have_reasons(file));
}

// ------------------------------------------------------------------ samples

TEST(ReferenceSample, Files) {
  const SourceFile there = {"lib/solve/solve.h", ""}, document = {"docs/notes.md", ""};
  const auto findings = [&](const char* path, const std::string& text) {
    return cited_files_exist({there, document, {path, text}}).size();
  };
  const std::string gone = std::string("gone") + ".md";  // put together here, so that this file keeps the rule
  EXPECT_EQ(findings("lib/a.cpp", "// see docs/notes.md, notes.md and solve/solve.h.\n"), 0U);
  EXPECT_EQ(findings("lib/a.cpp", "// as " + gone + " says (" + gone + " 5.1)\n"), 2U);
  EXPECT_EQ(findings("lib/a.cpp", "int x;  // see solve/" + std::string("gone.h\n")), 1U);
  EXPECT_EQ(findings("lib/a.cpp", "f(\"" + gone + "\");\n"), 0U);
  EXPECT_EQ(findings("lib/a.cpp", "// vLLM models/llama.py, and https://x.org/a.md; config.json\n"), 0U);
  EXPECT_EQ(findings("lib/a.cpp", "// made by tests/gone.py from tests/gone.json\n"), 2U);
  EXPECT_EQ(findings("README.md", "See `docs/" + gone + "`.\n"), 1U);
  EXPECT_EQ(findings("tests/a.py", "\"\"\"From " + gone + ".\n\nAnd " + gone + "\"\"\"\nx = '" + gone + "'\n"), 2U);
  EXPECT_EQ(findings("tests/a.sh", "# x.cpp of " + gone + "\ncat " + gone + "\n"), 1U);
}

TEST(ReferenceSample, Sections) {
  const SourceFile document = {"docs/notes.md", "# Notes\n## Gated attention\n"};
  const auto findings = [&](const char* text) { return cited_sections_exist({document, {"lib/a.cpp", text}}).size(); };
  EXPECT_EQ(findings("// (docs/notes.md, \"Gated attention\")\n"), 0U);
  EXPECT_EQ(findings("// (docs/notes.md, \"Gated\n// attention\")\n"), 0U);
  EXPECT_EQ(findings("// (docs/notes.md, \"Gated\")\n"), 1U);
  EXPECT_EQ(findings("// (docs/gone.md, \"Notes\")\n"), 1U);
}

TEST(ReferenceSample, Paths) {
  const auto findings = [](const char* path, const std::string& text) {
    return paths_stay_inside({path, text}).size();
  };
  const std::string up = std::string(".") + ".";  // put together here, so that this file keeps the rule
  EXPECT_EQ(findings("tests/unit/a.cpp", "path(KVCAL_SOURCE_DIR) / \"" + up + "/shared\";\n"), 1U);
  EXPECT_EQ(findings("tests/unit/a.cpp", "path(KVCAL_SOURCE_DIR \"/" + up + "/shared\");\n"), 1U);
  EXPECT_EQ(findings("tests/unit/a.cpp", "link(\"" + up + "/" + up + "/" + up + "/blobs\");\n"), 0U);
  EXPECT_EQ(findings("tests/loaders/run.sh", "L=${L:-$source/" + up + "/shared}\n"), 1U);
  EXPECT_EQ(findings("tests/loaders/run.sh", "cd \"$here/" + up + "/" + up + "\"\n"), 0U);
  EXPECT_EQ(findings("tests/loaders/run.sh", "cd \"$here/" + up + "/" + up + "/" + up + "\"\n"), 1U);
  EXPECT_EQ(findings(".ci/run", "cd \"$(dirname \"$0\")/" + up + "\"\n"), 0U);
  EXPECT_EQ(findings("lib/CMakeLists.txt", "include(${PROJECT_SOURCE_DIR}/" + up + "/x.cmake)\n"), 1U);
  EXPECT_EQ(findings("docs/a.md", "[a](" + up + "/README.md) [b](" + up + "/" + up + "/x.md)\n"), 1U);
  EXPECT_EQ(findings("README.md", "installed, in `" + up + "/lib/kvcal`\n"), 0U);
}

TEST(ReferenceSample, Skips) {
  EXPECT_EQ(skips_have_reasons({"tests/unit/a_test.cpp", "  if (x) GTEST_SKIP() << \"no\";\n"}).size(), 1U);
  EXPECT_EQ(skips_have_reasons({"tests/plugins/a.py", "    @unittest.skipUnless(x, 'no')\n"}).size(), 1U);
  EXPECT_TRUE(skips_have_reasons({"tests/cudnn/graph_test.cpp", "GTEST_SKIP();\n"}).empty());
  EXPECT_TRUE(skips_have_reasons({"tests/unit/a_test.cpp", "skip_spaces();\n"}).empty());
}

TEST(ReferenceSample, TypesDefinedTwice) {
  const auto findings = [](const std::string& one, const std::string& other) {
    return types_are_defined_once({{"lib/a/x.h", "namespace kvcal {\n" + one + "}\n"},
                                   {"lib/b/y.cpp", "namespace kvcal {\n" + other + "}\n"}})
        .size();
  };
  EXPECT_EQ(findings("struct Span { int a; };\n", "struct Span { long a; };\n"), 1U);
  EXPECT_EQ(findings("enum class Kind { A };\n", "class Kind final : public Base {};\n"), 1U);
  EXPECT_EQ(findings("template <class T>\nstruct Box {};\n", "template <typename T>\nclass Box {};\n"), 1U);
  EXPECT_EQ(findings("struct Span { int a; };\n", "struct Span;\nvoid f(struct Span& s) { g({1}); }\n"), 0U);
  EXPECT_EQ(findings("struct Span {};\n", "namespace {\nstruct Span {};\n}\n"), 0U);
  EXPECT_EQ(findings("struct Span {};\n", "namespace text {\nstruct Span {};\n}\n"), 0U);
  EXPECT_EQ(findings("namespace text {\nstruct Span {};\n}\n", "namespace text {\nstruct Span {};\n}\n"), 1U);
  EXPECT_EQ(findings("struct A { struct Impl {}; };\n", "struct B { struct Impl {}; };\nstruct A::Impl {};\n"), 0U);
  EXPECT_EQ(findings("struct A { struct Impl; };\n", "struct A::Impl {};\nstruct B::Impl {};\n"), 0U);
  EXPECT_EQ(findings("#define X {\nstruct Span {};\n", "// struct Span {\nvoid f() { struct Span {}; }\n"), 0U);
}

}  // namespace
}  // namespace kvcal::rules
