// Which layers of a checkpoint have scales, and which should.
#include <algorithm>

#include "check/artifact_checks.h"
#include "check/folder_checks.h"

namespace kvcal {
namespace {

using Site = KvScaleName::Site;
using Owner = StoredScale::Owner;

std::string module_of(const FolderUnderTest& f, const KvLayout& cache) {
  return module_name(f.stored.tensor_prefix, cache);
}

/// Servers give such a layer a scale of its own to read with: it must be the one that the cache was written with.
void check_reader(const FolderUnderTest& f, const StoredScale& s, Report& report) {
  if (s.zero_point || s.site == Site::Query || s.site == Site::Probability) return;
  if (f.stored.reads_as_written(s, f.spec)) return;
  const auto written = f.stored.of(f.spec.layers[static_cast<size_t>(s.layer)].shares_cache, s.site);
  const auto text = [](const std::vector<float>& values) { return values.empty() ? "none" : number_text(values[0]); };
  report.add(
      {"C08", s.tensor, "the scale to read with",
       written.empty() ? "none: the cache that it reads has none" : text(written[0]->values) + ", as written with",
       text(s.values), 0, f.path_of(s.file)});
}

void check_owner(const FolderUnderTest& f, const StoredScale& s, Report& report) {
  if (s.owner == Owner::Cache || s.owner == Owner::Draft) return;
  if (s.owner == Owner::SharedKv) return check_reader(f, s, report);
  report.add({"S07", s.tensor, "the module that the scale is for", "one that owns a KV cache",
              std::string(name_of(s.owner)), 0, f.path_of(s.file)});
}

/// Two spellings of one site; which of them wins depends on the loader.
void check_twice(const FolderUnderTest& f, int cache, Site site, Report& report) {
  const auto found = f.stored.of(cache, site);
  for (size_t i = 1; i < found.size(); ++i)
    if (found[i]->values != found[0]->values)
      report.add({"S20", found[i]->tensor, "the value compared with " + found[0]->tensor,
                  found[0]->values.empty() ? "" : number_text(found[0]->values[0]),
                  found[i]->values.empty() ? "unreadable" : number_text(found[i]->values[0]), 0,
                  f.path_of(found[i]->file)});
}

void check_cache(const FolderUnderTest& f, const KvLayout& cache, Report& report) {
  const auto keys = f.stored.of(cache.cache, Site::Key), values = f.stored.of(cache.cache, Site::Value);
  const auto both = f.stored.of(cache.cache, Site::KeyAndValue);
  const std::string module = module_of(f, cache);
  for (const Site site : {Site::Key, Site::Value, Site::Query}) check_twice(f, cache.cache, site, report);
  for (const StoredScale* s : both)
    report.add({"C17", s->tensor, "the name of the scale", "k_scale and v_scale", "kv_scale", 0, f.path_of(s->file)});
  const bool needs_value = !cache.is_mla();
  if (keys.empty() && values.empty() && both.empty())
    report.add("S07", module, "layer " + std::to_string(cache.layer), "scales for its cache", "none");
  else if (both.empty() && (keys.empty() || (needs_value && values.empty())))
    report.add("S06", module, std::string("the scale of the ") + (keys.empty() ? "key" : "value"),
               "one for key and one for value", "none");
  if (cache.is_mla() && !keys.empty() && !values.empty() && keys[0]->values != values[0]->values)
    report.add({"C05", module, "the scales of key and value", "equal: one row of the cache serves both",
                number_text(keys[0]->values.empty() ? 0 : keys[0]->values[0]) + " and " +
                    number_text(values[0]->values.empty() ? 0 : values[0]->values[0]),
                0, f.path_of(keys[0]->file)});
}

void check_none(const FolderUnderTest& f, bool needs_none, Report& report) {
  const KvDeclaration& d = f.stored.declaration;
  const bool elsewhere = !f.stored.unlisted.empty();
  // C15 says where they are; weights are folded so that 1.0 is right.
  const bool is_folded = f.fold && f.fold->n_left == 0 && !d.declares_cache();
  if (elsewhere || is_folded || needs_none) return;
  report.add({"F08", "", d.declares_cache() ? "the scales of keys and values" : "no key or value scales found",
              d.declares_cache() ? "those of the cache that " + d.source + " declares" : "",
              d.declares_cache() ? "none, so 1.0 in every layer" : "", 0,
              f.path_of(d.source.empty() ? "config.json" : d.source)});
}

void note_shape_of_model(const FolderUnderTest& f, Report& report) {
  if (f.spec.caches.size() < f.spec.layers.size())
    report.add("C04", "", "layers with a KV cache", "",
               std::to_string(f.spec.caches.size()) + " of " + std::to_string(f.spec.layers.size()));
  if (const KvLayout* other = first_other_layout(f.spec))
    report.add("C10", module_of(f, *other), "heads and their width", "",
               std::to_string(other->n_kv_heads) + " heads of width " + std::to_string(other->head_dim_k) +
                   ", elsewhere " + std::to_string(f.spec.caches[0].n_kv_heads) + " of width " +
                   std::to_string(f.spec.caches[0].head_dim_k));
}

bool has_queries(const FolderUnderTest& f) {
  return std::any_of(f.stored.tensors.begin(), f.stored.tensors.end(),
                     [](const StoredScale& s) { return s.site == Site::Query; });
}

}  // namespace

const KvLayout* first_other_layout(const ModelSpec& spec) {
  const auto other = std::find_if(spec.caches.begin(), spec.caches.end(), [&](const KvLayout& c) {
    return c.head_dim_k != spec.caches[0].head_dim_k || c.n_kv_heads != spec.caches[0].n_kv_heads;
  });
  return other == spec.caches.end() ? nullptr : &*other;
}

void check_stored_layers(const FolderUnderTest& f, bool needs_none, Report& report) {
  report.evaluated({"C04", "C05", "C08", "C10", "C17", "F08", "S06", "S07", "S20", "S25", "V10"});
  for (const StoredScale& s : f.stored.tensors) check_owner(f, s, report);
  note_shape_of_model(f, report);
  if (!f.stored.any_of_caches()) return check_none(f, needs_none, report);
  for (const KvLayout& cache : f.spec.caches) check_cache(f, cache, report);
  // No server takes one of a latent row.
  if (!f.bare_mtp.empty() && !f.spec.caches.back().is_mla())
    report.add({"V10", f.bare_mtp, "the scales of the MTP layer", "those of its cache", "none", 0,
                f.path_of(f.stored.tensors.front().file)});
  if (!has_queries(f)) report.add("S25", "", "scales of queries", "", "none");
}

}  // namespace kvcal
