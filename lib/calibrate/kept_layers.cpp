#include "calibrate/kept_layers.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <set>
#include <utility>

#include "base/available_memory.h"
#include "base/checksum.h"

namespace kvcal {
namespace {

/// Reads without mapping: the pages are the run's to map and to give back.
void add_tensor(const Checkpoint& checkpoint, const std::string& name, Checksum& sum) {
  constexpr uint64_t kPiece = uint64_t{1} << 20;  // a multiple of 8, so that pieces do not change the sum
  std::vector<std::byte> piece(kPiece);
  const TensorInfo& info = *checkpoint.find(name);
  const std::string header = name + " " + str(info);
  sum.update(std::as_bytes(std::span(header.data(), header.size())));
  for (uint64_t at = 0; at < info.bytes; at += kPiece) {
    const auto part = std::span(piece).first(std::min(kPiece, info.bytes - at));
    checkpoint.read(name, at, part);
    sum.update(part);
  }
}

int layers_apart(const OpenedModel& model, const MemoryPlan& plan, uint64_t rows_bytes) {
  const bool beside = plan.on_device && !plan.one_memory;
  const uint64_t room = beside ? available_memory() : plan.budget, taken = beside ? plan.host : plan.total();
  const uint64_t available = room - std::min(room, taken);
  const uint64_t n_layers = model.spec().layers.size();
  const uint64_t most = std::min(n_layers, available / 2 / std::max<uint64_t>(rows_bytes, 1));
  return most == 0 ? 0 : static_cast<int>((n_layers + most - 1) / most);
}

}  // namespace

std::vector<uint64_t> KeptLayers::sums_of(const OpenedModel& model) {
  const Checkpoint& checkpoint = model.checkpoint;
  const ModelSpec& spec = model.spec();
  const TextPrefix& prefix = model.weights.prefix;
  std::set<std::string> others(checkpoint.names().begin(), checkpoint.names().end());
  const auto take = [&](const std::string& below) {
    Checksum sum;
    for (const std::string& name : checkpoint.names_below(below))
      if (others.erase(name) > 0) add_tensor(checkpoint, name, sum);
    return sum.value();
  };
  std::vector<uint64_t> sums = {0};
  for (int layer = 0; layer < static_cast<int>(spec.layers.size()); ++layer)
    if (!spec.is_mtp(layer)) sums.push_back(take(prefix.model + spec.names_of(layer)));
  for (const std::string& name : checkpoint.names_below(prefix.model + spec.final_norm)) others.erase(name);
  if (!prefix.lm_head.empty())
    for (const std::string& name : checkpoint.names_below(prefix.head_module())) others.erase(name);
  Checksum rest;
  for (const std::string& name : others) add_tensor(checkpoint, name, rest);
  sums.front() = rest.value();
  return sums;
}

void KeptLayers::begin(const OpenedModel& model, Json identity, const MemoryPlan& plan, uint64_t rows_bytes) {
  identity.at("model").erase("weights_fingerprint");
  std::vector<uint64_t> sums = sums_of(model);
  int same = 0;
  if (identity == identity_ && sums.front() == sums_.front())
    while (same + 1 < static_cast<int>(sums.size()) &&
           sums[static_cast<size_t>(same) + 1] == sums_[static_cast<size_t>(same) + 1])
      ++same;
  rows_.erase(rows_.upper_bound(same), rows_.end());
  layers_done_ = rows_.empty() ? 0 : rows_.rbegin()->first;
  identity_ = std::move(identity);
  sums_ = std::move(sums);
  if (rows_.empty()) apart_ = layers_apart(model, plan, rows_bytes);
}

void KeptLayers::restore(std::span<const Tensor> rows) {
  const auto& kept = rows_.at(layers_done_);
  assert(kept.size() == rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    assert(kept[i].size() == rows[i].bytes());
    std::memcpy(rows[i].data, kept[i].data(), kept[i].size());
  }
}

void KeptLayers::save(int layers_done, std::span<const Tensor> rows) {
  auto& kept = rows_[layers_done];
  kept.clear();
  for (const Tensor& t : rows) {
    const auto* const bytes = static_cast<const std::byte*>(t.data);
    kept.emplace_back(bytes, bytes + t.bytes());
  }
}

void KeptLayers::observe(Observer& observer, RunRecord) {
  Statistics earlier = std::exchange(statistics_, {});
  std::erase_if(earlier.caches, [&](const CacheStatistics& c) { return c.layout.layer >= layers_done_; });
  std::erase_if(earlier.states, [&](const StateStatistics& s) { return s.layout.layer >= layers_done_; });
  if (layers_done_ > 0) observer.restore(std::move(earlier));
}

}  // namespace kvcal
