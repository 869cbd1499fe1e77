// The documents against their rules, and each rule against samples that break it.
#include "rules/documents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "rules/whole_tree.h"

namespace kvcal::rules {
namespace {

TEST(Documents, ReadmeIsShort) { expect_none(readme_is_short(tree())); }
TEST(Documents, LinksLeadSomewhere) { expect_none(links_lead_somewhere(tree())); }
TEST(Documents, AreLinked) { expect_none(documents_are_linked(tree())); }

TEST(Documents, WereRead) {
  EXPECT_TRUE(std::ranges::any_of(tree(), [](const SourceFile& f) { return f.path == "docs/models.md"; }));
}

// ------------------------------------------------------------------ samples

TEST(DocumentSample, Words) {
  const auto words = [](int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += i % 10 == 0 ? "word\n" : "word ";
    return text;
  };
  EXPECT_TRUE(readme_is_short({{"README.md", words(1500)}}).empty());
  EXPECT_EQ(readme_is_short({{"README.md", words(1501)}}).size(), 1U);
  EXPECT_EQ(readme_is_short({}).size(), 1U);
}

TEST(DocumentSample, Anchors) {
  EXPECT_EQ(anchors_of("# A `b` c_d\n## Is it worth it?\n```\n# code\n```\n## A `b` c_d\n#no\n"),
            (std::vector<std::string>{"a-b-c_d", "is-it-worth-it", "a-b-c_d-1"}));
}

TEST(DocumentSample, Links) {
  const auto findings = [](const char* path, const char* text) {
    return links_lead_somewhere({{path, text}, {"docs/ci.md", "# CI\n## A plain shell\n"}, {"apps/a.cpp", ""}}).size();
  };
  EXPECT_EQ(findings("README.md", "[a](docs/ci.md) [b](docs/ci.md#a-plain-shell) [c](apps) [d](https://x.org/y)\n"),
            0U);
  EXPECT_EQ(findings("README.md", "# Top\n[a](#top) `[b](gone.md)`\n    [c](gone.md)\n```\n[d](gone.md)\n```\n"), 0U);
  EXPECT_EQ(findings("README.md", "[a](docs/gone.md)\n"), 1U);
  EXPECT_EQ(findings("README.md", "[a](docs/ci.md#gone)\n[b](#gone)\n[c](apps#a)\n"), 3U);
  EXPECT_EQ(findings("docs/x.md", "[a](ci.md) [b](../apps/a.cpp) [c](../apps/)\n"), 0U);
  EXPECT_EQ(findings("docs/x.md", "[a](docs/ci.md) [b](../../ci.md)\n"), 2U);
}

TEST(DocumentSample, UnlinkedDocument) {
  const SourceFile document = {"docs/ci.md", ""};
  EXPECT_TRUE(documents_are_linked({{"README.md", "[CI](docs/ci.md)\n"}, document}).empty());
  EXPECT_TRUE(documents_are_linked({{"README.md", "[x](docs/x.md)"}, {"docs/x.md", "[CI](ci.md)"}, document}).empty());
  EXPECT_EQ(documents_are_linked({{"README.md", "docs/ci.md\n"}, document}).size(), 1U);
  EXPECT_EQ(documents_are_linked({{"README.md", ""}, {"CONTRIBUTING.md", "[a](docs/ci.md)"}, document}).size(), 1U);
}

}  // namespace
}  // namespace kvcal::rules
