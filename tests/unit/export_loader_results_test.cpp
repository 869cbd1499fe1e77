// The table of servers against what their own loading code did: every committed result of 'make test-loaders' that says
// what became of a scale tensor.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/json.h"
#include "export/server_support.h"

namespace kvcal {
namespace {

const std::filesystem::path kResults = std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/loaders/results";

/// "vllm 0.33.0" as --server takes it.
Server server_of(const Json& result) {
  std::string text = get_string(result, "server", "");
  text[text.find(' ')] = '@';
  return parse_server(text);
}

TEST(LoaderResults, ContradictTheTableNowhere) {
  const std::map<std::string, ScaleSpelling> spellings = {{"attention", ScaleSpelling::Attention},
                                                          {"projection", ScaleSpelling::Projection},
                                                          {"native", ScaleSpelling::Native}};
  int compared = 0;
  for (const auto& file : std::filesystem::directory_iterator(kResults)) {
    const Json json = read_json_file(file.path());
    for (const Json& result : *find_member(json, "results")) {
      if (!find_member(result, "effect")) continue;
      const std::string architecture = get_string(result, "architecture", "");
      const ServerSupport support = server_support(server_of(result), architecture, KvCarrier::CompressedTensors);
      const Effect claimed = effect_of(support, spellings.at(get_string(result, "spelling", "")), 'k');
      EXPECT_EQ(name_of(claimed), get_string(result, "effect", ""))
          << file.path().filename() << ": " << result.dump() << "; the table has it from " << support.source;
      ++compared;
    }
  }
  EXPECT_GE(compared, 40);
}

}  // namespace
}  // namespace kvcal
