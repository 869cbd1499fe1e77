// The folder that `calibrate --resume` keeps beside its output: after each layer the rows of the run and the statistics
// so far, alternating between two files, so that one is complete while the other is written. An interrupted run
// continues from there and gives the same bytes.
#pragma once

#include <filesystem>
#include <optional>

#include "calibrate/notices.h"
#include "prefill/runner.h"
#include "stats/observer.h"

namespace kvcal {

class ResumeFolder final : public RunStore {
 public:
  /// `identity` is what the numbers of a run depend on, by name: an object of objects or plain values. Looks into the
  /// folder, which need not exist. Throws Error when the folder cannot be written or holds another run's files; a
  /// damaged file is ignored with a warning. The listener must outlive the folder.
  ResumeFolder(std::filesystem::path folder, Json identity, NoticeListener& listener);

  /// What save() takes statistics from, and where those of the earlier part go.
  void observe(Observer& observer, RunRecord record);

  int layers_done() const override { return found_ ? found_->layers_done : 0; }
  void restore(std::span<const Tensor> rows) override;
  /// A full disk does not end the run: failing to save is a warning.
  void save(int layers_done, std::span<const Tensor> rows) override;

  /// After the results are written: nothing is left to go on with.
  void remove();

 private:
  struct Found {
    int slot = 0, layers_done = 0;
    Statistics statistics;
  };
  std::filesystem::path file(int slot) const;
  std::optional<Found> read(int slot) const;
  void write(int slot, int layers_done, std::span<const Tensor> rows);
  void remove_temporaries() const;
  void warn(const std::string& text) const { listener_.hear(Notice::Warning, text); }

  std::filesystem::path folder_;
  Json identity_;
  NoticeListener& listener_;
  std::optional<Found> found_;
  int newest_ = 1;  // the slot that must stay while the other is written
  bool warned_ = false;
  Observer* observer_ = nullptr;
  RunRecord record_;
};

}  // namespace kvcal
