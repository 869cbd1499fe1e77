#include "stats/run_union.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/sha256.h"
#include "stats/further_members.h"
#include "stats/merge.h"

namespace kvcal {
namespace {

std::string text_of(const Json& value) {
  if (value.is_null()) return "none";
  return value.is_string() ? quoted(value.get<std::string>()) : value.dump();
}

[[noreturn]] void fail_other(const std::string& name, const std::string& first, const std::string& what,
                             const Json& actual, const Json& expected) {
  fail(quoted(name) + " cannot be merged with " + quoted(first) + ": " + what + " is " + text_of(actual) +
       ", expected " + text_of(expected));
}

void check_described(const RunRecord& run) {
  if (!run.model) fail("the statistics do not say which model they are of");
  if (!run.calibration) fail("the statistics do not say what was fed");
  if (run.plan_sha256.empty()) fail("the statistics have no plan_sha256");
}

Json none_if_empty(const std::string& text) { return text.empty() ? Json() : Json(text); }

/// What two runs must share to be comparable at all. In the order of what explains most.
void check_same_kind(const std::string& name, const RunRecord& run, const std::string& first_name,
                     const RunRecord& first) {
  const auto same = [&](const char* what, const Json& actual, const Json& expected) {
    if (actual != expected) fail_other(name, first_name, what, actual, expected);
  };
  const ModelInfo &m = *run.model, &n = *first.model;
  same("it is from another model: architecture", m.architecture, n.architecture);
  same("it is from another model: config_sha256", m.config_sha256, n.config_sha256);
  same("it is from another model: weights_fingerprint", m.weights_fingerprint, n.weights_fingerprint);
  same("it is from another model, which", to_json(m), to_json(n));
  same("it was made with another tokenizer: tokenizer_sha256", run.tokenizer_sha256, first.tokenizer_sha256);
  const CalibrationInfo &c = *run.calibration, &d = *first.calibration;
  same("it was computed in another precision, which", c.precision, d.precision);
  same("the rounding of activations that it emulates", none_if_empty(c.activation_quant),
       none_if_empty(d.activation_quant));
  same("it is from another class of processor, which", c.isa, d.isa);
  same("it is from another version of the program, which", c.tool_version, d.tool_version);
  same("the number of its passes", c.passes, d.passes);
  same("its maximum length", c.max_length, d.max_length);
}

std::string str(const Shard& shard) { return std::to_string(shard.index) + "/" + std::to_string(shard.count); }

std::string missing_shards(int64_t count, const std::map<int64_t, std::string>& shards) {
  constexpr size_t kListed = 16;
  std::string list;
  size_t n = 0;
  for (int64_t i = 1; i <= count; ++i)
    if (!shards.contains(i) && ++n <= kListed) list += (n > 1 ? ", " : "") + str(Shard{i, count});
  return (n > 1 ? "shards " : "shard ") + list + (n > kListed ? ", ..." : "");
}

/// The sets of prompts that a file was merged from, or its own.
std::vector<PromptSetInfo> sets_of(const CalibrationInfo& calibration, const std::optional<SanityInfo>& sanity) {
  if (calibration.merged) return calibration.merged->sets;
  PromptSetInfo set;
  set.plan_sha256 = calibration.plan_sha256;
  set.prompts_sha256 = calibration.prompts_sha256;
  set.n_prompts = calibration.n_prompts;
  set.n_tokens = calibration.n_tokens;
  set.longest = calibration.longest;
  set.encoder_tokens = calibration.encoder_tokens;
  set.sanity = sanity;
  return {set};
}

int64_t checked_count(const char* member, int64_t n) {
  constexpr int64_t kMost = int64_t{1} << 46;  // more than any statistics hold
  if (n < 0 || n > kMost) fail("calibration." + std::string(member) + " is " + std::to_string(n));
  return n;
}

/// The mean over all tokens that any set predicted; none where none did.
std::optional<SanityInfo> united_sanity(const std::vector<PromptSetInfo>& sets) {
  SanityInfo all;
  double sum = 0;
  for (const PromptSetInfo& set : sets) {
    if (!set.sanity) continue;
    const int64_t n = checked_count("n_tokens", set.sanity->n_tokens);
    sum += set.sanity->mean_nll * static_cast<double>(n);
    all.uniform_nll = set.sanity->uniform_nll;
    all.n_tokens += n;
  }
  if (all.n_tokens == 0) return std::nullopt;
  all.mean_nll = sum / static_cast<double>(all.n_tokens);
  return all;
}

/// The hash of the sorted hashes.
std::string united_hash(const std::vector<PromptSetInfo>& sets, std::string PromptSetInfo::*hash) {
  std::vector<std::string> hashes;
  for (const PromptSetInfo& set : sets) hashes.push_back(set.*hash);
  std::sort(hashes.begin(), hashes.end());
  Sha256 sha;
  for (const std::string& one : hashes) sha.update(one + "\n");
  return sha.hex();
}

void describe(std::vector<PromptSetInfo> sets, CalibrationInfo calibration, RunRecord& run) {
  std::ranges::sort(sets, {}, &PromptSetInfo::plan_sha256);
  calibration.n_prompts = calibration.n_tokens = calibration.longest = 0;
  std::optional<int64_t> encoder_tokens;
  for (const PromptSetInfo& set : sets) {
    calibration.n_prompts += checked_count("n_prompts", set.n_prompts);
    calibration.n_tokens += checked_count("n_tokens", set.n_tokens);
    if (set.encoder_tokens)
      encoder_tokens = encoder_tokens.value_or(0) + checked_count("encoder_tokens", *set.encoder_tokens);
    calibration.longest = std::max(calibration.longest, checked_count("longest", set.longest));
  }
  if (encoder_tokens) calibration.encoder_tokens = encoder_tokens;
  run.plan_sha256 = united_hash(sets, &PromptSetInfo::plan_sha256);
  calibration.prompts_sha256 = united_hash(sets, &PromptSetInfo::prompts_sha256);
  calibration.plan_sha256 = run.plan_sha256;
  run.sanity = united_sanity(sets);
  calibration.merged = MergedInfo{1, std::move(sets)};
  run.calibration = std::move(calibration);
}

void check_disjoint(const RunRecord& a, const std::string& a_name, const RunRecord& b, const std::string& b_name) {
  for (const std::string& id : b.prompt_ids)
    if (std::binary_search(a.prompt_ids.begin(), a.prompt_ids.end(), id))
      fail(quoted(b_name) + " cannot be merged with " + quoted(a_name) + ": both have the prompt " + quoted(id) +
           ", which would count twice");
}

}  // namespace

void RunUnion::add_to(Set& set, const std::string& name, Statistics run) {
  const std::string pair = quoted(name) + " cannot be merged with " + quoted(set.name) + ": ";
  if (!run.run.shard && set.count == 1) fail(pair + "both are the same run, every token would count twice");
  if (!run.run.shard || set.count == 1) fail(pair + "one is a shard of the run that the other holds whole");
  const Shard shard = *run.run.shard;
  if (shard.count != set.count)
    fail(pair + "it is shard " + str(shard) + ", expected one of " + std::to_string(set.count) + " shards");
  if (const auto there = set.shards.find(shard.index); there != set.shards.end())
    fail("shard " + str(shard) + " is there twice: " + quoted(there->second) + " and " + quoted(name));
  if (*run.run.calibration != set.calibration)
    fail_other(name, set.name, "its calibration block", to_json(*run.run.calibration), to_json(set.calibration));
  if (run.run.sanity != set.sanity)
    fail_other(name, set.name, "the sanity check of the same prompts by the same model", json_or_null(run.run.sanity),
               json_or_null(set.sanity));
  set.sum = merge(set.sum, run);
  set.shards[shard.index] = name;
}

void RunUnion::add(const std::string& name, Statistics run) {
  while_doing(quoted(name), [&] { check_described(run.run); });
  if (run.run.heads) fail(quoted(name) + " has the heads of one rank: merge the ranks of each recording first");
  if (sets_.empty()) {
    first_ = run.run;
    first_.prompt_ids.clear();
    first_name_ = name;
  }
  check_same_kind(name, run.run, first_name_, first_);
  const auto [at, added] = sets_.try_emplace(run.run.plan_sha256);
  Set& set = at->second;
  if (!added) return add_to(set, name, std::move(run));
  set.name = name;
  set.calibration = *run.run.calibration;
  set.sanity = run.run.sanity;
  if (run.run.shard) {
    set.count = run.run.shard->count;
    set.shards[run.run.shard->index] = name;
  }
  set.sum = std::move(run);
}

void RunUnion::check_complete() const {
  std::string missing;
  for (const auto& [plan, set] : sets_)
    if (set.count > 1 && static_cast<int64_t>(set.shards.size()) < set.count)
      missing +=
          (missing.empty() ? "" : "; ") + missing_shards(set.count, set.shards) + " missing beside " + quoted(set.name);
  if (!missing.empty())
    fail(missing + (sets_.size() > 1 ? "; the files are of " + std::to_string(sets_.size()) +
                                           " different plans: other prompts, tokens or options"
                                     : ""));
}

Statistics RunUnion::finish() {
  if (sets_.empty()) fail("there are no statistics to merge");
  check_complete();
  std::optional<Statistics> all;
  std::string names;
  std::vector<PromptSetInfo> parts;
  for (auto& entry : sets_) {
    auto& set = entry.second;
    set.sum.run.shard.reset();
    std::ranges::move(sets_of(set.calibration, set.sanity), std::back_inserter(parts));
    if (all) check_disjoint(all->run, names, set.sum.run, set.name);
    all = all ? merge(*all, set.sum) : std::move(set.sum);
    names += (names.empty() ? "" : ", ") + set.name;
  }
  if (sets_.size() > 1) describe(std::move(parts), *first_.calibration, all->run);
  return std::move(*all);
}

}  // namespace kvcal
