// What the inputs together say of the server run: each fact with its value and where it is from, or what would settle
// it.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "deployment/cache_choices.h"
#include "doctor/diagnose.h"
#include "doctor/facts.h"
#include "doctor/rules.h"
#include "servers/server_support.h"

namespace kvcal {
namespace {

std::string place(const Evidence& e) {
  return e.line > 0 ? e.file + ":" + std::to_string(e.line) : e.file.empty() ? "the inputs" : e.file;
}

FactRow known(std::string name, std::string value, std::string from) {
  return {std::move(name), std::move(value), std::move(from)};
}
FactRow open(std::string name, std::string settles) { return {std::move(name), "", std::move(settles)}; }

FactRow server(const Facts& f) {
  if (f.server == Engine::Unknown) return open("server", "--server NAME@VERSION, or the serve command");
  const std::string where = f.version     ? place(f.version_from)
                            : f.installed ? "--installed " + f.installed->python
                            : f.command   ? place(f.command_from)
                                          : "the log";
  return known("server", std::string(name_of(f.server)) + (f.version ? " " + str(*f.version) : ", version not known"),
               where);
}

FactRow installed(const Facts& f) {
  if (!f.installed) return open("installed server", "--installed PYTHON, where it can be asked");
  const InstalledServer& i = *f.installed;
  return known("installed server",
               std::string(name_of(i.server)) + ": " + count(i.cache_types.size(), "cache type") + ", " +
                   count(i.backends.size(), "attention backend") + ", " + std::to_string(i.architectures.size()) +
                   " architectures",
               "--installed " + i.python);
}

FactRow gpu(const Facts& f) {
  if (!f.gpu) return open("GPU", "--gpu NAME");
  const int capability = f.gpu->capability;
  const std::string kind = capability > 0 ? ", compute capability " + capability_text(capability) : "";
  return known("GPU", f.gpu->name + (f.gpu->gfx.empty() ? kind : ", " + f.gpu->gfx), place(f.gpu_from));
}

FactRow backend(const Facts& f) {
  const std::string name = backend_of(f);
  if (name.empty()) return open("attention backend", "the server's log, or --attention-backend in the command");
  const Flag* flag = backend_flag(f);
  return known("attention backend", name, flag != nullptr ? place(flag->from) : place(f.backend_from));
}

FactRow cache(const Facts& f) {
  if (f.cache.contradicted) return {"cache", "contradicted", f.cache.open};
  if (f.cache.name.empty() && f.cache.quantized == Trait::Yes)
    return known("cache", "quantized, its type not known", "the " + std::string(f.cache.decided_by));
  if (f.cache.name.empty()) return open("cache", f.cache.open);
  const std::string kind = f.cache.quantized == Trait::Yes ? " (quantized)" : " (not quantized)";
  return known("cache", f.cache.shown() + kind, "the " + std::string(f.cache.decided_by));
}

FactRow in_checkpoint(const Facts& f) {
  const std::string name = "scales in the checkpoint";
  if (!f.checkpoint) return open(name, "--model MODEL");
  const CheckpointFacts& c = *f.checkpoint;
  if (!c.has_tensors)
    return c.declaration.declares_cache()
               ? open(name, "a folder with the weights; config.json declares a quantized cache")
               : known(name, "none declared", c.path);
  const std::string counts = std::to_string(c.n_key_scales) + " of keys, " + std::to_string(c.n_value_scales) +
                             " of values" + (c.n_joint > 0 ? ", " + std::to_string(c.n_joint) + " of both" : "") +
                             (c.n_unit > 0 ? "; " + std::to_string(c.n_unit) + " are 1.0" : "");
  return known(name, c.n_scales() == 0 ? "none" : counts, c.path);
}

FactRow in_file(const Facts& f) {
  if (!f.scales) return open("scale file", "--scales FILE, where there is one");
  return known("scale file", std::to_string(f.scales->n_layers) + " layers", f.scales->path);
}

/// SGLang's classes of MLA load scales that its backends misread (C22) or leave alone: why_not says which.
bool misuses_rows(const ServerSupport& s) {
  return s.server.kind == ServerKind::Sglang && s.loader.starts_with("latent");
}

bool arrives(const ServerSupport& s) { return s.loads || (misuses_rows(s) && loads(effect_of(s, s.write, 'k'))); }

std::string why_none_arrives(const ServerSupport& s) {
  return misuses_rows(s) ? "nothing in config.json has the server make parameters for them" : s.why_not;
}

/// Of a class that loads scales: what becomes of these tensors.
std::string by_names(const Facts& f) {
  const auto stops = found_by(f, "V01"), dropped = found_by(f, "C16");
  if (uses_plugin(f) || (stops.empty() && dropped.empty())) return "yes";
  if (!stops.empty()) return "no: the server stops: " + stops.front()->actual;
  const bool all = dropped.size() >= f.checkpoint->n_scales();
  return (all ? "no: " : "all but " + std::to_string(dropped.size()) + ": ") + dropped.front()->actual;
}

// Of the version that was looked at only.
FactRow delivered(const Facts& f) {
  const std::string name = "loaded by this class";
  const bool served = f.is(Engine::Vllm) || f.is(Engine::Sglang);
  if (!served || !f.checkpoint || f.model.architecture.empty())
    return open(name, "which server it is, and config.json");
  const std::optional<Server> of = server_of_table(f);
  if (!of)
    return open(name, "the server's log: for " + (f.version ? str(*f.version) : "this platform") +
                          " this was not checked, for " + str(newest_known(f.server)) + " it is known");
  const std::optional<ServerSupport> s = support_of(f);
  if (!s) return open(name, "the server's log: this class is not in the table of servers");
  return known(name, arrives(*s) ? by_names(f) : "no: " + why_none_arrives(*s), s->source);
}

/// "read: SGLang 0.5.23, flashinfer".
std::string source_of_use(const Facts& f) {
  const bool loads = f.is(Engine::Vllm) || f.is(Engine::Sglang);
  if (!loads) return std::string(name_of(f.server)) + " makes its own";
  const std::string backend = backend_of(f);
  return "read: " + str(f.server, f.version) + (backend.empty() ? "" : ", " + backend);
}

FactRow applied(const Facts& f) {
  const std::string name = "scales are applied";
  const bool none = f.checkpoint && (f.checkpoint->has_tensors ? f.checkpoint->n_scales() == f.checkpoint->n_unit
                                                               : !f.checkpoint->declaration.declares_cache());
  constexpr std::array kUses = {"", "nowhere", "when written and when read", "when read alone", "when written alone"};
  if (f.scale_use != ScaleUse::Unknown)
    return known(name, kUses.at(static_cast<size_t>(f.scale_use)),
                 none && f.scale_use == ScaleUse::Nowhere ? f.checkpoint->path : source_of_use(f));
  if (f.cache.quantized == Trait::Unknown && !f.cache.open.empty()) return open(name, f.cache.open);
  const bool all_given = f.server != Engine::Unknown && f.version && !backend_of(f).empty() && f.checkpoint;
  return open(name, all_given ? "nothing here: of this combination it was not checked"
                              : "server, version, attention backend and checkpoint");
}

FactRow trait(const std::string& name, Trait t, const Facts& f) {
  if (t == Trait::Unknown) return open(name, "--model MODEL");
  return known(name, t == Trait::Yes ? "yes" : "no", f.model.from_config ? "config.json" : "the model's name");
}

// Of a model that may have none it is what recurrent layers would have.
FactRow state(const Facts& f) {
  const std::string name = "state of recurrent layers";
  if (f.model.hybrid == Trait::No) return known(name, "none", f.model.from_config ? "config.json" : "the model's name");
  if (f.model.hybrid == Trait::Unknown) return open(name, "--model MODEL");
  if (!f.state.open.empty() || f.state.name.empty()) return open(name, f.state.open);
  if (!knows_flags(f)) return open(name, "the serve command");
  return known(
      name,
      f.state.name +
          (f.state.conv.empty() || f.state.conv == f.state.name ? "" : "; windows of convolutions " + f.state.conv),
      "the " + std::string(f.state.decided_by));
}

FactRow option(const Facts& f, const std::string& name, std::initializer_list<std::string_view> flags,
               std::string_view otherwise) {
  for (const std::string_view flag : flags)
    if (const Flag* found = f.flag(flag))
      return known(name, std::string(flag) + (found->value.empty() ? "" : " " + found->value), place(found->from));
  return knows_flags(f) ? known(name, std::string(otherwise), "no option asks for it")
                        : open(name, "the serve command");
}

std::vector<FactRow> rows_of(const Facts& f) {
  return {
      server(f),
      installed(f),
      gpu(f),
      backend(f),
      cache(f),
      in_checkpoint(f),
      in_file(f),
      delivered(f),
      applied(f),
      trait("hybrid (recurrent layers)", f.model.hybrid, f),
      trait("MLA", f.model.latent, f),
      state(f),
      option(f, "drafted tokens", {"speculative-config", "speculative-algorithm", "spec-model", "spec-method"}, "none"),
      option(f, "prefix caching",
             {"enable-prefix-caching", "no-enable-prefix-caching", "disable-radix-cache", "enable-radix-cache"},
             "the server's default"),
      option(f, "ranks", {"tensor-parallel-size", "tp-size", "tp"}, "1")};
}

}  // namespace

std::vector<FactRow> fact_rows(const Facts& f) {
  std::vector<FactRow> rows = rows_of(f);
  const std::vector<Facts> each_version = with_each_version(f);
  std::vector<std::vector<FactRow>> rows_by_version;
  for (const Facts& other : each_version) rows_by_version.push_back(rows_of(other));
  for (size_t i = 1; i < rows.size(); ++i) {  // the first is the server
    const std::string versions =
        versions_where(each_version, [&](size_t v) { return rows_by_version[v][i].value == rows[i].value; });
    if (!versions.empty() && !rows[i].value.empty()) rows[i].from += "; in " + versions;
  }
  return rows;
}

Lines facts_text(const Facts& f) {
  const std::vector<FactRow> rows = fact_rows(f);
  size_t width = 0;
  for (const FactRow& row : rows) width = std::max(width, row.name.size());
  Lines text;
  for (const FactRow& row : rows)
    text.add(row.name + ":" + std::string(width + 2 - row.name.size(), ' ') +
             (row.value.empty() ? "not known; would settle it: " + printable(row.from)
                                : printable(row.value) + " [" + printable(row.from) + "]"));
  return text;
}

Json facts_json(const Facts& f) {
  Json rows = Json::array();
  for (const FactRow& row : fact_rows(f)) {
    Json json = {{"name", row.name}, {"value", row.value.empty() ? Json() : Json(printable(row.value))}};
    json[row.value.empty() ? "settled_by" : "from"] = printable(row.from);
    rows.push_back(std::move(json));
  }
  return rows;
}

}  // namespace kvcal
