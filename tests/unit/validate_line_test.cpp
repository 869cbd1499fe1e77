// A finding stands on the line of its member, also where the text writes names in other ways.
#include <gtest/gtest.h>

#include <algorithm>

#include "unit/solved_artifact.h"
#include "unit/validate_fixture.h"

namespace kvcal {
namespace {

TEST(Line, IsThatOfTheMember) {
  const std::string text = artifact_text(solved_artifact(sound_statistics(), solve_options()));
  const auto line_with = [&](const std::string& part) {
    const size_t at = text.find(part);
    return static_cast<size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n')) + 1;
  };
  std::string broken = text;
  const size_t at = broken.find("\"n_kv_layers\": 5");
  broken[at + 15] = '4';
  const Report report = validate_artifact(broken, shipped_schema());
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].line, line_with("\"n_kv_layers\""));
  std::string renamed = text;
  renamed.replace(renamed.find("\"isa\""), 5, "\"i\\u0073b\"");
  for (const Finding& f : validate_artifact(renamed, shipped_schema()).findings)
    EXPECT_EQ(f.line, line_with(f.rule == "A03" ? "\"isa\"" : "\"calibration\"")) << f.path;
}

}  // namespace
}  // namespace kvcal
