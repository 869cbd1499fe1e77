#include "doctor/rules.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/word_list.h"
#include "deployment/cache_choices.h"

namespace kvcal {

namespace {

Trait given(bool input) { return input ? Trait::Yes : Trait::Unknown; }
Trait served_by(const Facts& f, Engine server) {
  return f.is(Engine::Unknown) ? Trait::Unknown : trait_of(f.is(server));
}

Trait has_backend(const Facts& f, std::string_view words) {
  const std::string backend = backend_of(f);
  return backend.empty() ? Trait::Unknown : trait_of(has_word(words, backend));
}

// Whether a defect without a last version is in those that were not read is not known.
Trait runs_version(const Facts& f, const EngineVersions& versions) {
  if (versions.until == EngineVersion{} && is_newer_than_known(f.server, f.version)) return Trait::Unknown;
  return f.version ? trait_of(versions.hold(f.version)) : Trait::Unknown;
}

struct Need {
  unsigned bit;
  Trait (*met)(const Facts&);
  std::string_view what;  // "": the cache's type, which says what would settle it
};

constexpr std::array kNeeds = {
    Need{kFlags, [](const Facts& f) { return given(knows_flags(f)); }, "a serve command"},
    Need{kAllFlags, [](const Facts& f) { return given(!has_options_elsewhere(f)); },
         "the file that the command's --config names"},
    Need{kLog, [](const Facts& f) { return given(f.has_log); }, "a log"},
    Need{kModel, [](const Facts& f) { return given(f.model.hybrid != Trait::Unknown); }, "a model that is known"},
    Need{kCheckpoint, [](const Facts& f) { return given(f.checkpoint != nullptr); }, "config.json"},
    Need{kTensors, [](const Facts& f) { return given(f.checkpoint && f.checkpoint->has_tensors); },
         "a folder with weights"},
    Need{kScales, [](const Facts& f) { return given(f.scales.has_value()); }, "a scale file"},
    Need{kOutput, [](const Facts& f) { return given(f.has_output); }, "a sample of output"},
    Need{kKnownServer, [](const Facts& f) { return given(f.server != Engine::Unknown); }, "which server it is"},
    Need{kGpu, [](const Facts& f) { return given(f.gpu.has_value()); }, "which GPU it is (--gpu)"},
    Need{kAdapter, [](const Facts& f) { return given(f.adapter.has_value()); }, "a LoRA adapter's folder"},
    Need{kVllm, [](const Facts& f) { return served_by(f, Engine::Vllm); }, "which server it is"},
    Need{kSglang, [](const Facts& f) { return served_by(f, Engine::Sglang); }, "which server it is"},
    Need{kQuantized, [](const Facts& f) { return f.cache.quantized; }, ""},
    Need{kStaticFp8, [](const Facts& f) { return f.cache.one_scale; }, ""},
    Need{kFp8,
         [](const Facts& f) {
           if (f.cache.quantized != Trait::Yes) return f.cache.quantized;
           return f.cache.name.empty() ? Trait::Unknown : trait_of(holds_fp8(f.cache.name));
         },
         ""},
    Need{kPlain,
         [](const Facts& f) {
           return f.cache.quantized == Trait::Unknown ? Trait::Unknown : trait_of(f.cache.quantized == Trait::No);
         },
         ""},
    Need{kHybrid, [](const Facts& f) { return f.model.hybrid; }, "a model that is known"},
    Need{kLatent, [](const Facts& f) { return f.model.latent; }, "a model that is known"},
    Need{kMisread,
         [](const Facts& f) {
           // Where the other needs hold: else these say what is open.
           const bool asks = f.is(Engine::Sglang) && f.model.latent == Trait::Yes && f.checkpoint;
           if (!asks || f.scale_use != ScaleUse::Unknown) return trait_of(!asks || f.scale_use == ScaleUse::ReadAlone);
           return Trait::Unknown;
         },
         "an attention backend and a version whose reading of MLA rows was checked"},
    Need{kCalibrated, [](const Facts& f) { return given(has_calibrated_scales(f)); }, "scales other than 1.0"},
};

}  // namespace

RuleTables rule_tables() {
  return {flag_rules(),       draft_rules(), server_rules(), gpu_rules(),   checkpoint_rules(),
          scale_file_rules(), state_rules(), log_rules(),    output_rules()};
}

Applies applies(const CombinationRule& rule, const Facts& facts) {
  Applies result;
  const auto take = [&](Trait met, std::string_view what) {
    if (met == Trait::No) result = {Trait::No, ""};
    if (met != Trait::Unknown || result.all == Trait::No) return;
    result.all = Trait::Unknown;
    if (result.open.find(what) == std::string::npos)
      result.open += (result.open.empty() ? "" : ", ") + std::string(what);
  };
  for (const Need& need : kNeeds)
    if ((rule.needs & need.bit) != 0) take(need.met(facts), need.what.empty() ? facts.cache.open : need.what);
  if (!rule.backends.empty()) take(has_backend(facts, rule.backends), "the attention backend (the server's log)");
  if (rule.versions != EngineVersions{})
    take(runs_version(facts, rule.versions), "a server's version that was read (--server)");
  return result;
}

namespace {

Found found_by_check(std::string_view rule, const Facts& facts) {
  const std::vector<const Finding*> all = found_by(facts, rule);
  if (all.empty()) return {};
  const Finding& first = *all.front();
  std::string detail = all.size() == 1 ? first.path : std::to_string(all.size()) + " times, first " + first.path;
  if (!first.actual.empty()) detail += (detail.empty() ? "" : ": ") + first.actual;
  return {true, std::move(detail), {{facts.checkpoint->path}}};
}

void add_options(const Facts& facts, std::string_view name, std::vector<Evidence>& evidence) {
  const Flag* flag = facts.flag(name);
  const auto is_same = [&](const Evidence& e) { return e.file == flag->from.file && e.line == flag->from.line; };
  if (flag != nullptr && std::ranges::none_of(evidence, is_same)) evidence.push_back(flag->from);
}

void add_evidence(const Facts& f, std::string_view word, Found& found) {
  if (word == "{checkpoint}") found.evidence.push_back({f.checkpoint->path});
  if (word == "{scales}") found.evidence.push_back({f.scales->path});
  if (word == "{adapter}") found.evidence.push_back({f.adapter->path});
  if (word == "{backend}") {
    for (const char* name : {"decode-attention-backend", "attention-backend", "dsa-decode-backend",
                             "nsa-decode-backend", "kv-cache-dtype"})
      add_options(f, name, found.evidence);
    if (!f.backend.empty() && backend_flag(f) == nullptr) found.evidence.push_back(f.backend_from);
  }
  if (word == "{gpu}" && f.gpu) found.evidence.push_back(f.gpu_from);
  if (!word.starts_with("{")) return add_options(f, word, found.evidence);
  if (const auto line = f.lines.find(word.substr(1, word.size() - 2)); line != f.lines.end())
    found.evidence.insert(found.evidence.end(), line->second.evidence.begin(), line->second.evidence.end());
}

}  // namespace

Found found_by_rule(const CombinationRule& rule, const Facts& facts) {
  const auto& [holds, finds] = rule.when;
  Found found = holds ? Found{holds(facts)} : finds ? finds(facts) : found_by_check(rule.entry.id, facts);
  if (!found.holds) return {};
  for (const std::string_view word : listed_words(rule.evidence)) add_evidence(facts, word, found);
  const bool of_gpu = has_word(rule.evidence, "{gpu}");
  if (of_gpu && facts.gpu)
    found.detail = facts.gpu->name + (found.detail.empty() ? "" : "; " + found.detail);
  else if (!of_gpu && has_word(rule.evidence, "{backend}") && found.detail.empty())
    found.detail = backend_of(facts);
  return found;
}

bool is_refuted(const CombinationRule& rule, const Facts& facts) {
  if (rule.entry.severity != Severity::Fatal || (rule.needs & kServing) != 0 || facts.start_failed) return false;
  const bool seen = std::ranges::any_of(facts.lines, [&](const auto& line) {
    return line.first == rule.entry.id || has_word(rule.entry.supersedes, line.first);
  });
  const bool answered = facts.has_answer || facts.seen(kExclamationMarks.id);  // an answer that was taken for a log
  return !seen && (answered || (facts.has_started && (rule.needs & kAtRequest) == 0));
}

Found found_in_flags(const Facts& facts, std::initializer_list<std::string_view> names, std::string detail) {
  Found found = {true, std::move(detail)};
  for (const std::string_view name : names) add_options(facts, name, found.evidence);
  return found;
}

int64_t n_ranks(const Facts& f) {
  for (const char* name : {"tensor-parallel-size", "tp-size", "tp"})
    if (const std::string value = f.flag_value(name); !value.empty())
      return std::max<int64_t>(1, std::atoll(value.c_str()));
  return 1;
}

std::string count(size_t n, const std::string& what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

std::vector<const Finding*> found_by(const Facts& f, std::string_view rule) {
  std::vector<const Finding*> found;
  const auto take = [&](const Report& report) {
    for (const Finding& finding : report.findings)
      if (finding.rule == rule) found.push_back(&finding);
  };
  take(f.checkpoint->report);
  const std::optional<Server> of = server_of_table(f);
  if (of && f.checkpoint->served.contains(of->kind)) take(f.checkpoint->served.at(of->kind));
  return found;
}

// Sparse attention and DeepSeek-V4's have caches of their own, *_ds_mla among them.
CachePlace place_of(const Facts& f) {
  const bool own = f.model.sparse != Trait::No || f.model.architecture.starts_with("DeepseekV4");
  const Trait latent = own && f.model.latent == Trait::No ? Trait::Unknown : f.model.latent;
  return {f.gpu ? &*f.gpu : nullptr, latent, f.model.head_dim, backend_of(f)};
}

bool looks_broken(const Facts& f) { return !f.output.empty() || f.seen("E15"); }

bool has_own_scales(const Facts& f) { return f.checkpoint && f.checkpoint->n_scales() > f.checkpoint->n_unit; }

}  // namespace kvcal
