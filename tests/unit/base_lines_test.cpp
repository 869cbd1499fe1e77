#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "base/lines.h"

namespace kvcal {
namespace {

using namespace std::string_literals;

TEST(Printable, LeavesWhatHasAGlyph) {
  for (const char* text :
       {"plain", "größe", "模型", "🙂", "a b", "# ## title", "a::b", "e\u0301", "\u0600", "\u3000", "##x", "#[x]"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, ShowsControlCharactersAsEscapes) {
  EXPECT_EQ(printable("\x1b[2J\x07\r\n\t\x7f"), "\\x1b[2J\\x07\\x0d\\x0a\\x09\\x7f");
  EXPECT_EQ(printable("\0"s), "\\x00");
  EXPECT_EQ(printable("\u0080\u009b31m\u009f"), "\\u0080\\u009b31m\\u009f");
  EXPECT_EQ(printable("a\u2028b\u2029c"), "a\\u2028b\\u2029c");
}

TEST(Printable, ShowsWhatSteersTheDirectionOfText) {
  EXPECT_EQ(printable("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"),
            "\\u061c\\u200e\\u200f\\u202a\\u202b\\u202c\\u202d\\u202e\\u2066\\u2067\\u2068\\u2069");
}

TEST(Printable, ShowsWhatHasNoWidth) {
  EXPECT_EQ(printable("k\u200be\u2060y\ufeff\u00ad"), "k\\u200be\\u2060y\\ufeff\\u00ad");
  EXPECT_EQ(printable("k\u200dey\u200c\ufe0f"), "k\\u200dey\\u200c\\ufe0f");  // joiners join nothing here
  EXPECT_EQ(printable("\U000E0041\u3164\u115f"), "\\u{e0041}\\u3164\\u115f");
}

TEST(Printable, LeavesJoinersWhereScriptsNeedThem) {
  for (const char* text : {"می\u200cخواهم", "क्\u200dष", "👩\u200d👧", "❤\ufe0f\u200d🔥"}) EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable("é\u200d\u200d"), "é\u200d\\u200d");
  EXPECT_EQ(printable("é\ufe0f\ufe0e"), "é\ufe0f\\ufe0e");
}

TEST(Printable, ShowsBytesThatAreNoText) {
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("a\x9b"
                      "b"),
            "a\\x9bb");                                              // C1 of Latin-1
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");                    // overlong
  EXPECT_EQ(printable("\xe0\x80\x9b"), "\\xe0\\x80\\x9b");           // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond Unicode
  EXPECT_EQ(printable("\xe2\x80"), "\\xe2\\x80");                    // cut short
}

TEST(Printable, BreaksCommandsInsideLines) {
  EXPECT_EQ(printable("x ##[error]y"), "x #\\x23[error]y");
  EXPECT_EQ(printable("##vso[task.setvariable]"), "#\\x23vso[task.setvariable]");
  EXPECT_EQ(printable("###[x]"), "##\\x23[x]");
  EXPECT_EQ(printable("####vso[x]##[y]"), "###\\x23vso[x]#\\x23[y]");
}

TEST(Printable, CutsLongText) {
  EXPECT_EQ(printable(std::string(100, 'x') + "\x1b", 8), "xxxx...x\\x1b");
  EXPECT_EQ(quoted(std::string_view("a\u202eb")), "'a\\u202eb'");
}

TEST(Printable, JsonStaysTheSameDocument) {
  const Json document = {{"k\x7f\u009b\u202e\u200b", "##[error]x \U000E0041 é 🙂 ####vso[y]"}, {"n", "\n\x1b"}};
  for (const int indent : {-1, 2}) {
    const std::string text = printable_json(document.dump(indent) + "\n");
    EXPECT_EQ(Json::parse(text), document);
    EXPECT_EQ(text.find("##["), std::string::npos) << text;
    EXPECT_EQ(text.find("##vso["), std::string::npos) << text;
    EXPECT_NE(text.find("\\u202e\\u200b"), std::string::npos) << text;
    EXPECT_NE(text.find("\\udb40\\udc41 é 🙂"), std::string::npos) << text;
  }
}

TEST(Lines, AreNotMadeOfWhatStandsInOne) {
  Lines lines("a\nb");
  lines.add("c\r\x1b[A");
  lines += Lines("") + Lines("d");
  EXPECT_EQ(lines.text(), "a\\x0ab\nc\\x0d\\x1b[A\n\nd\n");
}

TEST(Lines, BeginNoCommand) {
  EXPECT_EQ(Lines("::error::x").text(), "\\x3a:error::x\n");
  EXPECT_EQ(Lines(" \u00a0\u3000::add-mask::x").text(), " \u00a0\u3000\\x3a:add-mask::x\n");
  EXPECT_EQ(Lines("a: ::b").text(), "a: ::b\n");
  EXPECT_EQ(Lines::of_text("\t::error::x").text(), "\t\\x3a:error::x\n");
  EXPECT_EQ(Lines(":").text() + Lines("").text(), ":\n\n");
}

TEST(Lines, OfATextKeepItsLines) {
  EXPECT_EQ(Lines::of_text("a\n\n\tb\x1b\n::c").text(), "a\n\n\tb\\x1b\n\\x3a:c\n");
  EXPECT_EQ(Lines::of_text("a").text(), Lines::of_text("a\n").text());
  EXPECT_TRUE(Lines::of_text("").empty());
}

TEST(Lines, OfAnAnnotation) {
  EXPECT_EQ(
      Lines::of_annotation({"error", "a,b:c%\n\r\x1b.json", 3, "T:1", "100 %\n::error::x, y: \u009b##[z]"}).text(),
      "::error file=a%2Cb%3Ac%25%0A%0D\\x1b.json,line=3,title=T%3A1::100 %25\\x0a::error::x, y: \\u009b#\\x23[z]\n");
}

}  // namespace
}  // namespace kvcal
