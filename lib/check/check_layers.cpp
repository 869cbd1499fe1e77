// Layers, heads and the server's block of a document whose types are right.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "check/artifact_checks.h"

namespace kvcal {
namespace {

std::string at(const char* list, size_t i, const char* member) {
  return std::string(list) + "[" + std::to_string(i) + "]." + member;
}

/// Ascending, and each layer once, in one list or the other.
void check_indexes(const Json& document, std::map<int64_t, std::string>& seen, Report& report) {
  for (const char* list : {"layers", "layers_without_kv"}) {
    int64_t before = -1;
    for (size_t i = 0; i < document[list].size(); ++i) {
      const int64_t index = get_int(document[list][i], "index");
      const std::string path = at(list, i, "index");
      const auto [there, added] = seen.emplace(index, path);
      if (!added)
        report.add("L01", path, "layer " + std::to_string(index), "once", "also at " + there->second);
      else if (index < before)
        report.add("L02", path, "the order of layers", "more than " + std::to_string(before), std::to_string(index));
      before = std::max(before, index);
    }
  }
}

void check_complete(const Json& document, const std::map<int64_t, std::string>& seen, Report& report) {
  constexpr int64_t kListed = 8;
  const int64_t n_layers = get_int(document["model"], "n_layers", "model.");
  for (const auto& [index, path] : seen)
    if (index >= n_layers)
      report.add("L03", path, "the layer's index", "less than the model's " + std::to_string(n_layers) + " layers",
                 std::to_string(index));
  std::string missing;
  int64_t n_missing = n_layers;
  for (const auto& [index, path] : seen) n_missing -= index < n_layers;
  if (n_missing <= 0) return;
  int64_t listed = 0;
  for (int64_t i = 0; i < n_layers && listed < std::min(kListed, n_missing); ++i)
    if (!seen.contains(i)) missing += (listed++ ? ", " : "") + std::to_string(i);
  report.add("L03", "layers", "layers with or without a cache", "each of 0 to " + std::to_string(n_layers - 1),
             missing + (listed < n_missing ? ", ..." : "") + " missing");
}

void check_count(const Json& document, Report& report) {
  const int64_t expected = static_cast<int64_t>(document["layers"].size());
  if (const int64_t n = get_int(document["model"], "n_kv_layers"); n != expected)
    report.add("L04", "model.n_kv_layers", "the number of layers with scales", std::to_string(expected),
               std::to_string(n));
}

/// A layer without scales that reads another's cache reads it with that layer's scales.
void check_sharing(const Json& document, Report& report) {
  std::set<int64_t> owners;
  for (const Json& layer : document["layers"]) owners.insert(get_int(layer, "index"));
  for (size_t i = 0; i < document["layers_without_kv"].size(); ++i) {
    const Json& layer = document["layers_without_kv"][i];
    if (!find_member(layer, "shares_kv_with")) continue;
    const int64_t owner = get_int(layer, "shares_kv_with");
    if (!owners.contains(owner) || owner >= get_int(layer, "index"))
      report.add("L06", at("layers_without_kv", i, "shares_kv_with"), "the layer whose cache it uses",
                 "an earlier one with scales", std::to_string(owner));
  }
}

void check_names(const Json& document, Report& report) {
  const std::string prefix = get_string(document["model"], "tensor_prefix");
  for (size_t i = 0; i < document["layers"].size(); ++i) {
    const Json& layer = document["layers"][i];
    const std::string expected = prefix + "layers." + std::to_string(get_int(layer, "index")) + ".";
    if (const std::string name = get_string(layer, "name"); !name.starts_with(expected))
      report.add("L05", at("layers", i, "name"), "the layer's module", quoted(expected + "..."), quoted(name));
  }
}

/// Scales that a granularity adds to those of sites: there with it, absent with others, and of the right number.
struct FinerScales {
  std::string member;
  const char* each;  // "head"
  bool expected = false;
  size_t n = 0;
};

void check_finer(const Json& site, const std::string& path, const FinerScales& finer, const std::string& granularity,
                 Report& report) {
  const Json* scales = find_member(site, finer.member.c_str());
  if ((scales != nullptr) != finer.expected)
    report.add("R06", scales ? path + "." + finer.member : path, finer.member,
               (finer.expected ? "present" : "absent") + std::string(", as quantization.granularity is ") + granularity,
               scales ? "there" : "absent");
  else if (scales && scales->size() != finer.n)
    report.add("S17", path + "." + finer.member, "the number of scales",
               std::to_string(finer.n) + ", one per " + finer.each, std::to_string(scales->size()));
}

void check_magnitudes(const Json& site, const std::string& path, size_t n_heads, Report& report) {
  if (const size_t n = site["absmax_per_head"].size(); n != n_heads)
    report.add("R05", path + ".absmax_per_head", "the number of magnitudes", std::to_string(n_heads) + ", one per head",
               std::to_string(n));
}

const std::vector<const char*> kOfGqa = {"key", "value", "query"}, kOfMla = {"latent", "query"};

bool is_mla(const Json& layer) { return layer["kind"] == "mla"; }

/// The values of an MLA row are its first columns, and its rope part the others.
void check_row(const Json& layer, const std::string& path, Report& report) {
  const int64_t row = get_int(layer, "head_dim_k"), values = get_int(layer, "head_dim_v");
  if (values >= row)
    report.add("R12", path, "the width of the latent part", "less than that of the row, " + std::to_string(row),
               std::to_string(values));
}

void check_heads(const Json& document, const char* list, Report& report) {
  const auto granularity = document["quantization"]["granularity"].get<std::string>();
  for (size_t i = 0; i < document[list].size(); ++i) {
    const Json& layer = document[list][i];
    if (is_mla(layer)) check_row(layer, at(list, i, "head_dim_v"), report);
    for (const char* site : is_mla(layer) ? kOfMla : kOfGqa) {
      const std::string path = at(list, i, site);
      const std::string_view name = site;
      const int64_t n = get_int(layer, name == "query" ? "n_heads" : "n_kv_heads");
      const int64_t width = get_int(layer, name == "value" ? "head_dim_v" : "head_dim_k");
      const bool has_channels = granularity == "channel" && (name == "key" || name == "value");
      check_magnitudes(layer[site], path, static_cast<size_t>(n), report);
      check_finer(layer[site], path, {"scale_per_head", "head", granularity == "head", static_cast<size_t>(n)},
                  granularity, report);
      check_finer(layer[site], path, {"scale_per_channel", "channel", has_channels, static_cast<size_t>(n * width)},
                  granularity, report);
    }
  }
}

/// Behind the model's layers, as many as the model is said to have.
void check_mtp_layers(const Json& document, Report& report) {
  const Json* layers = find_member(document, "mtp_layers");
  const Json* counted = find_member(document["model"], "n_mtp_layers");
  const int64_t n = layers ? std::ssize(*layers) : 0, n_layers = get_int(document["model"], "n_layers", "model.");
  if (const int64_t said = counted ? counted->get<int64_t>() : 0; said != n)
    report.add("L04", "model.n_mtp_layers", "the number of MTP layers with scales", std::to_string(n),
               std::to_string(said));
  for (int64_t i = 0; i < n; ++i)
    if (const int64_t index = get_int((*layers)[static_cast<size_t>(i)], "index"); index != n_layers + i)
      report.add("L03", at("mtp_layers", static_cast<size_t>(i), "index"), "the index of an MTP layer",
                 std::to_string(n_layers + i) + ", after the model's layers", std::to_string(index));
  if (layers) check_heads(document, "mtp_layers", report);
}

void check_server_block(const Json& document, Report& report) {
  const Json* block = find_member(document, "kv_cache");
  if (!block) return;
  const Json& scales = (*block)["scaling_factor"]["0"];
  const std::string path = "kv_cache.scaling_factor.0";
  if (document["quantization"]["dtype"] != "fp8_e4m3")
    report.add("R10", "kv_cache", "the number format of the block", "fp8_e4m3",
               quoted(document["quantization"]["dtype"].get<std::string>()));
  if (std::ranges::any_of(document["layers"], is_mla))
    return report.add("R10", "kv_cache", "the kv_cache block of a file with MLA caches",
                      "none, as no server can use it", "there");
  std::map<std::string, double> expected;
  for (const Json& layer : document["layers_without_kv"]) expected[layer["index"].dump()] = 1.0;
  for (const Json& layer : document["layers"]) expected[layer["index"].dump()] = layer["joint"]["scale"].get<double>();
  for (const Json& layer : document["layers_without_kv"])
    if (const Json* owner = find_member(layer, "shares_kv_with"))
      if (const auto found = expected.find(owner->dump()); found != expected.end())
        expected[layer["index"].dump()] = found->second;
  for (const auto& [layer, scale] : expected)
    if (const Json* there = find_member(scales, layer); !there)
      report.add("R10", path, "the scale of layer " + layer, number_text(scale), "none");
    else if (static_cast<float>(there->get<double>()) != static_cast<float>(scale))
      report.add("R10", path + "." + layer, "the scale of layer " + layer, number_text(scale),
                 number_text(there->get<double>()));
  for (const auto& [layer, scale] : scales.items())
    if (!expected.contains(layer)) report.add("R10", path + "." + layer, "layer " + quoted(layer), "no such layer");
}

}  // namespace

void check_layers(const Json& document, Report& report) {
  report.evaluated({"L01", "L02", "L03", "L04", "L05", "L06", "R05", "R06", "R10", "R12", "S17"});
  std::map<int64_t, std::string> seen;
  check_indexes(document, seen, report);
  check_complete(document, seen, report);
  check_count(document, report);
  check_sharing(document, report);
  check_names(document, report);
  check_heads(document, "layers", report);
  check_mtp_layers(document, report);
  check_server_block(document, report);
}

}  // namespace kvcal
