#include "stats/state_observer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

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

Segment StateObserver::last_token(int64_t sequence, int64_t passed) const {
  const int64_t position = passed - 1;
  const std::vector<Segment>& segments = sequences_.at(sequence).segments;
  const auto after = std::ranges::upper_bound(segments, position, {}, &Segment::first_position);
  Segment last = *std::prev(after);
  last.prompt_offset += position - last.first_position;
  last.first_position = position;
  last.row = 0;
  last.n_tokens = 1;
  return last;
}

std::span<const Repeat> StateObserver::repeats_of(int64_t sequence) const {
  const auto found = plan_.repeats.find(sequence);
  return found == plan_.repeats.end() ? std::span<const Repeat>() : found->second;
}

StateObserver::Layer* StateObserver::layer_of(int layer) {
  const auto found = std::ranges::find(layers_, layer, [](const Layer& l) { return l.layout.layer; });
  return found == layers_.end() ? nullptr : &*found;
}

StateTables& StateObserver::on_host(Layer& layer) {
  if (!layer.tables) layer.tables.emplace(layer.layout, plan_.n_passes, static_cast<int64_t>(plan_.prompt_ids.size()));
  return *layer.tables;
}

void StateObserver::check_place(Layer& layer, const PassedState& s) {
  const StateLayout& layout = layer.layout;
  if (s.state.dtype != DType::F32 || s.state.elements() != layout.heads * layout.head_size())
    fail("got " + str(s.state) + ", expected " + std::to_string(layout.heads * layout.head_size()) + " F32");
  const auto planned = sequences_.find(s.sequence);
  if (planned == sequences_.end()) fail("sequence " + std::to_string(s.sequence) + " is not planned");
  int64_t& before = layer.passed[s.sequence];
  if (const int64_t next = next_counted(before, planned->second.n_tokens); s.passed != next || s.passed == before)
    fail("sequence " + std::to_string(s.sequence) + " after " + std::to_string(s.passed) + " tokens, expected " +
         std::to_string(next) + kBug);
  before = s.passed;
}

void StateObserver::count_states(int layer, std::span<const PassedState> states) {
  Layer* found = layer_of(layer);
  if (!found) fail("layer " + std::to_string(layer) + " has no state that is counted" + kBug);
  while_doing("counting " + label(found->layout), [&] {
    if (found->done || found->waiting) fail("got a state after the layer was finished");
    std::vector<Tensor> counted;
    std::vector<Segment> last_tokens;
    for (const PassedState& s : states) {
      check_place(*found, s);
      counted.push_back(s.state);
      last_tokens.push_back(last_token(s.sequence, s.passed));
      for (const Repeat& repeat : repeats_of(s.sequence)) {
        found->passed[repeat.sequence] = s.passed;
        counted.push_back(s.state);
        last_tokens.push_back(last_tokens.back());
        last_tokens.back().sequence = repeat.sequence;
        last_tokens.back().pass = repeat.pass;
      }
    }
    count(*found, counted, last_tokens);
  });
}

void StateObserver::count(Layer& layer, std::span<const Tensor> states, std::span<const Segment> last_tokens) {
  if (states.empty()) return;
  if (states.front().device != Device::Host) {
    if (!device_) fail("got a state that is not on the host, without a device that counts it");
    if (!ranks_) ranks_.emplace(plan_);
    if (!layer.on_device) layer.on_device.emplace(*device_, layer.layout, *ranks_);
    layer.on_device->add(states, last_tokens);
    return;
  }
  for (size_t i = 0; i < states.size(); ++i) {
    const Segment& last = last_tokens[i];
    on_host(layer).add(states[i], {last.pass, last.prompt, last.prompt_offset, last.first_position, 0, 0}, pool_);
  }
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

void StateObserver::finish(Layer& layer) {
  layer.waiting = false;
  StateTables& tables = on_host(layer);
  if (layer.on_device) layer.on_device->fold_into(tables, pool_);
  if (const NonFinite* first = tables.first_non_finite()) {
    const Provenance& at = first->where;
    fail(label(layer.layout) + ", head " + std::to_string(at.head) + ": " + (first->is_nan ? "NaN" : "infinity") +
         " in prompt " + quoted(plan_.prompt_ids[static_cast<size_t>(at.prompt)]) + " after token " +
         std::to_string(at.token) + " (pass " + std::to_string(at.pass) + ", position " + std::to_string(at.position) +
         "); expected finite values: is the checkpoint damaged, or its format misread?");
  }
  layer.done = {layer.layout, tables.encode()};
  layer.tables.reset();
  layer.on_device.reset();
  layer.passed.clear();
}

void StateObserver::finish_waiting() {
  for (Layer& layer : layers_)
    if (layer.waiting) finish(layer);
}

void StateObserver::layer_done(int layer) {
  finish_waiting();  // of the layer before, while the device works on this one
  Layer* found = layer_of(layer);
  if (!found || found->done) return;
  check_counted(*found);
  if (!found->on_device) return finish(*found);
  found->on_device->close();
  found->waiting = true;
}

std::vector<StateStatistics> StateObserver::lend_finished() {
  finish_waiting();
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
  finish_waiting();
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
