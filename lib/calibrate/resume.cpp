#include "calibrate/resume.h"

#include "base/error.h"
#include "stats/statistics_file.h"

namespace kvcal {

void ResumeFolder::observe(Observer& observer, RunRecord record) {
  observer_ = &observer;
  record_ = std::move(record);
  if (layers_done() > 0)
    while_doing(quoted(file(newest()).string()),
                [&] { observer.restore(std::move(*found_[static_cast<size_t>(newest())])); });
  found_ = {};
}

void ResumeFolder::read_rest(int slot) { found_[static_cast<size_t>(slot)] = read_statistics(file(slot), kRowsPrefix); }

void ResumeFolder::write_file(int slot, const Tensors& rows, const SafetensorsMetadata& metadata) {
  Statistics finished = observer_->lend_finished(record_);
  try {
    write_statistics(file(slot), finished, Existing::Replace, {rows, metadata});
  } catch (...) {
    observer_->restore(std::move(finished));
    throw;
  }
  observer_->restore(std::move(finished));
}

}  // namespace kvcal
