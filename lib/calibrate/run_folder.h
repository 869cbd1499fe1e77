// The folder that --resume keeps beside an output: after each layer the rows of the run and what it has found so far,
// alternating between two files, so that one is complete while the other is written. An interrupted run continues from
// there and gives the same bytes.
#pragma once

#include <filesystem>
#include <utility>
#include <vector>

#include "calibrate/notices.h"
#include "checkpoint/safetensors_writer.h"
#include "prefill/runner.h"

namespace kvcal {

class RunFolder : public RunStore {
 public:
  int layers_done() const override { return layers_done_; }
  void restore(std::span<const Tensor> rows) override;
  /// A full disk does not end the run: failing to save is a warning.
  void save(int layers_done, std::span<const Tensor> rows) override;

  /// Tells the listener behind which of so many layers the run goes on, if it does.
  void announce(size_t n_layers) const;

  /// After the results are written: nothing is left to go on with.
  void remove();

 protected:
  /// `identity` is what the numbers of a run depend on, by name: an object of objects or plain values. The folder need
  /// not exist. Throws Error when it cannot be written. The listener must outlive it.
  RunFolder(std::filesystem::path folder, Json identity, NoticeListener& listener);

  /// Looks for files of this run: the end of a constructor. Error where they are another run's; a damaged file is
  /// ignored with a warning.
  void look();

  int newest() const { return newest_; }  // slot that layers_done() is about, and that stays while the other is written
  std::filesystem::path file(int slot) const;

  /// The bytes of a tensor beside the rows that layers_done() is about. Error where there is none.
  std::vector<std::byte> bytes_of_rest(const std::string& name) const;

  using Tensors = std::vector<std::pair<std::string, Tensor>>;  // sorted by name
  static constexpr std::string_view kRowsPrefix = "residual.";  // behind "prompt_offsets", as statistics need

 private:
  /// What a file has beside the rows. Error where it is damaged.
  virtual void read_rest(int slot) = 0;
  /// A file of these and the rest.
  virtual void write_file(int slot, const Tensors& rows, const SafetensorsMetadata& metadata) = 0;

  /// Layers that the file in this slot has done; 0 for none.
  int read(int slot);
  void write(int slot, int layers_done, std::span<const Tensor> rows);
  void remove_temporaries() const;
  void warn(const std::string& text) const { listener_.hear(Notice::Warning, text); }

  std::filesystem::path folder_;
  Json identity_;
  NoticeListener& listener_;
  int layers_done_ = 0, newest_ = 1;
  bool warned_ = false;
};

}  // namespace kvcal
