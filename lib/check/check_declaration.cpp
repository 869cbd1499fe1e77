// What config.json and the index say about the KV cache and about activations.
#include <algorithm>
#include <array>
#include <set>

#include "check/folder_checks.h"

namespace kvcal {

void check_scheme(const KvDeclaration& d, const std::filesystem::path& folder, Report& report) {
  report.evaluated({"C11", "C12", "C29"});
  if (const std::string odd = unserved_cache(d); !odd.empty())
    report.add({"C29", "quantization_config", "the declaration", "", odd, 0, (folder / d.source).string()});
  if (!d.scheme || !d.scheme->is_object()) return;
  const std::string file = (folder / d.source).string(), path = "quantization_config.kv_cache_scheme";
  if (scheme_text(*d.scheme, "strategy") == "attn_head")
    report.add({"C11", path + ".strategy", "the strategy", "tensor", "attn_head", 0, file});
  for (const auto& [key, wrong] : {std::pair{"dynamic", "true"}, std::pair{"type", "int"}})
    if (scheme_text(*d.scheme, key) == wrong)
      report.add({"C12", path + "." + key, std::string("the scheme's ") + key, "static FP8", wrong, 0, file});
}

namespace {

bool any_tensor_ends(const FolderUnderTest& f, std::string_view suffix) {
  const auto& names = f.checkpoint.names();
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return name.ends_with(suffix); });
}

/// FP8 weights in blocks have dynamic activations; static ones need a scale per linear layer.
void check_activations(const FolderUnderTest& f, Report& report) {
  if (any_tensor_ends(f, ".input_scale")) return;
  const bool weights = any_tensor_ends(f, ".weight_scale") || any_tensor_ends(f, ".weight_scale_inv");
  if (f.stored.declaration.static_activations)
    report.add({"C14", "quantization_config.activation_scheme", "the scales of activations", "input_scale tensors",
                "none", 0, f.path_of("config.json")});
  else if (weights && f.stored.declaration.block_weights)
    report.add({"C13", "quantization_config.weight_block_size", "input_scale tensors", "", "none", 0,
                f.path_of("config.json")});
}

/// What is wrong with a module of the list; "" where nothing is.
std::string listed_fault(const FolderUnderTest& f, const std::string& module, const std::string& algorithm) {
  constexpr std::array kKnown = {"FP8", "INT8", "NVFP4", "NVFP4_AFFINE", "FP8_K_NVFP4_V"};
  if (std::ranges::find(kKnown, algorithm) == kKnown.end())
    return algorithm.empty() ? "no quant_algo" : "quant_algo " + algorithm;
  const bool has_scales = std::ranges::any_of(f.stored.tensors, [&](const StoredScale& s) {
    return s.attention == module && (s.owner == StoredScale::Owner::Cache || s.owner == StoredScale::Owner::SharedKv);
  });
  return has_scales ? "" : "no scales of keys or values";
}

/// ModelOpt's list of modules, against the word for all of them, the tensors, and the same list in the other file.
void check_list(const FolderUnderTest& f, Report& report) {
  const KvDeclaration& d = f.stored.declaration;
  if (!d.list) return;
  const auto add = [&](const std::string& what, const std::string& expected, const std::string& actual) {
    report.add({"C21", "kv_cache_quantized_layers", what, expected, actual, 0, f.path_of(d.source)});
  };
  if (d.list->schema != "1") add("kv_cache_schema_version", "1", d.list->schema.empty() ? "none" : d.list->schema);
  std::set<std::string> names;
  for (const auto& [module, algorithm] : d.list->modules) {
    names.insert(algorithm);
    if (const std::string fault = listed_fault(f, module, algorithm); !fault.empty())
      add(module, "an algorithm of a cache, and scales", fault);
  }
  const std::string whole = d.scheme && d.scheme->is_object()
                                ? scheme_text(*d.scheme, "num_bits") == "4" ? "NVFP4" : "FP8"
                            : d.scheme ? d.scheme->get<std::string>()
                                       : d.algorithm;
  const std::string expected = names.size() == 1 ? *names.begin() : "MIXED_PRECISION";
  if (whole != expected) add("the name of the whole cache", expected, whole.empty() ? "none" : whole);
  if (d.list_beside && d.list_beside != d.list) add("the list in hf_quant_config.json", "the same", "another one");
}

}  // namespace

void check_declaration(const FolderUnderTest& f, Report& report) {
  report.evaluated({"C13", "C14", "C15", "C21"});
  check_scheme(f.stored.declaration, f.checkpoint.folder(), report);
  check_activations(f, report);
  check_list(f, report);
  for (const StoredScales::Unlisted& u : f.stored.unlisted)
    report.add({"C15", u.tensor, "the file of the scale", "one that the index names", u.file, 0, f.path_of(u.file)});
}

}  // namespace kvcal
