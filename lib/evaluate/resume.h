// What `evaluate --resume` keeps: the rows of the reference and of every variant. Predictions are compared behind the
// last layer only.
#pragma once

#include "calibrate/run_folder.h"
#include "evaluate/variant.h"

namespace kvcal {

class EvaluationFolder final : public RunFolder {
 public:
  EvaluationFolder(std::filesystem::path folder, Json identity, NoticeListener& listener)
      : RunFolder(std::move(folder), std::move(identity), listener) {
    look();
  }

 private:
  void read_rest(int) override {}
  void write_file(int slot, const Tensors& rows, const SafetensorsMetadata& metadata) override;
};

/// sha256 of what they do to the cache, in order: those of a resumed run are the same.
std::string digest_of(const std::vector<Variant>& variants);

}  // namespace kvcal
