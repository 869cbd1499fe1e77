#include "checkpoint/weight_binder.h"

#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "checkpoint/quantization.h"

namespace kvcal {

struct WeightBinder::Claims {
  std::mutex mutex;
  std::set<std::string, std::less<>> names;
};

namespace {

std::string reading(const Checkpoint& checkpoint) { return "reading " + quoted(checkpoint.folder().string()) + ": "; }

std::string weight_format(const Checkpoint& checkpoint) {
  const QuantizationSummary summary = describe_quantization(checkpoint.config(), checkpoint.folder());
  return summary.weights_quantized ? summary.method + (summary.detail.empty() ? "" : " (" + summary.detail + ")")
                                   : "one that config.json does not name";
}

/// "x.qweight" and the like in place of "x.weight": the name of a tensor that a quantised format stores instead, or "".
std::string quantized_twin(const Checkpoint& checkpoint, std::string_view full) {
  constexpr std::string_view kWeight = ".weight";
  std::string stem(full.ends_with(kWeight) ? full.substr(0, full.size() - kWeight.size()) : full);
  for (const char* suffix : {".qweight", ".weight_packed", "_packed", "_blocks"})
    if (checkpoint.has(stem + suffix)) return stem + suffix;
  return "";
}

}  // namespace

WeightBinder::WeightBinder(const Checkpoint& checkpoint, std::string prefix)
    : WeightBinder(checkpoint, std::move(prefix), std::make_shared<Claims>()) {}

WeightBinder::WeightBinder(const Checkpoint& checkpoint, std::string prefix, std::shared_ptr<Claims> claims)
    : checkpoint_(&checkpoint), prefix_(std::move(prefix)), claims_(std::move(claims)) {}

WeightBinder WeightBinder::at(std::string_view sub) const {
  return {*checkpoint_, prefix_ + std::string(sub), claims_};
}

const TensorInfo* WeightBinder::info(std::string_view name) const {
  return checkpoint_->find(prefix_ + std::string(name));
}

Tensor WeightBinder::operator()(std::string_view name, const Shape& shape) const {
  const std::string full = prefix_ + std::string(name);
  const TensorInfo* found = checkpoint_->find(full);
  if (!found) fail_missing(full);
  return load(full, *found, shape);
}

Tensor WeightBinder::optional(std::string_view name, const Shape& shape) const {
  const std::string full = prefix_ + std::string(name);
  const TensorInfo* found = checkpoint_->find(full);
  return found ? load(full, *found, shape) : Tensor{};
}

void WeightBinder::claim(std::string_view name) const {
  const std::lock_guard lock(claims_->mutex);
  claims_->names.insert(prefix_ + std::string(name));
}

Tensor WeightBinder::load(const std::string& full, const TensorInfo& found, const Shape& shape) const {
  if (!is_plain(found))
    fail(reading(*checkpoint_) + "tensor " + quoted(full) + " is " + str(found) + ", a quantised weight; its format, " +
         weight_format(*checkpoint_) + ", is not read yet: use the BF16 checkpoint");
  if (!(found.shape == shape))
    fail(reading(*checkpoint_) + "tensor " + quoted(full) + " has shape " + str(found.shape) + ", expected " +
         str(shape) + "; is config.json from another checkpoint?");
  {
    const std::lock_guard lock(claims_->mutex);
    claims_->names.insert(full);
  }
  return while_doing("tensor " + quoted(full), [&] { return checkpoint_->tensor(full); });
}

void WeightBinder::fail_missing(const std::string& full) const {
  const std::string missing = reading(*checkpoint_) + "tensor " + quoted(full) + " is missing";
  if (const std::string twin = quantized_twin(*checkpoint_, full); !twin.empty())
    fail(missing + ", but " + quoted(twin) + " is there: a quantised weight; its format, " +
         weight_format(*checkpoint_) + ", is not read yet: use the BF16 checkpoint");
  // Only the siblings are compared: a checkpoint may have hundreds of thousands of names.
  const std::span<const std::string> siblings = checkpoint_->names_below(prefix_);
  if (siblings.empty())
    fail(missing + ", and so is everything below " + quoted(prefix_) + "; is config.json from another checkpoint?");
  constexpr size_t kMostCompared = 20000;
  const std::string near = nearest_match(full, siblings.first(std::min(siblings.size(), kMostCompared)));
  fail(missing + (near.empty() ? "" : "; the nearest name is " + quoted(near)) +
       "; is config.json from another checkpoint?");
}

void WeightBinder::prefetch() const { checkpoint_->prefetch(checkpoint_->names_below(prefix_)); }
void WeightBinder::release() const { checkpoint_->drop(checkpoint_->names_below(prefix_)); }
uint64_t WeightBinder::bytes() const { return checkpoint_->bytes_of(checkpoint_->names_below(prefix_)); }

SkipReport WeightBinder::report(const SkipRules& rules) const {
  SkipReport report;
  std::map<std::string, SkipReport::Skipped, std::less<>> by_rule;
  const std::lock_guard lock(claims_->mutex);
  for (const std::string& name : checkpoint_->names()) {
    if (claims_->names.contains(name)) {
      ++report.n_claimed;
      continue;
    }
    const std::string_view rule = rules.rule_for(name);
    if (rule.empty()) {
      report.unclaimed.push_back(name);
      continue;
    }
    auto& skipped = by_rule.try_emplace(std::string(rule), SkipReport::Skipped{std::string(rule), 0, 0}).first->second;
    ++skipped.n_tensors;
    skipped.bytes += checkpoint_->find(name)->bytes;
  }
  for (auto& [rule, skipped] : by_rule) report.skipped.push_back(std::move(skipped));
  return report;
}

}  // namespace kvcal
