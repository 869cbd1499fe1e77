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

TEST(Documents, InstallersAreGivenFiles) { expect_none(installers_are_given_files(tree())); }

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

TEST(DocumentSample, InstallersByName) {
  const auto findings = [](const std::string& line) {
    return installers_are_given_files({{"docs/a.md", "First\n" + line + "\n"}}).size();
  };
  for (const char* line :
       {"pip install kvcal", "    - pip install -q kvcal", "with 'pip install kvcal'.", "`pip install kvcal` is all",
        "uvx kvcal doctor x", "pip install 'kvcal[torch]'", "pip3 install --upgrade kvcal==0.1.0 && kvcal",
        "python3 -m pip install \"kvcal>=0.1\"", "pip install kvcal-cuda13", "pip install kvcal # the program",
        "uvx --from kvcal kvcal-torch", "pipx install kvcal", "uv add kvcal", "uv tool install kvcal",
        ". venv/bin/activate && pip install -q kvcal", "additional_dependencies: [kvcal==0.1.0]", "    default: kvcal",
        "\"pip install kvcal (or its part)\"", "RUN pip install vllm kvcal"})
    EXPECT_EQ(findings(line), 1U) << line;
  for (const char* line :
       {"pip install build/dist/kvcal-0.1.0-py3-none-any.whl", "pip install './kvcal-0.1.0-py3-none-any.whl[torch]'",
        "uvx --from build/dist/kvcal-0.1.0-py3-none-any.whl kvcal doctor ./model", "RUN pip install /tmp/kvcal-*.whl",
        "pip install -q \"$KVCAL_WHEEL\"", "pip install -q huggingface_hub && kvcal calibrate x",
        "`pip install nvidia-cublas`; kvcal finds it",
        "additional_dependencies: ['kvcal @ file:///path/kvcal-0.1.0-py3-none-any.whl']", "pip install ./apps/plugins",
        "pip install torch    # then kvcal"})
    EXPECT_EQ(findings(line), 0U) << line;
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
