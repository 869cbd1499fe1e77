// What the prompts of an evaluation show of others like them.
#include "base/counted.h"
#include "base/number_text.h"
#include "report/estimates.h"
#include "report/markup.h"
#include "report/sections.h"

namespace kvcal {

std::string conclusion_text(const SavedEvaluation& evaluation) {
  if (!evaluation.conclusion) return "";
  const SavedConclusion& c = *evaluation.conclusion;
  HtmlTable table("In brackets intervals of 95 %, where prompts are enough for one",
                  {{"variant"},
                   {"mean KL", true},
                   {"same top token", true},
                   {"right answers", true},
                   {"times the KL of the floor", true}});
  for (const auto& [name, v] : c.variants) {
    const SavedEstimate* times = c.times_of(name);
    table.add_row({escaped(name), v.kl ? kl_estimate(*v.kl) : "not finite", share_estimate(v.top1),
                   v.correct ? share_estimate(*v.correct) : "-", times ? times_estimate(*times) : "-"});
  }
  std::string pairs;
  for (const std::string& sentence : pair_sentences(c, escaped)) pairs += "<li>" + sentence + "</li>\n";
  return "<h3>What this shows of other prompts like these</h3>\n<p>" + counted(c.n_groups, "prompt") +
         " that differ, " + counted(c.n_tokens, "token") +
         " that do not repeat others. How much is too much depends on the use. A mean KL of 0.02, which <code>kvcal "
         "evaluate</code> advises by, lies between what FP8 and what coarser formats cost on two small trained models; "
         "on a third FP8 costs that.</p>\n" +
         table.html() + (pairs.empty() ? "" : "<ul>\n" + pairs + "</ul>\n");
}

}  // namespace kvcal
