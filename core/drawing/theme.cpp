#include "core/drawing/theme.h"

#include "core/drawing/colour.h"

namespace millrace {
namespace {

constexpr const char* kDrawing = R"css(
text{font-family:system-ui,-apple-system,"Segoe UI","DejaVu Sans",Helvetica,Arial,sans-serif;font-size:11px;fill:#59636e;font-variant-numeric:tabular-nums}
text.strong{font-weight:600;fill:#1f2328;font-size:12px}text.title{font-weight:600;fill:#1f2328;font-size:14px}text.hub{font-weight:600;fill:#1f2328;font-size:14px}
text.hub.small{font-size:9.5px}text.hub.tiny{font-size:8px}text.middle{text-anchor:middle}text.end{text-anchor:end}text.bad{fill:#c0271d;font-weight:600}text.reference{fill:#1f2328;stroke:#fff;stroke-width:3px;paint-order:stroke}
.grid{stroke:#d8dee4;stroke-width:1;fill:none}.axis{stroke:#818b98;stroke-width:1;fill:none}line.reference,path.reference{stroke:#1f2328;stroke-width:1.25;stroke-dasharray:5 4;fill:none}.limit{stroke:#1f2328;stroke-width:1.5;fill:none}.tick{stroke:#1f2328;stroke-width:2;fill:none}
.activation{fill:#0969da;color:#0969da}.partial{fill:#8250df;color:#8250df}.error{fill:#bc4c00;color:#bc4c00}.parameter,.gradient{fill:#1a7f37;color:#1a7f37}
.calm{fill:#4a90b8;color:#4a90b8}.busy{fill:#b07d00;color:#b07d00}.full{fill:#c0271d;color:#c0271d}
.idle{fill:#e6eaef;color:#e6eaef}.spare{fill:#f0f2f5;color:#f0f2f5}.accent{fill:#c0271d;color:#c0271d}.ink{fill:#1f2328;color:#1f2328}.muted{fill:#818b98;color:#818b98}
.homed{fill:#1a7f37;color:#1a7f37}.own{fill:#8bc99a;color:#8bc99a}.buffers{fill:#b9c3cf;color:#b9c3cf}.held{fill:#3b82c4;color:#3b82c4}
.p1{fill-opacity:.72}.p2{fill-opacity:.46}
.stroke.stroke{fill:none;stroke:currentColor;vector-effect:non-scaling-stroke}.arc.arc{fill:none;stroke:currentColor}.edge.edge{fill:none;stroke:#fff;stroke-width:1}.hollow.hollow{fill:#fff;stroke:currentColor;stroke-width:1.6}
.through.through{stroke-opacity:.8;stroke-linecap:butt}
.crisp{shape-rendering:crispEdges}.paper{fill:#fff}.paddle{stroke:#c3cad2;stroke-width:3;fill:none}.dashed{stroke-dasharray:6 4}
)css";

constexpr const char* kDrawingDark = R"css(
text{fill:#9ea7b3}text.strong,text.title,text.hub,text.reference{fill:#f0f6fc}text.bad{fill:#ff8278}
.grid{stroke:#2d343d}.axis{stroke:#656c76}line.reference,path.reference{stroke:#f0f6fc}text.reference{stroke:#151b23}.limit,.tick{stroke:#f0f6fc}
.activation{fill:#58a6ff;color:#58a6ff}.partial{fill:#bc8cff;color:#bc8cff}.error{fill:#f0883e;color:#f0883e}.parameter,.gradient{fill:#4ac26b;color:#4ac26b}
.calm{fill:#5aa9d6;color:#5aa9d6}.busy{fill:#e3b341;color:#e3b341}.full{fill:#ff7b72;color:#ff7b72}
.idle{fill:#2b323b;color:#2b323b}.spare{fill:#1d242d;color:#1d242d}.accent{fill:#ff7b72;color:#ff7b72}.ink{fill:#f0f6fc;color:#f0f6fc}.muted{fill:#7d8590;color:#7d8590}
.homed{fill:#4ac26b;color:#4ac26b}.own{fill:#27693a;color:#27693a}.buffers{fill:#545d68;color:#545d68}.held{fill:#58a6ff;color:#58a6ff}
.edge{stroke:#151b23}.hollow.hollow{fill:#151b23}.paper{fill:#151b23}.paddle{stroke:#3d444d}
)css";

constexpr const char* kPage = R"css(
:root{color-scheme:light dark;--page:#f6f8fa;--card:#fff;--text:#1f2328;--muted:#59636e;--line:#d0d7de;--soft:#eef1f4;--accent:#c0271d;--mark:#0969da}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI","DejaVu Sans",Helvetica,Arial,sans-serif;-webkit-text-size-adjust:100%}
main{max-width:1140px;margin:0 auto;padding:32px 20px 56px}
h1{font-size:28px;line-height:1.2;margin:0 0 4px;overflow-wrap:anywhere}h2{font-size:20px;margin:0 0 4px}h3{font-size:15px;margin:0}
p{margin:0 0 10px}.subtitle{color:var(--muted);margin:0 0 20px;overflow-wrap:anywhere}.lead{color:var(--muted);max-width:96ch;margin:0 0 14px}
section{margin:36px 0 0}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:16px}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(196px,1fr));gap:12px}
.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 14px;display:flex;flex-direction:column;break-inside:avoid}
.tile .name{color:var(--muted);font-size:13px}.tile .value{font-size:24px;font-weight:600;line-height:1.25;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.tile .value small{font-size:14px;font-weight:400;color:var(--muted)}.tile .note{font-size:13px;color:var(--muted);flex:1 1 auto;overflow-wrap:anywhere}
.origin{font-size:11px;line-height:16px;color:var(--muted);border:1px solid var(--line);border-radius:8px;padding:0 7px;align-self:flex-start;margin-top:8px;display:inline-block;max-width:100%;overflow-wrap:anywhere}td .origin{white-space:nowrap}
td .origin{margin-top:0}
.verdict{border-left:4px solid var(--accent)}.verdict .headline{font-size:17px;font-weight:600;margin:0;overflow-wrap:anywhere}
.verdict ul{margin:10px 0 0;padding-left:20px}.verdict li{margin:3px 0;max-width:100ch;overflow-wrap:anywhere}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:14px}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 16px;break-inside:avoid;min-width:0}
figure+figure,.card+.card,figure+.card,.card+figure{margin-top:14px}.figures figure{margin-top:0}
@supports (grid-template-rows:subgrid){.figures figure{display:grid;grid-template-columns:minmax(0,1fr);grid-template-rows:subgrid;grid-row:span 4;row-gap:0}}
figure .note{color:var(--muted);font-size:13px;margin:0 0 4px;max-width:110ch}
.plot{container-type:inline-size}.plot>svg{display:block;overflow:visible}.wide{display:none}
@container (min-width:460px){.wide{display:inline}}
.key{margin:0 0 14px}.legend{display:flex;flex-wrap:wrap;gap:3px 14px;list-style:none;margin:8px 0 0;padding:0;font-size:12.5px;color:var(--muted)}
.legend li{display:flex;align-items:center;gap:6px;min-width:0;overflow-wrap:anywhere}.legend svg{flex:none;display:block;overflow:visible}
.wheels{display:flex;flex-wrap:wrap;row-gap:10px;list-style:none;margin:8px 0 0;padding:0}.wheels li{display:block;break-inside:avoid}.wheels svg{display:block;overflow:visible}
.wheels.small{gap:4px 0}.strip{padding-top:5px}
.scroll{overflow-x:auto}.scroll:focus-visible{outline:2px solid var(--mark);outline-offset:2px}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
th{text-align:left;color:var(--muted);font-weight:600;border-bottom:1px solid var(--line);padding:6px 10px 6px 0;vertical-align:bottom;white-space:nowrap}
td{padding:4px 10px 4px 0;vertical-align:top}th:last-child,td:last-child{padding-right:0}.rows td,tbody tr.start td{border-top:1px solid var(--soft)}tbody tr:first-child td{border-top:0}.few table{width:auto}.few th,.few td{padding-right:28px}td.bad{color:var(--accent);font-weight:600}
th.number,td.number{text-align:right;white-space:nowrap}td.plain{white-space:nowrap}tr{break-inside:avoid}thead{display:table-header-group}
.chip{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:6px;background:currentColor;print-color-adjust:exact;-webkit-print-color-adjust:exact}
pre{margin:0 0 12px;padding:12px 14px;background:var(--soft);border-radius:8px;font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace;white-space:pre-wrap;overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:4px 18px;margin:0;font-size:13.5px}dt{color:var(--muted)}dd{margin:0;overflow-wrap:anywhere}
details>summary{cursor:pointer;color:var(--mark);padding:4px 0}details[open]>summary{margin-bottom:8px}
footer{margin-top:40px;color:var(--muted);font-size:13px}
@media (max-width:480px){main{padding:20px 14px 40px}h1{font-size:23px}.tiles{grid-template-columns:repeat(auto-fill,minmax(142px,1fr));gap:8px}.tile{padding:10px 11px}.tile .value{font-size:20px}.card,figure{padding:12px}dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:6px}}
@media screen and (prefers-color-scheme:dark){:root{--page:#0d1117;--card:#151b23;--text:#f0f6fc;--muted:#9ea7b3;--line:#3d444d;--soft:#21262d;--accent:#ff7b72;--mark:#58a6ff}}
@media print{@page{margin:14mm}:root{--page:#fff}body{font-size:12px}main{max-width:none;padding:0}section{margin-top:22px}.scroll{overflow:visible}.lead,h2,h3{break-after:avoid}.tiles{grid-template-columns:repeat(4,1fr)}.figures{grid-template-columns:minmax(0,1fr) minmax(0,1fr)}table{font-size:9px}.few table{font-size:11px}th,td,td.plain,td.number{padding-right:7px;white-space:normal;overflow-wrap:anywhere}th:last-child,td:last-child{padding-right:0}.lead{break-inside:avoid}}
)css";

}  // namespace

std::string drawing_style_sheet() {
  return std::string(kDrawing) + "@media screen and (prefers-color-scheme:dark){" + kDrawingDark + "}\n" + series_style_sheet();
}

std::string page_style_sheet() { return kPage; }

}  // namespace millrace
