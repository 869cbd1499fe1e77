#include "verdicts/case_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <tuple>
#include <utility>

#include "base/sha256.h"
#include "tensor/dtype.h"

namespace kvcal {
namespace {

constexpr int64_t kTokens = 256;  // of the vocabulary, and the hidden size
constexpr std::array kNames = {"q", "k", "v", "o", "row", "gain", "kvb", "sinks"};  // in the order of their streams
constexpr uint64_t kFirstPromptStream = 32;

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// Output i of a stream of splitmix64.
class Stream {
 public:
  Stream(uint64_t seed, uint64_t index) : base_(mix(seed * 64 + index)) {}
  uint64_t at(uint64_t i) const { return mix(base_ + (i + 1) * 0x9E3779B97F4A7C15u); }

 private:
  uint64_t base_;
};

/// A sum of 12 uniform numbers of 21 bits around 0: exact.
double normal(const Stream& stream, uint64_t i) {
  constexpr int64_t kLargest = (1 << 21) - 1;
  int64_t sum = 0;
  for (uint64_t word = 4 * i; word < 4 * i + 4; ++word)
    for (const int shift : {0, 21, 42}) sum += static_cast<int64_t>(stream.at(word) >> shift) & kLargest;
  return static_cast<double>(2 * sum - 12 * kLargest) / (1 << 22);
}

double draw(const Stream& stream, uint64_t i, const std::string& kind) {
  const double x = normal(stream, i);
  if (kind == "normal") return x;
  if (kind == "cubed") return x * x * x;
  if (kind == "signs") return x < 0 ? -1 : 1;
  fail("unknown kind " + kind);
}

/// "rows" or "columns" of an edit: [first, behind the last], an index, or absent for all n.
std::pair<int64_t, int64_t> span_of(const Json& edit, const char* key, int64_t n) {
  if (!edit.contains(key)) return {0, n};
  const Json& span = edit[key];
  if (span.is_array()) return {span[0].get<int64_t>(), span[1].get<int64_t>()};
  return {span.get<int64_t>(), span.get<int64_t>() + 1};
}

double edited(const std::string& operation, double x, double value) {
  if (operation == "set") return value;
  if (operation == "times") return x * value;
  if (operation == "add") return x + value;
  if (operation == "magnitude") return std::copysign(value, x);
  fail("unknown edit " + operation);
}

void apply(const Json& edit, const CaseTable& shape, std::vector<double>& values) {
  const auto [row0, row1] = span_of(edit, "rows", shape.rows);
  const auto [column0, column1] = span_of(edit, "columns", shape.columns);
  for (const auto& member : edit.items()) {
    if (member.key() == "rows" || member.key() == "columns") continue;
    for (int64_t r = row0; r < row1; ++r)
      for (int64_t c = column0; c < column1; ++c) {
        double& x = values[static_cast<size_t>(r * shape.columns + c)];
        x = edited(member.key(), x, member.value().get<double>());
      }
  }
}

CaseTable make_table(const Stream& stream, int64_t rows, int64_t columns, const Json& recipe) {
  CaseTable table{rows, columns, {}};
  const double sigma = get_number(recipe, "sigma");
  const std::string kind = get_string_or(recipe, "kind", "normal");
  std::vector<double> values(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < values.size(); ++i) values[i] = draw(stream, i, kind) * sigma;
  if (const Json* edits = find_member(recipe, "edits"))
    for (const Json& edit : *edits) apply(edit, table, values);
  for (const double x : values) table.codes.push_back(to_bf16(static_cast<float>(x)).bits);
  return table;
}

/// Rows and columns of the tables that a case has.
std::map<std::string, std::pair<int64_t, int64_t>> shapes_of(const Json& c) {
  const int64_t heads = get_int(c, "heads");
  if (c.contains("rank")) {
    const int64_t rank = get_int(c, "rank"), nope = get_int(c, "nope"), turned = get_int(c, "turned"),
                  value = get_int(c, "value");
    return {{"q", {kTokens, heads * (nope + turned)}},
            {"row", {kTokens, rank + turned}},
            {"gain", {1, rank}},
            {"kvb", {heads * (nope + value), rank}},
            {"o", {kTokens, heads * value}}};
  }
  const int64_t dim = get_int(c, "head_dim"), kv = get_int(c, "kv_heads");
  std::map<std::string, std::pair<int64_t, int64_t>> shapes = {{"q", {kTokens, heads * dim}},
                                                               {"k", {kTokens, kv * dim}},
                                                               {"v", {kTokens, kv * dim}},
                                                               {"o", {kTokens, heads * dim}}};
  if (get_string(c, "class") == "sinks") shapes["sinks"] = {1, heads};
  return shapes;
}

std::vector<int32_t> ids_of(const Stream& stream, const Json& prompt) {
  int64_t first = 1, behind = kTokens;
  if (prompt.contains("tokens")) std::tie(first, behind) = span_of(prompt, "tokens", kTokens);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < get_int(prompt, "length"); ++i) {
    const auto word = static_cast<int64_t>(stream.at(static_cast<uint64_t>(i)) >> 32);
    ids.push_back(static_cast<int32_t>(first + word % (behind - first)));
  }
  if (const Json* puts = find_member(prompt, "put"))
    for (const Json& put : *puts) ids[put[0].get<size_t>()] = put[1].get<int32_t>();
  return ids;
}

}  // namespace

CaseTables build_tables(const Json& the_case) {
  const auto seed = static_cast<uint64_t>(get_int(the_case, "seed"));
  CaseTables tables;
  for (const auto& [name, shape] : shapes_of(the_case)) {
    const auto index = std::find(kNames.begin(), kNames.end(), name) - kNames.begin();
    const Stream stream(seed, static_cast<uint64_t>(index));
    tables[name] = make_table(stream, shape.first, shape.second, the_case["tables"][name]);
  }
  return tables;
}

std::string fingerprint(const CaseTables& tables) {
  Sha256 sha;
  for (const char* name : kNames)
    if (const auto found = tables.find(name); found != tables.end())
      sha.update(std::as_bytes(std::span(found->second.codes)));
  return sha.hex();
}

std::vector<PromptTokens> prompts_of_case(const Json& the_case) {
  const auto seed = static_cast<uint64_t>(get_int(the_case, "seed"));
  std::vector<PromptTokens> prompts;
  for (const Json& prompt : the_case["prompts"]) {
    const size_t i = prompts.size();
    prompts.push_back({"p" + std::to_string(i), ids_of(Stream(seed, kFirstPromptStream + i), prompt), 1});
  }
  return prompts;
}

}  // namespace kvcal
