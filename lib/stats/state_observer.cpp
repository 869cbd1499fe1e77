#include "stats/state_observer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "stats/fetched.h"

namespace kvcal {
namespace {

/// An estimate for the memory plan: normally distributed numbers of many sizes fill about 30 octaves of 128 codes.
constexpr int64_t kCodesPerHead = 30 * 128;

std::string label(const StateLayout& layout) { return "layer " + std::to_string(layout.layer) + ", state"; }

constexpr const char* kBug = "; this is a bug of this program, please report it";

}  // namespace

StateObserver::StateObserver(const ModelSpec& spec, const ObservationPlan& plan, ThreadPool& pool, Ops* device)
    : plan_(plan), pool_(pool), device_(device) {
  for (const StateLayout& layout : state_layouts(spec)) layers_.push_back({layout});
  for (const Segment& s : plan.segments) {
    PlannedSequence& sequence = sequences_[s.sequence];
    sequence.segments.push_back(s);
    sequence.n_tokens += s.n_tokens;
  }
  for (auto& [sequence, planned] : sequences_) std::ranges::sort(planned.segments, {}, &Segment::first_position);
}

Provenance StateObserver::place_of(int64_t sequence, int64_t passed) const {
  const int64_t position = passed - 1;
  const std::vector<Segment>& segments = sequences_.at(sequence).segments;
  const auto after = std::ranges::upper_bound(segments, position, {}, &Segment::first_position);
  const Segment& s = *std::prev(after);
  return {s.pass, s.prompt, s.prompt_offset + position - s.first_position, position, 0, 0};
}

void StateObserver::count_state(int layer, int64_t sequence, int64_t passed, const Tensor& state) {
  const auto found = std::ranges::find(layers_, layer, [](const Layer& l) { return l.layout.layer; });
  if (found == layers_.end()) fail("layer " + std::to_string(layer) + " has no state that is counted" + kBug);
  while_doing("counting " + label(found->layout), [&] {
    const StateLayout& layout = found->layout;
    if (found->done) fail("got a state after the layer was finished");
    if (state.dtype != DType::F32 || state.elements() != layout.heads * layout.head_size())
      fail("got " + str(state) + ", expected " + std::to_string(layout.heads * layout.head_size()) + " F32");
    const auto planned = sequences_.find(sequence);
    if (planned == sequences_.end()) fail("sequence " + std::to_string(sequence) + " is not planned");
    int64_t& before = found->passed[sequence];
    if (const int64_t next = next_counted(before, planned->second.n_tokens); passed != next || passed == before)
      fail("sequence " + std::to_string(sequence) + " after " + std::to_string(passed) + " tokens, expected " +
           std::to_string(next) + kBug);
    before = passed;
    if (!found->tables) found->tables.emplace(layout, plan_.n_passes, static_cast<int64_t>(plan_.prompt_ids.size()));
    if (state.device != Device::Host && !device_) fail("got a state that is not on the host, without its device");
    const Storage copy = state.device == Device::Host ? Storage() : fetched(*device_, device_->mark(), state);
    const Tensor on_host = state.device == Device::Host ? state : copy.tensor();
    Provenance at = place_of(sequence, passed);
    found->tables->add(on_host, at, pool_);
    const auto repeats = plan_.repeats.find(sequence);
    if (repeats == plan_.repeats.end()) return;
    for (const Repeat& repeat : repeats->second) {
      at.pass = repeat.pass;
      found->passed[repeat.sequence] = passed;
      found->tables->add(on_host, at, pool_);
    }
  });
}

uint64_t StateObserver::expected() const {
  uint64_t n = 0;
  for (const auto& [sequence, planned] : sequences_)
    for (int64_t passed = 0; passed < planned.n_tokens; ++n) passed = next_counted(passed, planned.n_tokens);
  return n;
}

void StateObserver::check_counted(const Layer& layer) const {
  for (const auto& [sequence, planned] : sequences_) {
    const auto found = layer.passed.find(sequence);
    const int64_t passed = found == layer.passed.end() ? 0 : found->second;
    if (passed != planned.n_tokens)
      fail(label(layer.layout) + ": sequence " + std::to_string(sequence) + " was counted up to token " +
           std::to_string(passed) + ", expected " + std::to_string(planned.n_tokens) + kBug);
  }
}

void StateObserver::layer_done(int layer) {
  const auto found = std::ranges::find(layers_, layer, [](const Layer& l) { return l.layout.layer; });
  if (found == layers_.end() || found->done) return;
  check_counted(*found);
  if (!found->tables)
    found->tables.emplace(found->layout, plan_.n_passes, static_cast<int64_t>(plan_.prompt_ids.size()));
  if (const NonFinite* first = found->tables->first_non_finite()) {
    const Provenance& at = first->where;
    fail(label(found->layout) + ", head " + std::to_string(at.head) + ": " + (first->is_nan ? "NaN" : "infinity") +
         " in prompt " + quoted(plan_.prompt_ids[static_cast<size_t>(at.prompt)]) + " after token " +
         std::to_string(at.token) + " (pass " + std::to_string(at.pass) + ", position " + std::to_string(at.position) +
         "); expected finite values: is the checkpoint damaged, or its format misread?");
  }
  found->done = {found->layout, found->tables->encode()};
  found->tables.reset();
  found->passed.clear();
}

std::vector<StateStatistics> StateObserver::lend_finished() {
  std::vector<StateStatistics> finished;
  for (Layer& layer : layers_) {
    if (!layer.done) break;
    finished.push_back(*std::exchange(layer.done, std::nullopt));
  }
  return finished;
}

void StateObserver::restore(std::vector<StateStatistics> earlier) {
  if (earlier.size() > layers_.size())
    fail("there are states of " + std::to_string(earlier.size()) + " layers, the model has " +
         std::to_string(layers_.size()));
  for (size_t i = 0; i < earlier.size(); ++i) {
    if (earlier[i].layout != layers_[i].layout) fail(label(earlier[i].layout) + " is another than the model's");
    if (earlier[i].counts.n_tokens != expected())
      fail(label(earlier[i].layout) + " has " + std::to_string(earlier[i].counts.n_tokens) + " states, expected " +
           std::to_string(expected()));
    layers_[i].done = std::move(earlier[i]);
  }
}

std::vector<StateStatistics> StateObserver::take() {
  std::vector<StateStatistics> states;
  for (Layer& layer : layers_) {
    if (!layer.done) fail(label(layer.layout) + " was never finished");
    states.push_back(*std::exchange(layer.done, std::nullopt));
  }
  return states;
}

int64_t StateObserver::bytes_needed(const ModelSpec& spec, int64_t n_prompts, int n_passes) {
  int64_t dense = 0, encoded = 0;
  for (const StateLayout& layout : state_layouts(spec)) {
    dense = std::max(dense, StateTables::bytes(layout));
    encoded += layout.heads * kCodesPerHead * static_cast<int64_t>(sizeof(std::pair<uint16_t, uint64_t>)) +
               int64_t{2} * n_passes * n_prompts;
  }
  return dense + encoded;
}

}  // namespace kvcal
