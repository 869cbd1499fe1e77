// The table of servers against what their own loading code did: the committed results of 'make test-loaders'.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "base/json.h"
#include "servers/server_table.h"

namespace kvcal {
namespace {

const std::filesystem::path kResults = std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/loaders/results";

/// "vllm 0.33.0" as --server takes it.
Server server_of(const Json& result) {
  std::string text = get_string(result, "server", "");
  text[text.find(' ')] = '@';
  return parse_server(text);
}

KvCarrier carrier_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(KvCarrier::Other); ++i)
    if (name == name_of(static_cast<KvCarrier>(i))) return static_cast<KvCarrier>(i);
  return KvCarrier::Other;
}

ScaleSpelling spelling_named(const std::string& name) {
  const std::map<std::string, ScaleSpelling> spellings = {{"attention", ScaleSpelling::Attention},
                                                          {"projection", ScaleSpelling::Projection},
                                                          {"native", ScaleSpelling::Native},
                                                          {"output", ScaleSpelling::Output}};
  return spellings.at(name);
}

bool is_of_mtp(const Json& result) { return get_string(result, "case", "").starts_with("mtp/"); }

ServerSupport support_of(const Json& result) {
  return (is_of_mtp(result) ? mtp_support : server_support)(server_of(result), get_string(result, "architecture", ""),
                                                            carrier_named(get_string(result, "carrier", "")));
}

/// What the table says becomes of the key scales of a case.
Effect claimed(const Json& result, const ServerSupport& support) {
  const bool with_query = find_member(result, "with_query") != nullptr;
  if (with_query && stops(support.query)) return support.query;
  const Effect effect = effect_of(support, spelling_named(get_string(result, "spelling", "")), 'k');
  // An export's values are exact in bf16 where the server keeps them so.
  const bool exported = get_string(result, "case", "").starts_with("export/");
  return exported && effect == Effect::Rounded ? Effect::Exact : effect;
}

std::vector<std::pair<std::string, Json>> results_with(const char* member) {
  std::vector<std::pair<std::string, Json>> found;
  for (const auto& file : std::filesystem::directory_iterator(kResults)) {
    const Json json = read_json_file(file.path());
    for (const Json& result : *find_member(json, "results"))
      if (find_member(result, member)) found.emplace_back(file.path().filename(), result);
  }
  return found;
}

TEST(LoaderResults, ContradictTheTableNowhere) {
  const auto results = results_with("effect");
  for (const auto& [file, result] : results) {
    const ServerSupport support = support_of(result);
    EXPECT_EQ(name_of(claimed(result, support)), get_string(result, "effect", ""))
        << file << ": " << result.dump() << "; the table has it from " << support.source;
  }
  EXPECT_GE(results.size(), 150u);
}

/// Of every class of each server: its export was loaded as it was meant, or the table says that nothing is.
TEST(LoaderResults, AreAsWanted) {
  for (const auto& [file, result] : results_with("verdict"))
    EXPECT_FALSE(find_member(result, "as_wanted")) << file << ": " << result.dump();
}

TEST(LoaderResults, AreCalledRunByTheTable) {
  std::set<std::pair<ServerKind, std::string>> executed;
  for (const auto& [file, result] : results_with("effect"))
    if (!is_of_mtp(result)) executed.emplace(server_of(result).kind, get_string(result, "architecture", ""));
  for (const ServerKind kind : {ServerKind::Vllm, ServerKind::Sglang})
    for (const ClassLine& line : class_lines())
      EXPECT_TRUE(line.by(kind).source == kRun || !executed.contains({kind, std::string(line.architecture)}))
          << str(verified_server(kind)) << " " << line.architecture;
}

/// What kvcal refuses to export is what the table says does not load.
TEST(LoaderResults, AreRefusedWhereNothingLoads) {
  int refused = 0;
  for (const auto& [file, result] : results_with("verdict")) {
    if (get_string(result, "verdict", "") != "not exported" || !find_member(result, "carrier")) continue;
    EXPECT_FALSE(support_of(result).loads) << file << ": " << result.dump();
    ++refused;
  }
  EXPECT_GE(refused, 20);
}

}  // namespace
}  // namespace kvcal
