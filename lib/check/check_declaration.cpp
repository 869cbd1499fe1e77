// What config.json and the index say about the KV cache and about activations.
#include <algorithm>

#include "check/folder_checks.h"

namespace kvcal {

void check_scheme(const KvDeclaration& d, const std::filesystem::path& folder, Report& report) {
  report.evaluated({"C11", "C12"});
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

}  // namespace

void check_declaration(const FolderUnderTest& f, Report& report) {
  report.evaluated({"C13", "C14", "C15"});
  check_scheme(f.stored.declaration, f.checkpoint.folder(), report);
  check_activations(f, report);
  for (const StoredScales::Unlisted& u : f.stored.unlisted)
    report.add({"C15", u.tensor, "the file of the scale", "one that the index names", u.file, 0, f.path_of(u.file)});
}

}  // namespace kvcal
