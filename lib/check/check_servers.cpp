// What each server that was named makes of a folder.
#include <algorithm>
#include <cmath>

#include "check/artifact_checks.h"
#include "check/folder_checks.h"
#include "checkpoint/kv_scale_names.h"
#include "servers/kv_declaration.h"

namespace kvcal {
namespace {

using Site = KvScaleName::Site;
using Owner = StoredScale::Owner;

void check_names(const FolderUnderTest& f, const ServedScales& served, Report& report) {
  for (const StoredScale& s : f.stored.tensors) {
    if (s.owner != Owner::Cache || s.zero_point || s.site == Site::Query || s.site == Site::Probability) continue;
    const ServerSupport& support = f.spec.is_mtp(s.layer) ? served.mtp : served.support;
    const Effect effect = effect_of(support, spelling_of(s.spelling), s.site == Site::Value ? 'v' : 'k');
    if (loads(effect) || stops(effect)) continue;  // a stop is V01 or V11
    report.add({"C16", s.tensor, "this name in " + str(served.server) + " " + std::string(support.architecture),
                scale_tensor(support, s.attention, s.site == Site::Value ? 'v' : 'k'), std::string(name_of(effect)), 0,
                f.path_of(s.file)});
  }
}

/// Whether something is lost where none arrives: a server without scales has 1.0.
bool any_but_one(const FolderUnderTest& f) {
  return std::ranges::any_of(f.stored.tensors, [](const StoredScale& s) {
    return s.owner == Owner::Cache && !s.zero_point && !std::ranges::all_of(s.values, [](float x) { return x == 1; });
  });
}

void check_rounding(const FolderUnderTest& f, const ServedScales& served, Report& report) {
  for (const ServedLayer& l : served.layers)
    for (const auto& [site, loaded, values] :
         {std::tuple{Site::Key, l.key_loaded, &l.key}, std::tuple{Site::Value, l.value_loaded, &l.value}}) {
      const auto stored = f.stored.of(l.cache, site);
      if (!loaded || stored.size() != 1 || values->empty() || stored[0]->values.empty()) continue;
      if (values->front() < stored[0]->values.front())
        report.add({"V04", stored[0]->tensor, "the scale that " + str(served.server) + " holds",
                    number_text(stored[0]->values.front()), number_text(values->front()), 0,
                    f.path_of(stored[0]->file)});
    }
}

void check_latent(const FolderUnderTest& f, const ServedScales& served, Report& report) {
  if (!misreads_rows(served.support)) return;
  for (const ServedLayer& l : served.layers)
    if (l.key_loaded && l.key.front() != 1)
      report.add({"V07", l.module, "the scale that " + str(served.server) + " uses for latent attention", "1",
                  number_text(l.key.front()), 0, f.path_of("config.json")});
}

/// Sparse attention's own default goes by the GPU: nothing is said of that.
void check_auto(const FolderUnderTest& f, const ServedScales& served, Report& report) {
  if (served.auto_is_fp8 || find_member(f.checkpoint.config(), "index_topk") != nullptr) return;
  const std::string type = auto_cache_type(f.stored.declaration, served.server.kind);
  report.add({"V03", "", "the cache of " + str(served.server) + " with --kv-cache-dtype auto", "FP8",
              type.empty() ? "the model's dtype" : type, 0, f.path_of("config.json")});
}

/// Tensors of vLLM-Ascend in another server. vLLM walks the tree of modules, and stops where it ends; what SGLang's
/// loops do was not tried.
void meet_modelslim(const FolderUnderTest& f, ServedScales& served) {
  const auto& names = f.checkpoint.names();
  const auto name = std::ranges::find_if(names, is_modelslim_cache_name);
  if (!served.known || name == names.end()) return;
  served.layers.clear();
  if (served.server.kind == ServerKind::Vllm && stops(effect_of_orphan(served.support)))
    served.stops.push_back({*name, "", "There is no module or parameter named '" + *name + "'"});
  else
    served.known = false;
}

void check_server(const FolderUnderTest& f, const ServedScales& served, Report& report) {
  const std::string name = str(served.server);
  for (const std::string& note : version_notes(served.server)) report.add("V05", "", note);
  if (!served.known) return;
  for (const ServedScales::Stop& stop : served.stops)
    report.add({"V01", stop.tensor, name, "to start", stop.reason, 0,
                f.path_of(stop.file.empty() ? "config.json" : stop.file)});
  for (const ServedScales::Stop& stop : served.draft_stops)
    report.add({"V11", stop.tensor, name, "to start where it drafts tokens", stop.reason, 0,
                f.path_of(stop.file.empty() ? "config.json" : stop.file)});
  if (!f.stored.any_of_caches()) return;
  const bool takes = served.support.loads || misreads_rows(served.support);
  if (!takes && served.support.served && any_but_one(f))
    report.add({"V02", "", name + " " + std::string(served.support.architecture), "", served.support.why_not, 0,
                f.path_of("config.json")});
  else if (takes)
    check_names(f, served, report);
  if (!served.stops.empty()) return;
  check_rounding(f, served, report);
  check_latent(f, served, report);
  check_auto(f, served, report);
}

}  // namespace

ServedScales served_by(const FolderUnderTest& f, const Server& server) {
  ServedScales served = served_scales(f.stored, f.spec, f.checkpoint.config(), server);
  if (has_modelslim_scales(f)) meet_modelslim(f, served);
  return served;
}

void check_servers(const FolderUnderTest& f, Report& report) {
  if (f.served.empty()) return;
  const std::initializer_list<std::string_view> of_table = {"C16", "V01", "V02", "V03", "V04", "V07", "V11"};
  report.evaluated({"V05"});
  if (std::ranges::any_of(f.served, &ServedScales::known))
    report.evaluated(of_table);
  else
    report.not_evaluated(of_table, "what " + str(f.served.front().server) + " does with these scales was not checked");
  for (const ServedScales& served : f.served) check_server(f, served, report);
}

}  // namespace kvcal
