// The record of a fold, sound and broken: what it says was multiplied, or one line on what is wrong with it.
#include <gtest/gtest.h>

#include <functional>

#include "checkpoint/fold_mark.h"
#include "unit/checkpoint_folder.h"

namespace kvcal {
namespace {

/// Rows 2 to 4 of five, and both columns of another tensor.
Json sound_record() {
  return parse_json(R"({"format": "kvcal-fold", "version": "1.0", "model": {"weights_fingerprint": "ab"},
      "sites": [{"left_to_scales": false}, {"left_to_scales": true}],
      "tensors": [{"name": "k", "lines": 5, "rows": [[1, 2], [3, 1]], "exponents": [-3, 4]},
                  {"name": "o", "lines": 2, "columns": [[0, 2]], "exponents": [7], "one_plus": true}]})");
}

TEST(FoldMark, TellsWhatWasMultiplied) {
  const std::vector<TensorFold> folds = folded_tensors(sound_record());
  ASSERT_EQ(folds.size(), 2U);
  EXPECT_EQ(folds[0], (TensorFold{"k", Axis::Rows, {0, -3, -3, 4, 0}, false}));
  EXPECT_EQ(folds[1], (TensorFold{"o", Axis::Columns, {7, 7}, true}));
  const FoldMark mark = fold_mark(sound_record());
  EXPECT_EQ(mark.original_fingerprint, "ab");
  EXPECT_EQ(mark.n_sites, 2U);
  EXPECT_EQ(mark.n_left, 1U);
}

struct Broken {
  const char* message;  // a part of it
  std::function<void(Json&)> change;
};

std::vector<Broken> broken_records() {
  const auto set = [](const char* member, Json value) { return [=](Json& r) { r["tensors"][0][member] = value; }; };
  const auto rows = [&](const char* text) { return set("rows", parse_json(text)); };
  return {
      {"has no list 'tensors'", [](Json& r) { r.erase("tensors"); }},
      {"has no list 'tensors'", [](Json& r) { r["tensors"] = "all"; }},
      {"is empty", [](Json& r) { r["tensors"] = Json::array(); }},
      {"is not an object", [](Json& r) { r["tensors"][1] = 3; }},
      {"name", [](Json& r) { r["tensors"][0].erase("name"); }},
      {"'k': has no list 'columns'", [](Json& r) { r["tensors"][0].erase("rows"); }},
      {"'k': has no list 'rows'", set("rows", 3)},
      {"'k': has no list 'exponents'", set("exponents", 3)},
      {"2 runs and 1 exponents", set("exponents", {1})},
      {"'k': has no 'lines'", [](Json& r) { r["tensors"][0].erase("lines"); }},
      {"'lines' is no whole number", set("lines", 2.5)},
      {"'lines' is no whole number", set("lines", -1)},
      {"'lines' is no whole number", set("lines", 18446744073709551615ULL)},
      {"'lines' is no whole number from 0 to 33554432", set("lines", 33554433)},
      {"is not [first, count]", rows("[[1, 2], 3]")},
      {"is not [first, count]", rows("[[1, 2], [3]]")},
      {"the first line of a run is no whole number from 0 to 5", rows("[[1, 2], [6, 0]]")},
      {"the length of a run is no whole number from 0 to 2", rows("[[1, 2], [3, 3]]")},
      {"overlap or are not in order", rows("[[1, 2], [2, 1]]")},
      {"overlap or are not in order", rows("[[3, 1], [1, 2]]")},
      {"an exponent is no whole number", set("exponents", {1, 2.5})},
      {"an exponent is no whole number", set("exponents", {1, 5000})},
      {"an exponent is no whole number", set("exponents", {1, "2"})},
      {"'one_plus' is neither", set("one_plus", 1)},
      {"has no object 'model'", [](Json& r) { r["model"] = 3; }},
      {"model.weights_fingerprint", [](Json& r) { r["model"]["weights_fingerprint"] = 3; }},
      {"has no list 'sites'", [](Json& r) { r.erase("sites"); }},
      {"has no 'left_to_scales'", [](Json& r) { r["sites"][1] = 3; }},
      {"has no 'left_to_scales'", [](Json& r) { r["sites"][1]["left_to_scales"] = "no"; }},
  };
}

TEST(FoldMark, SaysWhatIsWrong) {
  for (const Broken& broken : broken_records()) {
    Json record = sound_record();
    broken.change(record);
    try {
      static_cast<void>(fold_mark(record));
      static_cast<void>(folded_tensors(record));
      ADD_FAILURE() << "accepted: " << record.dump();
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(broken.message), std::string::npos) << e.what();
    }
  }
}

TEST(FoldMark, OfAllTensorsTogetherLinesAreCounted) {
  Json record = sound_record();
  for (Json& tensor : record["tensors"]) tensor["lines"] = 1 << 24;
  EXPECT_EQ(folded_tensors(record).size(), 2U);
  record["tensors"].push_back(record["tensors"][0]);
  EXPECT_THROW(static_cast<void>(folded_tensors(record)), Error);
}

TEST(FoldMark, IsReadFromAFolder) {
  const TempFolder folder;
  folder.write("model/config.json", "{}");
  EXPECT_FALSE(read_fold_record(folder / "model"));
  folder.write("model/kvcal-fold.json", sound_record().dump());
  EXPECT_EQ(*read_fold_record(folder / "model"), sound_record());
  for (const char* text : {"", "{", "[]", "{}", R"({"format": "other"})", R"({"format": 3})"}) {
    folder.write("model/kvcal-fold.json", text);
    EXPECT_THROW(static_cast<void>(read_fold_record(folder / "model")), Error) << text;
  }
}

}  // namespace
}  // namespace kvcal
