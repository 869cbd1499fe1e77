// What an evaluation left, as it may lie there: of another number of variants, or changed by somebody.
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "evaluate/resume.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

class Silent final : public NoticeListener {
 public:
  void hear(Notice, const std::string&) override {}
};

RowErrors some_errors() {
  return RowErrors::of_numbers(std::vector<int64_t>{0, 0, 0, 0, 1, 1 << 20, 0, 0, 0, 1, -5, 1 << 19});
}

class Resumed : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(folder_); }

  /// A sweep that ended after its first layer with errors of so many variants.
  void leave(size_t n_variants) {
    SweepFolder sweep(folder_, Json::object(), 2, silent_);
    const std::vector<RowErrors> errors(n_variants, some_errors());
    sweep.keep(errors);
    const Storage rows(Shape({1, 2}), DType::F32);
    std::fill_n(rows.tensor().as<float>(), 2, 0.0f);
    sweep.save(1, std::vector<Tensor>{rows.tensor()});
  }

  std::string message_for(size_t n_variants) {
    try {
      SweepFolder(folder_, Json::object(), 2, silent_).errors(n_variants);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }

  Silent silent_;
  const fs::path folder_ = fs::path(testing::TempDir()) / ("kvcal_resumed_" + std::to_string(::getpid()));
};

TEST_F(Resumed, ErrorsComeBackAsTheyWere) {
  leave(2);
  const std::vector<RowErrors> errors = SweepFolder(folder_, Json::object(), 2, silent_).errors(2);
  for (const RowErrors& of_variant : errors) EXPECT_EQ(of_variant.numbers(), some_errors().numbers());
}

TEST_F(Resumed, ErrorsThatDoNotFitAreRefused) {
  leave(2);
  EXPECT_EQ(message_for(2), "");
  EXPECT_NE(message_for(3).find("errors of a variant are -1 numbers of 0"), std::string::npos) << message_for(3);
  EXPECT_NE(message_for(1).find("errors of more variants"), std::string::npos) << message_for(1);
}

}  // namespace
}  // namespace kvcal
