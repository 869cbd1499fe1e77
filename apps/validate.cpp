// kvcal validate FILE: is this a scale file, by its schema and by what its numbers must satisfy?
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <vector>

#include "artifact/artifact.h"
#include "artifact/json_text.h"
#include "artifact/schema_check.h"
#include "base/read_file.h"
#include "shipped_files.h"
#include "solve/format.h"
#include "verbs.h"

namespace kvcal {
namespace {

struct ValidateFlags {
  std::string file;
  bool json = false;
};

constexpr size_t kSchemaBytes = size_t{1} << 20;

using Findings = std::vector<SchemaError>;

std::string text_of(double x) { return json_number(static_cast<float>(x)).dump(); }

void check_counts(const ArtifactSite& site, size_t n_heads, Granularity granularity, const std::string& path,
                  Findings& findings) {
  const auto expect = [&](const char* key, size_t n, size_t expected) {
    if (n != expected)
      findings.push_back(
          {path + "." + key, "has " + std::to_string(n) + " entries, expected " + std::to_string(expected)});
  };
  expect("absmax_per_head", site.absmax_per_head.size(), n_heads);
  expect("scale_per_head", site.scale_per_head.size(), granularity == Granularity::Head ? n_heads : 0);
}

// A scale that somebody changed by hand, or put at another site, no longer fits what was measured there.
void check_scale(const ArtifactSite& site, const ArtifactQuantization& q, const std::string& path, Findings& findings) {
  if (!site.absmax_per_head.empty()) {
    const float largest = *std::max_element(site.absmax_per_head.begin(), site.absmax_per_head.end());
    if (largest != site.absmax)
      findings.push_back({path + ".absmax", "is " + text_of(site.absmax) + ", but the largest of absmax_per_head is " +
                                                text_of(largest)});
  }
  if (!q.headroom) return;  // such a policy may clip
  const double range =
      site.uses_envelope.value_or(false) ? std::max(site.absmax, site.envelope.value_or(0.0F)) : site.absmax;
  // The envelope is stored as a float32; a power of two is at most twice the scale that absmax would take.
  const double tight = range * *q.headroom / q.max, slack = 1e-5, most = q.policy == "pow2" ? 2.0 : 1.0;
  if (site.scale < tight * (1 - slack) || site.scale > tight * most * (1 + slack))
    findings.push_back({path + ".scale", "is " + text_of(site.scale) + ", but range, headroom and maximum give " +
                                             text_of(tight) + (most > 1 ? " to " + text_of(tight * most) : "")});
}

void check_layer(const ArtifactLayer& l, const ArtifactQuantization& q, const std::string& path, Findings& findings) {
  struct Site {
    const char* name;
    const ArtifactSite& site;
    int64_t n_heads;
  };
  for (const Site& s :
       {Site{".key", l.key, l.n_kv_heads}, {".value", l.value, l.n_kv_heads}, {".query", l.query, l.n_heads}}) {
    check_counts(s.site, static_cast<size_t>(s.n_heads), q.granularity, path + s.name, findings);
    check_scale(s.site, q, path + s.name, findings);
  }
  if (const float larger = std::max(l.key.scale, l.value.scale); l.joint.scale != larger)
    findings.push_back({path + ".joint.scale",
                        "is " + text_of(l.joint.scale) + ", expected the larger of key and value, " + text_of(larger)});
}

// Every layer of the model once, with a cache or without; the server's block says the same.
void check_coverage(const Artifact& a, Findings& findings) {
  const int64_t n_layers = get_int(a.model, "n_layers", "model.");
  std::vector<int64_t> indexes;
  for (const ArtifactLayer& l : a.layers) indexes.push_back(l.index);
  for (const Json& l : a.layers_without_kv) indexes.push_back(get_int(l, "index", "layers_without_kv[]."));
  std::sort(indexes.begin(), indexes.end());
  bool all = static_cast<int64_t>(indexes.size()) == n_layers;
  for (size_t i = 0; i < indexes.size(); ++i) all = all && indexes[i] == static_cast<int64_t>(i);
  if (!all)
    findings.push_back({"layers", "and layers_without_kv do not have each of the model's " + std::to_string(n_layers) +
                                      " layers once"});
  const int64_t n_kv_layers = get_int(a.model, "n_kv_layers", "model.");
  if (n_kv_layers != static_cast<int64_t>(a.layers.size()))
    findings.push_back({"model.n_kv_layers", "is " + std::to_string(n_kv_layers) + ", but there are " +
                                                 std::to_string(a.layers.size()) + " layers with scales"});
  if (a.kv_cache.empty() || !all) return;
  std::vector<float> expected(static_cast<size_t>(n_layers), 1.0F);
  for (const ArtifactLayer& l : a.layers) expected[static_cast<size_t>(l.index)] = l.joint.scale;
  if (a.kv_cache != expected)
    findings.push_back(
        {"kv_cache.scaling_factor", "differs from the joint scales of the layers, and 1.0 for the others"});
}

// What the schema cannot say: that the numbers belong together.
Findings check_invariants(const Artifact& a) {
  Findings findings;
  const double max = number_format(a.quantization.dtype).max;
  if (a.quantization.max != max)
    findings.push_back({"quantization.max", "is " + text_of(a.quantization.max) + ", that of " + a.quantization.dtype +
                                                " is " + text_of(max)});
  for (size_t i = 0; i < a.layers.size(); ++i)
    check_layer(a.layers[i], a.quantization, "layers[" + std::to_string(i) + "]", findings);
  check_coverage(a, findings);
  return findings;
}

Findings findings_of(const std::string& file) {
  const Json document = read_json_file(file);
  Findings findings =
      check_schema(document, read_file(shipped_file(std::string("schemas/") + kArtifactSchemaFile), kSchemaBytes));
  if (!findings.empty()) return findings;
  try {
    findings = check_invariants(artifact_from_json(document));
  } catch (const Error& e) {
    findings.push_back({"", e.what()});
  }
  return findings;
}

Exit run(const ValidateFlags& flags) {
  const Findings findings = findings_of(flags.file);
  if (flags.json) {
    Json list = Json::array();
    for (const SchemaError& f : findings) list.push_back({{"path", f.path}, {"message", f.message}});
    std::cout << Json{{"file", flags.file}, {"findings", list}}.dump(2, ' ', false, Json::error_handler_t::replace)
              << '\n';
  } else {
    for (const SchemaError& f : findings)
      std::cout << "error " << (f.path.empty() ? "(document)" : f.path) << ": " << f.message << '\n';
    std::cout << flags.file << ": " << (findings.empty() ? "valid" : std::to_string(findings.size()) + " finding(s)")
              << '\n';
  }
  return findings.empty() ? Exit::Done : Exit::Findings;
}

}  // namespace

void add_validate(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<ValidateFlags>();
  CLI::App* verb = app.add_subcommand("validate", "Check a scale file against its schema and invariants");
  verb->add_option("FILE", flags->file, "kv-cache-scales.json")->required();
  verb->add_flag("--json", flags->json, "One JSON object on standard output");
  verb->footer(
      "Examples:\n  kvcal validate kv-cache-scales.json && echo fit to serve\n\nExit code 1 when there are findings.");
  verb->callback([flags, &chosen] { chosen = [flags] { return run(*flags); }; });
}

}  // namespace kvcal
