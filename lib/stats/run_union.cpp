#include "stats/run_union.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/sha256.h"
#include "stats/merge.h"

namespace kvcal {
namespace {

std::string text_of(const Json& value) {
  if (value.is_null()) return "none";
  return value.is_string() ? quoted(value.get<std::string>()) : value.dump();
}

const Json& member_of(const Json& block, const char* key) {
  static const Json none;
  const Json* member = block.is_object() ? find_member(block, key) : nullptr;
  return member ? *member : none;
}

[[noreturn]] void fail_other(const std::string& name, const std::string& first, const std::string& what,
                             const Json& actual, const Json& expected) {
  fail(quoted(name) + " cannot be merged with " + quoted(first) + ": " + what + " is " + text_of(actual) +
       ", expected " + text_of(expected));
}

void check_described(const RunRecord& run) {
  if (!run.model.is_object()) fail("the statistics do not say which model they are of");
  if (!run.calibration.is_object()) fail("the statistics do not say what was fed");
  if (run.plan_sha256.empty()) fail("the statistics have no plan_sha256");
}

/// What two runs must share to be comparable at all. In the order of what explains most.
void check_same_kind(const std::string& name, const RunRecord& run, const std::string& first_name,
                     const RunRecord& first) {
  for (const char* key : {"architecture", "config_sha256", "weights_fingerprint"})
    if (const Json& actual = member_of(run.model, key), &expected = member_of(first.model, key); actual != expected)
      fail_other(name, first_name, "it is of another model: " + std::string(key), actual, expected);
  if (run.model != first.model) fail_other(name, first_name, "it is of another model, which", run.model, first.model);
  if (run.tokenizer_sha256 != first.tokenizer_sha256)
    fail_other(name, first_name, "it was made with another tokenizer: tokenizer_sha256", run.tokenizer_sha256,
               first.tokenizer_sha256);
  const std::pair<const char*, const char*> facts[] = {
      {"precision", "it was computed in another precision, which"},
      {"activation_quant", "the rounding of activations that it emulates"},
      {"isa", "it is from another class of processor, which"},
      {"tool_version", "it is from another version of the program, which"},
      {"passes", "the number of its passes"},
      {"max_length", "its maximum length"}};
  for (const auto& [key, what] : facts)
    if (const Json& actual = member_of(run.calibration, key), &expected = member_of(first.calibration, key);
        actual != expected)
      fail_other(name, first_name, what, actual, expected);
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

/// One of the sets of prompts that a file was merged from, as its calibration block lists it.
std::vector<Json> sets_of(const Json& calibration, const Json& sanity) {
  if (const Json* merged = find_member(calibration, "merged")) {
    const Json* sets = merged->is_object() ? find_member(*merged, "sets") : nullptr;
    if (!sets || !sets->is_array()) fail("calibration.merged has no list 'sets'");
    return sets->get<std::vector<Json>>();
  }
  Json set = Json::object();
  for (const char* key : {"plan_sha256", "prompts_sha256", "n_prompts", "n_tokens", "longest"})
    set[key] = member_of(calibration, key);
  if (calibration.contains("encoder_tokens")) set["encoder_tokens"] = calibration["encoder_tokens"];
  set["sanity"] = sanity;
  return {set};
}

int64_t count_of(const Json& set, const char* key) {
  constexpr int64_t kMost = int64_t{1} << 46;  // more than any statistics hold
  const int64_t n = get_int(set, key, "calibration.");
  if (n < 0 || n > kMost) fail("calibration." + std::string(key) + " is " + std::to_string(n));
  return n;
}

/// The mean over all tokens that any set predicted; null where none did.
Json united_sanity(const std::vector<Json>& sets) {
  double sum = 0, uniform = 0;
  int64_t n_tokens = 0;
  for (const Json& set : sets) {
    const Json& sanity = member_of(set, "sanity");
    if (!sanity.is_object()) continue;
    const int64_t n = count_of(sanity, "n_tokens");
    sum += get_number(sanity, "mean_nll") * static_cast<double>(n);
    uniform = get_number(sanity, "uniform_nll");
    n_tokens += n;
  }
  if (n_tokens == 0) return nullptr;
  return {{"mean_nll", sum / static_cast<double>(n_tokens)}, {"uniform_nll", uniform}, {"n_tokens", n_tokens}};
}

/// The hash of the sorted hashes.
std::string united_hash(const std::vector<Json>& sets, const char* key) {
  std::vector<std::string> hashes;
  for (const Json& set : sets) hashes.push_back(get_string(set, key, "calibration."));
  std::sort(hashes.begin(), hashes.end());
  Sha256 sha;
  for (const std::string& hash : hashes) sha.update(hash + "\n");
  return sha.hex();
}

void describe(std::vector<Json> sets, Json calibration, RunRecord& run) {
  std::sort(sets.begin(), sets.end(),
            [](const Json& a, const Json& b) { return member_of(a, "plan_sha256") < member_of(b, "plan_sha256"); });
  int64_t n_prompts = 0, n_tokens = 0, encoder_tokens = -1, longest = 0;
  for (const Json& set : sets) {
    n_prompts += count_of(set, "n_prompts");
    n_tokens += count_of(set, "n_tokens");
    if (set.contains("encoder_tokens"))
      encoder_tokens = std::max<int64_t>(encoder_tokens, 0) + count_of(set, "encoder_tokens");
    longest = std::max(longest, count_of(set, "longest"));
  }
  run.plan_sha256 = united_hash(sets, "plan_sha256");
  calibration["prompts_sha256"] = united_hash(sets, "prompts_sha256");
  calibration["plan_sha256"] = run.plan_sha256;
  calibration["n_prompts"] = n_prompts;
  calibration["n_tokens"] = n_tokens;
  if (encoder_tokens >= 0) calibration["encoder_tokens"] = encoder_tokens;
  calibration["longest"] = longest;
  run.sanity = united_sanity(sets);
  calibration["merged"] = {{"exact_passes", 1}, {"sets", sets}};
  run.calibration = calibration;
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
  if (run.run.calibration != set.calibration)
    fail_other(name, set.name, "its calibration block", run.run.calibration, set.calibration);
  if (run.run.sanity != set.sanity)
    fail_other(name, set.name, "the sanity check of the same prompts by the same model", run.run.sanity, set.sanity);
  set.sum = merge(set.sum, run);
  set.shards[shard.index] = name;
}

void RunUnion::add(const std::string& name, Statistics run) {
  while_doing(quoted(name), [&] { check_described(run.run); });
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
  set.calibration = run.run.calibration;
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
  std::vector<Json> parts;
  for (auto& entry : sets_) {
    auto& set = entry.second;
    set.sum.run.shard.reset();
    for (Json& part : while_doing(quoted(set.name), [&] { return sets_of(set.calibration, set.sanity); }))
      parts.push_back(std::move(part));
    if (all) check_disjoint(all->run, names, set.sum.run, set.name);
    all = all ? merge(*all, set.sum) : std::move(set.sum);
    names += (names.empty() ? "" : ", ") + set.name;
  }
  if (sets_.size() > 1) describe(std::move(parts), first_.calibration, all->run);
  return std::move(*all);
}

}  // namespace kvcal
