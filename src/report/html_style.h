// The style sheet of pages made by render_html, and the hash by which their content security policy
// knows it: whoever changes the one must change the other (a test compares them).
#pragma once

#include <string_view>

namespace msprobe::report::internal {

inline constexpr std::string_view kHtmlStyle =
    R"css(:root{color-scheme:light dark;--bad:#b3261e;--caution:#8a5a00;--good:#1b6e3c;--line:#8884}
@media(prefers-color-scheme:dark){:root{--bad:#ff8a80;--caution:#ffca6b;--good:#7ddc9f}}
body{font:16px/1.5 system-ui,sans-serif;margin:0}
main{max-width:72rem;margin:0 auto;padding:1rem}
h1{font-size:1.4rem;overflow-wrap:anywhere}
h2{font-size:1.1rem;margin:1.5rem 0 .5rem}
.command{opacity:.7;margin:0}
.bad{color:var(--bad)}
.caution{color:var(--caution)}
.good{color:var(--good)}
.strong{font-weight:600}
dl{display:grid;grid-template-columns:minmax(6rem,max-content) 1fr;gap:.2rem 1rem;margin:0}
dt{font-weight:600}
dd{margin:0;overflow-wrap:anywhere}
.amounts dt,.amount{text-align:right;font-variant-numeric:tabular-nums}
.detail{opacity:.85;white-space:pre-wrap;overflow-wrap:anywhere}
.scroll{overflow-x:auto}
table{border-collapse:collapse}
th,td{padding:.2rem .6rem;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}
.bars meter{width:min(30rem,40vw)}
code{overflow-wrap:anywhere}
@media(max-width:600px){dl{grid-template-columns:1fr}.amounts dt{text-align:left}}
)css";
inline constexpr std::string_view kHtmlStyleHash =
    "sha256-8fZIyQVju4spQoRjVPkNFq39upHPbrWOxknBYqJXyHA=";

}  // namespace msprobe::report::internal
