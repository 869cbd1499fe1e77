#include "evaluate/prompt_groups.h"

#include <algorithm>
#include <numeric>

#include "base/token_kind.h"

namespace kvcal {
namespace {

/// Ids, which from the first image on are the prompt's own.
std::vector<int64_t> comparable_ids(const PromptTokens& prompt, int64_t index) {
  std::vector<int64_t> ids(prompt.ids.begin(), prompt.ids.end());
  if (!prompt.encoder) return ids;
  const auto is_image = [](uint8_t kind) { return role_of_kind(kind) == static_cast<size_t>(TokenRole::Image); };
  const auto first = std::ranges::find_if(prompt.kinds, is_image) - prompt.kinds.begin();
  std::fill(ids.begin() + (prompt.kinds.empty() ? 0 : first), ids.end(), -1 - index);
  return ids;
}

/// The prompts as a tree of their beginnings: sorted, with the tokens that each has in common with the one before.
class Beginnings {
 public:
  explicit Beginnings(const std::vector<PromptTokens>& prompts) : sorted_(prompts.size()), same_(prompts.size()) {
    for (size_t i = 0; i < prompts.size(); ++i) ids_.push_back(comparable_ids(prompts[i], static_cast<int64_t>(i)));
    std::iota(sorted_.begin(), sorted_.end(), 0);
    std::ranges::stable_sort(
        sorted_, {}, [&](size_t i) -> const auto& { return ids_[i]; });
    for (size_t i = 1; i < sorted_.size(); ++i)
      same_[i] = std::ranges::mismatch(ids_[sorted_[i - 1]], ids_[sorted_[i]]).in1 - ids_[sorted_[i - 1]].begin();
  }

  PromptGroups groups() {
    out_.prompts.resize(sorted_.size());
    for (size_t i = 0; i < sorted_.size(); ++i) {
      out_.prompts[sorted_[i]].repeated = same_[i];
      out_.n_tokens += length(i);
      out_.n_counted += length(i) - same_[i];
    }
    if (sorted_.size() > 1) out_.common = common(0, sorted_.size());
    if (!sorted_.empty()) divide(0, sorted_.size(), 0);
    return std::move(out_);
  }

 private:
  int64_t length(size_t i) const { return static_cast<int64_t>(ids_[sorted_[i]].size()); }

  /// Tokens that all of [from, to) begin with.
  int64_t common(size_t from, size_t to) const {
    return to - from == 1 ? length(from)
                          : *std::min_element(same_.begin() + static_cast<std::ptrdiff_t>(from) + 1,
                                              same_.begin() + static_cast<std::ptrdiff_t>(to));
  }

  void join(size_t from, size_t to, int64_t shared) {
    for (size_t i = from; i < to; ++i) {
      PromptGroups::Part& part = out_.prompts[sorted_[i]];
      part.shared = shared;
      part.group = out_.n_groups;
    }
    ++out_.n_groups;
    out_.any_joined = out_.any_joined || to - from > 1;
  }

  bool is_one_group(size_t from, size_t to, int64_t shared, int64_t together) const {
    int64_t own = 0;
    for (size_t i = from; i < to; ++i) own += length(i) - together;
    const bool all = from == 0 && to == sorted_.size() && shared == 0;
    return own == 0 || (!all && static_cast<int64_t>(to - from) * (together - shared) > own);
  }

  /// Of [from, to), which begin with the same `shared` tokens, as others do.
  void divide(size_t from, size_t to, int64_t shared) {
    const int64_t together = common(from, to);
    if (to - from == 1 || is_one_group(from, to, shared, together)) return join(from, to, shared);
    for (; length(from) == together; ++from) out_.prompts[sorted_[from]].shared = together;
    for (size_t begin = from, i = from + 1; i <= to; ++i)
      if (i == to || same_[i] == together) {
        divide(begin, i, together);
        begin = i;
      }
  }

  std::vector<std::vector<int64_t>> ids_;  // by prompt
  std::vector<size_t> sorted_;             // prompts
  std::vector<int64_t> same_;              // of each of them with the one before
  PromptGroups out_;
};

}  // namespace

PromptGroups group_prompts(const std::vector<PromptTokens>& prompts) { return Beginnings(prompts).groups(); }

}  // namespace kvcal
