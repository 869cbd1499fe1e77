#include "stats/state_tables.h"

#include <algorithm>

#include "base/position_bucket.h"
#include "tensor/dtype.h"

namespace kvcal {
namespace {

constexpr size_t kCodes = 32768;
constexpr uint16_t kInfinity = 0x7F80;

uint16_t code_of(float x) { return static_cast<uint16_t>(to_bf16(x).bits & 0x7FFF); }

}  // namespace

StateTables::StateTables(const StateLayout& layout, int n_passes, int64_t n_prompts)
    : layout_(layout),
      n_prompts_(n_prompts),
      heads_(static_cast<size_t>(layout.heads)),
      prompt_absmax_(static_cast<size_t>(n_passes) * static_cast<size_t>(n_prompts)) {
  for (Head& head : heads_) head.codes.resize(kCodes);
}

int64_t StateTables::bytes(const StateLayout& layout) {
  return layout.heads * static_cast<int64_t>(kCodes * sizeof(uint64_t));
}

/// Returns the largest finite code.
uint16_t StateTables::Head::add(const float* x, int64_t n, const Provenance& at) {
  uint16_t largest = 0;
  bool finite = true;
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t code = code_of(x[i]);
    ++codes[code];
    if (code < kInfinity)
      largest = std::max(largest, code);
    else
      finite = false;
  }
  const auto place_of = [&](const auto& is_it) {
    Provenance place = at;
    while (!is_it(code_of(x[place.channel]))) ++place.channel;
    return place;
  };
  if (!finite) {
    const Provenance place = place_of([](uint16_t code) { return code >= kInfinity; });
    keep_non_finite({place, code_of(x[place.channel]) > kInfinity});
  }
  const bool any = finite || std::any_of(x, x + n, [](float v) { return code_of(v) < kInfinity; });
  if (!any || (seen && largest < absmax)) return largest;
  keep_absmax(largest, place_of([&](uint16_t code) { return code == largest; }));
  return largest;
}

void StateTables::Head::keep_absmax(uint16_t code, const Provenance& at) {
  if (seen && (code < absmax || (code == absmax && !(at < where)))) return;
  absmax = code;
  where = at;
  seen = true;
}

void StateTables::Head::keep_non_finite(const NonFinite& found) {
  if (!non_finite || found.where < non_finite->where) non_finite = found;
}

void StateTables::Head::add(const CountedHead& counted) {
  for (size_t c = 0; c < kCodes; ++c) codes[c] += counted.codes[c];
  if (counted.absmax) keep_absmax(*counted.absmax, counted.where);
  if (counted.non_finite) keep_non_finite(*counted.non_finite);
}

void StateTables::add(const Tensor& state, const Provenance& at, ThreadPool& pool) {
  const int64_t n = layout_.head_size();
  std::vector<uint16_t> largest(heads_.size());
  pool.parallel_for(layout_.heads, [&](int64_t head, int) {
    const auto h = static_cast<size_t>(head);
    Provenance first = at;
    first.head = head;
    first.channel = 0;
    largest[h] = heads_[h].add(state.as<float>() + head * n, n, first);
  });
  const uint16_t code = *std::ranges::max_element(largest);
  const auto bucket = static_cast<size_t>(position_bucket(at.position));
  if (bucket >= position_absmax_.size()) position_absmax_.resize(bucket + 1);
  position_absmax_[bucket] = std::max(position_absmax_[bucket], code);
  uint16_t& prompt = prompt_absmax_[static_cast<size_t>((at.pass - 1) * n_prompts_ + at.prompt)];
  prompt = std::max(prompt, code);
  ++n_states_;
}

void StateTables::add(const CountedSite& counted, ThreadPool& pool) {
  pool.parallel_for(layout_.heads, [&](int64_t head, int) {
    heads_[static_cast<size_t>(head)].add(counted.heads[static_cast<size_t>(head)]);
  });
  const auto raise = [](std::vector<uint16_t>& to, const std::vector<uint16_t>& codes) {
    to.resize(std::max(to.size(), codes.size()));
    for (size_t i = 0; i < codes.size(); ++i) to[i] = std::max(to[i], codes[i]);
  };
  raise(position_absmax_, counted.position_absmax);
  raise(prompt_absmax_, counted.prompt_absmax);
  n_states_ += counted.n_tokens;
}

const NonFinite* StateTables::first_non_finite() const {
  const NonFinite* first = nullptr;
  for (const Head& head : heads_)
    if (const auto& found = head.non_finite; found && (!first || found->where < first->where)) first = &*found;
  return first;
}

HeadStatistics StateTables::Head::encode() const {
  HeadStatistics head;
  MagnitudeHistogram& h = head.histogram;
  h.zeros = codes[0];
  h.infinities = codes[kInfinity];
  for (size_t c = kInfinity + 1; c < kCodes; ++c) h.nans += codes[c];
  for (size_t c = 1; c < kInfinity; ++c)
    if (codes[c] != 0) h.counts.emplace_back(static_cast<uint16_t>(c), codes[c]);
  head.absmax = absmax;
  head.where = where;
  return head;
}

SiteStatistics StateTables::encode() const {
  SiteStatistics site;
  for (const Head& head : heads_) site.heads.push_back(head.encode());
  site.position_absmax = position_absmax_;
  site.prompt_absmax = prompt_absmax_;
  site.n_tokens = n_states_;
  return site;
}

}  // namespace kvcal
