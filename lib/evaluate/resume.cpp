#include "evaluate/resume.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/number_text.h"
#include "base/sha256.h"

namespace kvcal {
namespace {

void append(std::string& text, const std::vector<float>& scales) {
  for (const float scale : scales) text += shortest_float(scale) + " ";
  text += "; ";
}

std::string text_of(const Variant& variant) {
  const StateFormat& state = variant.state;
  std::string text = variant.name + " " + variant.format + " state";
  for (const int64_t x : {static_cast<int64_t>(state.type), static_cast<int64_t>(state.scale), state.chunk})
    text += " " + std::to_string(x);
  text += "\n";
  if (variant.index_keys) text += "index keys\n";
  for (const CacheSites& sites : variant.caches) {
    if (const ProbabilityRounding& p = sites.probabilities; p.factor > 0)
      text += "probabilities " + formatted("%g", p.factor) + (p.sinks_last ? " sinks last\n" : "\n");
    for (const auto* site : {&sites.key, &sites.value, &sites.query}) {
      if (!*site) {
        text += "as it is; ";
        continue;
      }
      text += std::to_string(static_cast<int>((*site)->format)) + ": ";
      append(text, (*site)->write);
      append(text, (*site)->read);
      if ((*site)->moved == Moved::No) continue;
      text += "moved " + std::to_string(static_cast<int>((*site)->moved)) + ": ";
      append(text, (*site)->means);
    }
    text += "\n";
  }
  return text;
}

}  // namespace

void EvaluationFolder::write_file(int slot, const Tensors& rows, const SafetensorsMetadata& metadata) {
  SafetensorsWriter writer(file(slot), Existing::Replace, metadata, Seal::Sha256);
  for (const auto& [name, tensor] : rows) writer.declare(name, tensor.dtype, tensor.shape);
  for (const auto& [name, tensor] : rows) writer.write(name, tensor);
  writer.commit();
}

namespace {

constexpr int64_t kTokenFields = 6;

void to_fields(const ComparedToken& token, double* fields) {
  const PredictionDifference& d = token.difference;
  const int flags = (token.has_next ? 1 : 0) + (d.finite ? 2 : 0) + (d.same_top ? 4 : 0);
  const double all[kTokenFields] = {static_cast<double>(token.prompt),
                                    static_cast<double>(token.position),
                                    static_cast<double>(flags),
                                    d.kl,
                                    d.nll_reference,
                                    d.nll_variant};
  std::ranges::copy(all, fields);
}

ComparedToken of_fields(const double* fields) {
  const auto flags = static_cast<unsigned>(fields[2]);
  return {static_cast<int64_t>(fields[0]),
          static_cast<int64_t>(fields[1]),
          (flags & 1) != 0,
          {(flags & 2) != 0, fields[3], fields[4], fields[5], (flags & 4) != 0}};
}

std::vector<Tensor> tensors_of(const std::vector<Storage>& all) {
  std::vector<Tensor> tensors;
  for (const Storage& s : all) tensors.push_back(s.tensor());
  return tensors;
}

constexpr const char* kErrors = "errors";  // I64: of each variant how many numbers follow, and these

[[noreturn]] void fail_damaged(const std::filesystem::path& folder, const std::string& what) {
  fail("resuming from " + quoted(folder.string()) + ": " + what +
       "; the folder was not written by kvcal, or is damaged: remove it to begin anew");
}

}  // namespace

std::vector<std::vector<ComparedToken>> SweepFolder::compared(size_t n_variants, int64_t n_tokens) {
  std::vector<Storage> all;
  for (size_t v = 0; v < n_variants; ++v) all.emplace_back(Shape({n_tokens, kTokenFields}), DType::F64);
  restore(tensors_of(all));
  std::vector<std::vector<ComparedToken>> tokens(n_variants);
  for (size_t v = 0; v < n_variants; ++v)
    for (int64_t t = 0; t < n_tokens; ++t)
      tokens[v].push_back(of_fields(all[v].tensor().as<double>() + t * kTokenFields));
  return tokens;
}

void SweepFolder::finish(const std::vector<std::vector<ComparedToken>>& tokens) {
  std::vector<Storage> all;
  for (const std::vector<ComparedToken>& of_variant : tokens) {
    const Storage& s = all.emplace_back(Shape({static_cast<int64_t>(of_variant.size()), kTokenFields}), DType::F64);
    double* fields = s.tensor().as<double>();
    for (size_t t = 0; t < of_variant.size(); ++t) to_fields(of_variant[t], fields + t * kTokenFields);
  }
  save(n_layers_ + 1, tensors_of(all));
}

std::vector<RowErrors> SweepFolder::errors(size_t n_variants) const {
  std::vector<RowErrors> errors(n_variants);
  if (layers_done() == 0) return errors;
  const std::vector<std::byte> bytes = bytes_of_rest(kErrors);
  std::vector<int64_t> all(bytes.size() / sizeof(int64_t));
  std::memcpy(all.data(), bytes.data(), all.size() * sizeof(int64_t));
  std::span<const int64_t> rest = all;
  for (RowErrors& of_variant : errors) {
    const int64_t n = rest.empty() ? -1 : rest[0];
    if (n < 0 || n % RowErrors::kNumbers != 0 || n >= static_cast<int64_t>(rest.size()))
      fail_damaged(file(0).parent_path(), "errors of a variant are " + std::to_string(n) + " numbers of " +
                                              std::to_string(rest.size()) + " that are left, expected a multiple of " +
                                              std::to_string(RowErrors::kNumbers));
    of_variant = RowErrors::of_numbers(rest.subspan(1, static_cast<size_t>(n)));
    rest = rest.subspan(1 + static_cast<size_t>(n));
  }
  if (!rest.empty()) fail_damaged(file(0).parent_path(), "errors of more variants than this run has");
  return errors;
}

void SweepFolder::write_file(int slot, const Tensors& rows, const SafetensorsMetadata& metadata) {
  std::vector<int64_t> all;
  for (const RowErrors& of_variant : *errors_) {
    const std::vector<int64_t> numbers = of_variant.numbers();
    all.push_back(static_cast<int64_t>(numbers.size()));
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  const Storage stored(Shape({static_cast<int64_t>(all.size())}), DType::I64);
  std::ranges::copy(all, stored.tensor().as<int64_t>());
  Tensors tensors = {{kErrors, stored.tensor()}};  // before rows, by name
  tensors.insert(tensors.end(), rows.begin(), rows.end());
  EvaluationFolder::write_file(slot, tensors, metadata);
}

AnswerFolder::AnswerFolder(std::filesystem::path folder, Json identity, int64_t most_tokens, NoticeListener& listener)
    : EvaluationFolder(std::move(folder), std::move(identity), listener), most_tokens_(most_tokens) {
  for (int i = 0; i < layers_done(); ++i) made_.emplace_back(Shape({1 + most_tokens_}), DType::I32);
  if (!made_.empty()) restore(tensors_of(made_));
}

std::vector<int32_t> AnswerFolder::tokens(size_t answer) const {
  const int32_t* all = made_[answer].tensor().as<int32_t>();
  if (all[0] < 0 || all[0] > most_tokens_)
    fail_damaged(file(0).parent_path(), "an answer of " + std::to_string(all[0]) + " tokens, expected at most " +
                                            std::to_string(most_tokens_));
  return {all + 1, all + 1 + all[0]};
}

void AnswerFolder::add(const std::vector<int32_t>& tokens) {
  int32_t* all = made_.emplace_back(Shape({1 + most_tokens_}), DType::I32).tensor().as<int32_t>();
  std::fill(all, all + 1 + most_tokens_, 0);
  all[0] = static_cast<int32_t>(tokens.size());
  std::ranges::copy(tokens, all + 1);
  save(static_cast<int>(made_.size()), tensors_of(made_));
}

Json EvaluationResume::identity_with(const Json& more) const {
  Json identity = identity_;
  identity.update(more);
  return identity;
}

SweepFolder& EvaluationResume::sweep(const std::string& name, const std::vector<Variant>& variants,
                                     const std::string& plan_sha256) {
  const Json identity = identity_with({{"plan", plan_sha256}, {"variants", digest_of(variants)}});
  auto part = std::make_unique<SweepFolder>(name.empty() ? folder_ : folder_ / name, identity, n_layers_, listener_);
  if (!part->is_through()) part->announce(static_cast<size_t>(n_layers_));
  SweepFolder& sweep = *part;
  parts_.push_back(std::move(part));
  return sweep;
}

AnswerFolder& EvaluationResume::answers(const std::vector<Variant>& variants, int64_t most_tokens) {
  const Json identity = identity_with({{"variants", digest_of(variants)}, {"max_new_tokens", most_tokens}});
  auto part = std::make_unique<AnswerFolder>(folder_ / "answers", identity, most_tokens, listener_);
  if (part->n_made() > 0) listener_.hear(Notice::Note, "resuming after " + std::to_string(part->n_made()) + " answers");
  AnswerFolder& answers = *part;
  parts_.push_back(std::move(part));
  return answers;
}

void EvaluationResume::remove() {
  for (; !parts_.empty(); parts_.pop_back()) parts_.back()->remove();
}

std::string digest_of(const std::vector<Variant>& variants) {
  std::string all;
  for (const Variant& variant : variants) all += text_of(variant);
  return sha256_hex(all);
}

}  // namespace kvcal
