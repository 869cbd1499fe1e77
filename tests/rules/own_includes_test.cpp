// Files include what they name: the tree, and samples that do not.
#include "rules/own_includes.h"

#include "rules/whole_tree.h"

namespace kvcal::rules {
namespace {

TEST(OwnIncludes, Tree) { expect_none(own_includes(tree())); }

TEST(OwnIncludes, WhatIsNamedIsIncluded) {
  const auto findings = [](const char* path, const std::string& text) {
    const SourceFile header = {"lib/base/rows.h", "#include <vector>\n"},
                     other = {"apps/verb.h", "#include \"base/rows.h\"\n"};
    return own_includes({header, other, {path, text}}).size();
  };
  EXPECT_EQ(findings("lib/a/b.cpp", "std::vector<int> x;\n"), 1U);
  EXPECT_EQ(findings("lib/a/b.h", "std::vector<int> x;\n"), 1U);
  EXPECT_EQ(findings("lib/a/b.cpp", "#include <vector>\nstd::vector<int> x;\n"), 0U);
  EXPECT_EQ(findings("lib/a/b.cpp", "#include \"base/rows.h\"\nstd::vector<int> x;\n"), 0U);
  EXPECT_EQ(findings("apps/b.cpp", "#include \"verb.h\"\nstd::vector<int> x;\n"), 0U);
  EXPECT_EQ(findings("apps/b.cpp", "#include \"verb.h\"\nnlohmann::json x; std::sort(a, b); std::sqrt(2.0);\n"), 3U);
  EXPECT_EQ(findings("lib/a/b.cpp", "// std::vector\nf(\"std::vector\"); my::vector y;\n"), 0U);
  EXPECT_EQ(findings("tests/a.cpp", "std::vector<int> x;\n"),
            0U);  // tests are compiled with gtest's headers everywhere
}

}  // namespace
}  // namespace kvcal::rules
