// What `evaluate --resume` keeps, each part in a folder of its own (calibrate/run_folder.h): of a sweep the rows of the
// reference and of every variant, and when it is through what was compared; the answers that were made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "calibrate/run_folder.h"
#include "evaluate/comparison.h"
#include "evaluate/row_errors.h"
#include "evaluate/variant.h"

namespace kvcal {

class EvaluationFolder : public RunFolder {
 protected:
  EvaluationFolder(std::filesystem::path folder, Json identity, NoticeListener& listener)
      : RunFolder(std::move(folder), std::move(identity), listener) {
    look();
  }

 protected:
  void write_file(int slot, const Tensors& rows, const SafetensorsMetadata& metadata) override;

 private:
  void read_rest(int) override {}
};

/// Of one sweep.
class SweepFolder final : public EvaluationFolder {
 public:
  SweepFolder(std::filesystem::path folder, Json identity, int n_layers, NoticeListener& listener)
      : EvaluationFolder(std::move(folder), std::move(identity), listener), n_layers_(n_layers) {}

  /// Then nothing of it needs to run again.
  bool is_through() const { return layers_done() > n_layers_; }

  /// What finish() was given, by variant: so many tokens each.
  std::vector<std::vector<ComparedToken>> compared(size_t n_variants, int64_t n_tokens);
  void finish(const std::vector<std::vector<ComparedToken>>& tokens);

  /// Of the layers that are done, by variant.
  std::vector<RowErrors> errors(size_t n_variants) const;
  /// What is saved beside rows from now on: before the first save.
  void keep(const std::vector<RowErrors>& errors) { errors_ = &errors; }

 private:
  void write_file(int slot, const Tensors& rows, const SafetensorsMetadata& metadata) override;

  int n_layers_;
  const std::vector<RowErrors>* errors_ = nullptr;
};

/// Of answers, in the order in which they are made.
class AnswerFolder final : public EvaluationFolder {
 public:
  AnswerFolder(std::filesystem::path folder, Json identity, int64_t most_tokens, NoticeListener& listener);

  size_t n_made() const { return made_.size(); }
  std::vector<int32_t> tokens(size_t answer) const;
  void add(const std::vector<int32_t>& tokens);

 private:
  int64_t most_tokens_;
  std::vector<Storage> made_;  // I32 [1 + most tokens]: how many there are, and they
};

/// The folder of a run and the parts in it.
class EvaluationResume {
 public:
  /// `identity`: what all parts depend on. The listener must outlive it.
  EvaluationResume(std::filesystem::path folder, Json identity, int n_layers, NoticeListener& listener)
      : folder_(std::move(folder)), identity_(std::move(identity)), n_layers_(n_layers), listener_(listener) {}

  /// name "": the first sweep, which is asked for first. `plan_sha256`: of its sequences. Error where what is there
  /// belongs to another run.
  SweepFolder& sweep(const std::string& name, const std::vector<Variant>& variants, const std::string& plan_sha256);
  AnswerFolder& answers(const std::vector<Variant>& variants, int64_t most_tokens);

  /// After the results are written.
  void remove();

 private:
  Json identity_with(const Json& more) const;

  std::filesystem::path folder_;
  Json identity_;
  int n_layers_;
  NoticeListener& listener_;
  std::vector<std::unique_ptr<RunFolder>> parts_;
};

/// sha256 of what they do to the cache, in order: those of a resumed run are the same.
std::string digest_of(const std::vector<Variant>& variants);

}  // namespace kvcal
