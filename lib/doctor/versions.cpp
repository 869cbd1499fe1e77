#include "doctor/versions.h"

#include "deployment/cache_choices.h"

namespace kvcal {

std::vector<Facts> with_each_version(const Facts& facts) {
  std::vector<Facts> each;
  const bool vllm = facts.is(Engine::Vllm);
  if (facts.version || (!vllm && !facts.is(Engine::Sglang))) return each;
  const std::string asked = cache_request(facts).asked;
  EngineVersion version = vllm ? EngineVersion{0, 9, 0} : EngineVersion{0, 5, 8};
  for (; version <= newest_known(facts.server); ++(vllm ? version.minor : version.patch)) {
    // Not one that lacks the type that was asked for.
    if (!asked.empty() && has_cache_type(facts.server, version, asked) == Trait::No) continue;
    each.push_back(facts);
    each.back().version = version;
    resolve(each.back());
  }
  return each;
}

std::string versions_where(const std::vector<Facts>& each, const std::function<bool(size_t)>& holds) {
  std::vector<size_t> found;
  for (size_t i = 0; i < each.size(); ++i)
    if (holds(i)) found.push_back(i);
  if (found.empty() || found.size() == each.size()) return "";
  const std::string name = std::string(name_of(each[0].server)) + " ";
  const auto version = [&](size_t i) { return str(*each[i].version); };
  const size_t first = found.front(), last = found.back();
  if (last - first + 1 != found.size()) return "some versions of " + std::string(name_of(each[0].server));
  if (first == last) return name + version(first);
  if (last + 1 == each.size()) return name + version(first) + " or later";
  return first == 0 ? name + "before " + version(last + 1) : name + version(first) + " to " + version(last);
}

}  // namespace kvcal
