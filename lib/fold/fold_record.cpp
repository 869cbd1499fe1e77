#include "fold/fold_record.h"

#include <algorithm>

#include "artifact/json_text.h"
#include "base/error.h"
#include "checkpoint/fold_mark.h"

namespace kvcal {
namespace {

constexpr int64_t kMostLines = int64_t{1} << 24;  // of one tensor
constexpr int kMostExponent = 4096;

/// Lines with a factor: [first, count] of each run, and its exponent.
Json tensor_json(const TensorFold& t) {
  Json runs = Json::array(), exponents = Json::array();
  for (size_t i = 0; i < t.exponents.size();) {
    size_t end = i + 1;
    while (end < t.exponents.size() && t.exponents[end] == t.exponents[i]) ++end;
    if (t.exponents[i] != 0) {
      Json run = Json::array();
      run.push_back(i);
      run.push_back(end - i);
      runs.push_back(std::move(run));
      exponents.push_back(t.exponents[i]);
    }
    i = end;
  }
  Json json = {{"name", t.name}, {"lines", t.exponents.size()}};
  json[t.axis == Axis::Rows ? "rows" : "columns"] = std::move(runs);
  json["exponents"] = std::move(exponents);
  if (t.one_plus) json["one_plus"] = true;
  return json;
}

/// One number where all are equal; one for each head where those of a head are; else one for each channel.
std::vector<int> shortest(const std::vector<int>& exponents, Balance balance, int64_t heads) {
  if (balance == Balance::Channel) return exponents;
  const size_t n = balance == Balance::Tensor ? 1 : static_cast<size_t>(heads);
  std::vector<int> few;
  for (size_t i = 0; i < n; ++i) few.push_back(exponents[i * exponents.size() / n]);
  return few;
}

Json site_json(const FoldedSite& site) {
  Json json = {{"layer", site.layer}, {"site", name_of(site.site)}, {"balance", name_of(site.balance)}};
  json["exponents"] = shortest(site.exponents, site.balance, site.n_heads);
  json["left_to_scales"] = site.left_to_scales;
  json["why"] = site.why;
  return json;
}

int64_t count_in(const Json& json, int64_t most, const char* what) {
  if (!json.is_number_integer() || json.get<int64_t>() < 0 || json.get<int64_t>() > most)
    fail(std::string(what) + " is no whole number from 0 to " + std::to_string(most));
  return json.get<int64_t>();
}

TensorFold tensor_from(const Json& json) {
  if (!json.is_object()) fail("an entry of 'tensors' is not an object");
  TensorFold fold{get_string(json, "name"), Axis::Rows, {}, false};
  const Json* runs = find_member(json, "rows");
  if (!runs) {
    fold.axis = Axis::Columns;
    runs = find_member(json, "columns");
  }
  const Json *exponents = find_member(json, "exponents"), *lines = find_member(json, "lines");
  if (!runs || !runs->is_array() || !exponents || !exponents->is_array() || exponents->size() != runs->size() || !lines)
    fail(quoted(fold.name) + " has no 'lines', no 'rows' or 'columns', or not as many 'exponents'");
  if (const Json* one_plus = find_member(json, "one_plus")) {
    if (!one_plus->is_boolean()) fail(quoted(fold.name) + ": 'one_plus' is neither true nor false");
    fold.one_plus = one_plus->get<bool>();
  }
  const int64_t n = count_in(*lines, kMostLines, "'lines'");
  fold.exponents.assign(static_cast<size_t>(n), 0);
  for (size_t i = 0; i < runs->size(); ++i) {
    const Json& run = (*runs)[i];
    const Json& exponent = (*exponents)[i];
    if (!run.is_array() || run.size() != 2) fail(quoted(fold.name) + ": a run is not [first, count]");
    const int64_t first = count_in(run[0], n, "the first line of a run");
    const int64_t count = count_in(run[1], n - first, "the length of a run");
    if (!exponent.is_number_integer() || exponent.get<int64_t>() < -kMostExponent ||
        exponent.get<int64_t>() > kMostExponent)
      fail(quoted(fold.name) + ": an exponent is no small whole number");
    std::fill_n(fold.exponents.begin() + first, count, static_cast<int>(exponent.get<int64_t>()));
  }
  return fold;
}

}  // namespace

Json to_json(const FoldRecord& record) {
  Json json = {{"format", kFoldFormat},
               {"version", "1.0"},
               {"tool_version", record.tool_version},
               {"model", to_json(record.original)},
               {"statistics_sha256", record.statistics_sha256},
               {"cache_format", record.format}};
  json["sites"] = Json::array();
  for (const FoldedSite& site : record.plan.sites) json["sites"].push_back(site_json(site));
  json["tensors"] = Json::array();
  for (const TensorFold& tensor : record.plan.tensors) json["tensors"].push_back(tensor_json(tensor));
  return json;
}

std::string record_text(const FoldRecord& record) { return json_text(to_json(record)); }

std::vector<TensorFold> folded_tensors(const Json& record) {
  const Json* tensors = find_member(record, "tensors");
  if (!tensors || !tensors->is_array() || tensors->empty()) fail("has no list 'tensors'");
  std::vector<TensorFold> folds;
  for (const Json& tensor : *tensors) folds.push_back(tensor_from(tensor));
  return folds;
}

}  // namespace kvcal
