// The style sheet: light and dark by the reader's choice, one column on a phone, everything open in print.
#include "report/sections.h"

namespace kvcal {

std::string style_sheet() {
  return R"(:root{--page:#fff;--ink:#1b1f24;--soft:#57606a;--line:#d0d7de;--panel:#f6f8fa;--shade:#0003;--link:#0550ae;
--good:#0a6b2d;--note:#6f4e00;--warn:#a04100;--bad:#b3121d;--bar:#3b6fb5;--lost:#b3121d;--keep:#3b6fb5;--one:#57606a;
--h0:#eef3fa;--h1:#d9e5f4;--h2:#c0d4ec;--h3:#a3bfe2;--h4:#83a7d5;--h5:#628dc5;--h6:#4473b0;--h7:#2c5996;--h8:#183f75}
@media (prefers-color-scheme:dark){:root{--page:#0f1318;--ink:#e6edf3;--soft:#a3adb8;--line:#38414b;--panel:#171d24;--shade:#fff4;--link:#79b8ff;
--good:#57c777;--note:#e3b341;--warn:#ffa657;--bad:#ff8f88;--bar:#6ea8ee;--lost:#ff8f88;--keep:#6ea8ee;--one:#a3adb8;
--h0:#18212c;--h1:#1c2d42;--h2:#203a59;--h3:#264a73;--h4:#2f5d90;--h5:#3d74af;--h6:#5590cd;--h7:#7bb0e6;--h8:#b0d4fa}}
*{box-sizing:border-box}
html{background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif}
body{max-width:80rem;margin:0 auto;padding:1.5rem}
h1{font-size:1.6rem;line-height:1.25;margin:0;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:2rem 0 .6rem;padding-bottom:.25rem;border-bottom:1px solid var(--line)}
#summary h2{display:none}
h3{font-size:1rem;margin:1.1rem 0 .4rem}
p{margin:.4rem 0 .7rem;max-width:52rem}
a{color:var(--link)}
.source,footer,.help{color:var(--soft)}
.source{overflow-wrap:anywhere;margin:.2rem 0}
nav ul{display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;list-style:none;padding:0;margin:.6rem 0 1rem}
.summary{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,27rem),1fr));gap:0 2rem;align-items:start}
.summary>*{min-width:0;margin-top:0}
.answers{border:1px solid var(--line);border-left-width:6px;border-radius:6px;background:var(--panel);padding:.7rem 1rem}
.answers.fine{border-left-color:var(--good)}
.answers.needed{border-left-color:var(--warn)}.answers.keep16{border-left-color:var(--bad)}
.answers p{margin:.2rem 0}.answers p+p{margin-top:.7rem}.big{font-size:1.25rem;margin-left:.3rem}
.evaluated{margin:.2rem 0 .8rem;border:1px solid var(--line);border-radius:6px;padding:.7rem 1rem}
.evaluated>:first-child{margin-top:0}.evaluated>:last-child{margin-bottom:0}.evaluated .scroll{margin:.4rem 0}.evaluated tbody th{white-space:normal}
.v{font-weight:600;white-space:nowrap}
.v.any,.v.fine{color:var(--good)}.v.needed{color:var(--warn)}.v.keep16{color:var(--bad)}
.of{color:var(--soft)}
.map{display:flex;flex-wrap:wrap;gap:.25rem;list-style:none;padding:0;margin:.5rem 0 .8rem}
.map li{border:1px solid var(--line);border-radius:4px;min-width:3.2rem;padding:.05rem .3rem;text-align:center;font-size:.87rem}
.map span{color:var(--ink);font-weight:400}.map .needed,.map .keep16{border-color:currentColor;background:var(--panel)}
ul.do{padding-left:1.3rem;max-width:52rem;margin:.4rem 0}ul.do li{margin:.3rem 0}
.scroll{overflow-x:auto;margin:.6rem 0 1rem;background:linear-gradient(90deg,var(--page) 40%,#0000) 0 0/3rem 100% local no-repeat,
linear-gradient(270deg,var(--page) 40%,#0000) 100% 0/3rem 100% local no-repeat,linear-gradient(90deg,var(--shade),#0000) 0 0/.9rem 100% no-repeat,
linear-gradient(270deg,var(--shade),#0000) 100% 0/.9rem 100% no-repeat}
table{border-collapse:collapse;font-size:.87rem;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--soft);padding:.2rem 0}
th,td{padding:.22rem .8rem .22rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line);white-space:nowrap}
thead th{vertical-align:bottom;white-space:normal}
th{font-weight:600}tbody th{font-weight:400}
.n{text-align:right}
.grid{display:flex;flex-wrap:wrap;gap:1rem 1.4rem}
figure{margin:0 0 .6rem;max-width:100%}
figcaption{font-size:.87rem;margin-bottom:.15rem}
svg{display:block;max-width:100%;height:auto}.scroll svg{max-width:none}
svg text{fill:var(--ink);font:11px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif}
svg .a{fill:var(--soft)}svg .e{text-anchor:end}svg .m{text-anchor:middle}
.axis{stroke:var(--soft);stroke-width:1}.rule{stroke:var(--line);stroke-width:1}
.bar{fill:var(--bar)}.lost{fill:var(--lost)}
.keep{stroke:var(--keep);stroke-width:3}.sub{stroke:var(--keep);stroke-width:3;stroke-dasharray:2 3}
.keep1{stroke:var(--one);stroke-width:3}.sub1{stroke:var(--one);stroke-width:3;stroke-dasharray:2 3}
.curve{fill:none;stroke:var(--bar);stroke-width:1.2;stroke-opacity:.75}.curve.open{stroke:var(--lost);stroke-dasharray:5 3;stroke-opacity:1}
.h0{fill:var(--h0)}.h1{fill:var(--h1)}.h2{fill:var(--h2)}.h3{fill:var(--h3)}.h4{fill:var(--h4)}.h5{fill:var(--h5)}.h6{fill:var(--h6)}.h7{fill:var(--h7)}.h8{fill:var(--h8)}
svg .k{fill:var(--page);stroke:var(--ink);stroke-width:.8}
.dot{fill:var(--bar)}
.sides{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,15rem),1fr));gap:.8rem;margin:.4rem 0 1rem}
.sides>div{border:1px solid var(--line);border-radius:6px;padding:.5rem .7rem;min-width:0;font-size:.9rem}
.answer{margin:.3rem 0;overflow-wrap:anywhere}
mark{background:none;color:inherit;border-bottom:2px solid var(--lost)}
details{margin:.4rem 0}summary{cursor:pointer;color:var(--link);overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1.2rem;font-size:.9rem}
dl.words dt{font-weight:600}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
code{font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:.92em;overflow-wrap:anywhere}
@media (max-width:40rem){body{padding:.9rem}dl{grid-template-columns:1fr}dt{margin-top:.4rem}h1{font-size:1.3rem}h2{margin-top:1.4rem}}
@media print{:root{--page:#fff;--ink:#000;--soft:#444;--line:#bbb;--panel:#f4f4f4;--link:#000;--good:#0a6b2d;--note:#6f4e00;--warn:#a04100;--bad:#b3121d;
--bar:#3b6fb5;--lost:#b3121d;--keep:#3b6fb5;--one:#57606a;--h0:#eef3fa;--h1:#d9e5f4;--h2:#c0d4ec;--h3:#a3bfe2;--h4:#83a7d5;--h5:#628dc5;--h6:#4473b0;--h7:#2c5996;--h8:#183f75}
body{max-width:none;padding:0}html{font-size:11px}nav{display:none}.scroll{overflow:visible;background:none}figure,tr,.answers{break-inside:avoid}
details::details-content{content-visibility:visible;display:block}summary{color:var(--ink)}
h2,h3{break-after:avoid}th,td{white-space:normal}svg,.v{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
)";
}

}  // namespace kvcal
