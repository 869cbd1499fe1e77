#include "fold/fold_record.h"

#include "artifact/json_text.h"
#include "checkpoint/fold_mark.h"

namespace kvcal {
namespace {

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

/// What the records of a model and of its adapters begin with.
Json record_head(const FoldRecord& record, const char* format) {
  return {{"format", format},
          {"version", "1.0"},
          {"tool_version", record.tool_version},
          {"model", to_json(record.original)},
          {"statistics_sha256", record.statistics_sha256},
          {"cache_format", record.format}};
}

Json tensors_json(const std::vector<TensorFold>& tensors) {
  Json json = Json::array();
  for (const TensorFold& tensor : tensors) json.push_back(tensor_json(tensor));
  return json;
}

}  // namespace

Json to_json(const FoldRecord& record) {
  Json json = record_head(record, kFoldFormat);
  json["sites"] = Json::array();
  for (const FoldedSite& site : record.plan.sites) json["sites"].push_back(site_json(site));
  json["tensors"] = tensors_json(record.plan.tensors);
  return json;
}

std::string record_text(const FoldRecord& record) { return json_text(to_json(record)); }

std::string adapter_record_text(const FoldRecord& of_model, const std::vector<TensorFold>& tensors) {
  Json json = record_head(of_model, kAdapterFoldFormat);
  json["tensors"] = tensors_json(tensors);
  return json_text(json);
}

}  // namespace kvcal
