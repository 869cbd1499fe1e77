// What `calibrate --resume` keeps: the rows of the run and the statistics so far.
#pragma once

#include <array>
#include <optional>

#include "calibrate/run_folder.h"
#include "calibrate/sweep_store.h"

namespace kvcal {

class ResumeFolder final : public RunFolder, public SweepStore {
 public:
  ResumeFolder(std::filesystem::path folder, Json identity, NoticeListener& listener)
      : RunFolder(std::move(folder), std::move(identity), listener) {
    look();
  }

  void observe(Observer& observer, RunRecord record) override;
  RunStore& rows() override { return *this; }

 private:
  void read_rest(int slot) override;
  void write_file(int slot, const Tensors& rows, const SafetensorsMetadata& metadata) override;

  std::array<std::optional<Statistics>, 2> found_;  // by slot
  Observer* observer_ = nullptr;
  RunRecord record_;
};

}  // namespace kvcal
