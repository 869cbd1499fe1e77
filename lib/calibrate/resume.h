// What `calibrate --resume` keeps: the rows of the run and the statistics so far.
#pragma once

#include <array>
#include <optional>

#include "calibrate/run_folder.h"
#include "stats/observer.h"

namespace kvcal {

class ResumeFolder final : public RunFolder {
 public:
  ResumeFolder(std::filesystem::path folder, Json identity, NoticeListener& listener)
      : RunFolder(std::move(folder), std::move(identity), listener) {
    look();
  }

  /// What save() takes statistics from, and where those of the earlier part go.
  void observe(Observer& observer, RunRecord record);

 private:
  void read_rest(int slot) override;
  void write_file(int slot, const Tensors& rows, const SafetensorsMetadata& metadata) override;

  std::array<std::optional<Statistics>, 2> found_;  // by slot
  Observer* observer_ = nullptr;
  RunRecord record_;
};

}  // namespace kvcal
