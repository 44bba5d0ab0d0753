/**
 * Pages for people: one frame, one style sheet, nothing from elsewhere. The policy that goes with them allows this style
 * and nothing else: no script, no image, no form, no frame around it.
 */
import { createHash } from 'node:crypto'
import type { Answer } from '../api/message.ts'

export interface Page {
  readonly title: string
  /** HTML; who makes it escapes what is not ours. */
  readonly body: string
  /** Asked for again after so many seconds; null: not. */
  readonly refreshS: number | null
}

const SIGNS: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

export function escape(text: string): string {
  return text.replaceAll(/[&<>"']/g, (sign) => SIGNS[sign] ?? '')
}

export function pageOf({ title, body, refreshS }: Page): string {
  const refresh = refreshS === null ? '' : `\n<meta http-equiv="refresh" content="${String(refreshS)}">`
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">${refresh}
<link rel="icon" href="data:,">
<title>${escape(title)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>${body}
</main>
</body>
</html>
`
}

export function pageAnswer(html: string, status = 200): Answer {
  return { status, body: html, media: 'text/html; charset=utf-8', headers: HEADERS }
}

const STYLE = `
:root{color-scheme:light dark;--ink:#1c2430;--soft:#5b6675;--paper:#fff;--line:#dfe4ea;--track:#eef1f5;
--work:#2f6fde;--waiting:#b7791f;--around:#9aa7b8;--thought:#6b7a90;--good:#2e8540;--bad:#c0392b;--running:#2f6fde}
@media (prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#98a4b3;--paper:#12161c;--line:#2a323d;--track:#1c232c;
--work:#6ea0ff;--waiting:#e0a94a;--around:#5c6a7b;--thought:#8b9bb0;--good:#55b76a;--bad:#f07567;--running:#6ea0ff}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:64rem;margin:0 auto;padding:2rem 1.25rem 3rem}
h1{margin:0;font-size:1.6rem;line-height:1.25;overflow-wrap:anywhere}
h2{margin:2rem 0 .6rem;font-size:1rem}
p{margin:.25rem 0}
.kind,.id,.note,small{color:var(--soft)}
details{margin:.3rem 0}
summary{cursor:pointer}
pre{margin:.3rem 0;padding:.6rem .8rem;background:var(--track);border-radius:.4rem;overflow-x:auto;font-size:.85em}
.id,code,th[scope=row] span{font-family:ui-monospace,monospace;font-size:.9em}
.id{overflow-wrap:anywhere}
.badge{display:inline-block;margin-left:.4rem;padding:.1rem .6rem;border-radius:1rem;font-size:.85rem;font-weight:600;vertical-align:.2em;border:1.5px solid currentColor}
.badge.good{color:var(--good)}.badge.bad{color:var(--bad)}.badge.running{color:var(--running)}.badge.calm{color:var(--soft)}
.ending{margin:1.25rem 0 0;padding:.7rem 1rem;border:1px solid var(--line);border-radius:.5rem;overflow-wrap:anywhere}
dl{display:flex;flex-wrap:wrap;gap:.75rem 2rem;margin:.9rem 0 0}
dt{color:var(--soft);font-size:.85rem}dd{margin:0}dd small{display:block}
svg{display:block;width:100%}
svg.budget{height:1.25rem;border-radius:.4rem}
.track{fill:var(--track)}
rect.good{fill:var(--good)}rect.bad{fill:var(--bad)}rect.running{fill:var(--running)}rect.calm{fill:var(--soft)}
table{width:100%;border-collapse:collapse}
th{font-weight:400;text-align:left}thead th{color:var(--soft);font-size:.85rem}
th,td{padding:.3rem 0;border-bottom:1px solid var(--line);vertical-align:middle}
th[scope=row]{width:30%;padding-right:1rem;overflow-wrap:anywhere}
th[scope=row] em{color:var(--bad);font-style:normal;font-size:.85em}
td.took,th.took{width:6.5rem;text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
td.took small{display:block}
td.bar svg{height:.9rem}
svg.axis{height:1.25rem;overflow:visible;font-size:12px}
svg.axis text{fill:var(--soft)}svg.axis .deadline{fill:var(--bad)}
line.deadline{stroke:var(--bad);stroke-width:1.5px;vector-effect:non-scaling-stroke}
.limit{fill:var(--line)}
.span.work{fill:var(--work)}.span.waiting{fill:var(--waiting)}.span.around{fill:var(--around)}.span.thought{fill:var(--thought)}
.span.open{opacity:.7}
.in1{padding-left:1rem}.in2{padding-left:2rem}.in3{padding-left:3rem}.in4{padding-left:4rem}.in5{padding-left:5rem}.in6{padding-left:6rem}
nav{margin-top:1.75rem;display:flex;flex-wrap:wrap;gap:.4rem 1.25rem}
a{color:var(--work)}
@media (max-width:40rem){table,tbody,tr,th[scope=row],td.bar{display:block;width:auto}thead{display:none}
tr{position:relative;padding:.5rem 0;border-bottom:1px solid var(--line)}th,td{border:0;padding:.1rem 0}
th[scope=row]{padding-right:7rem}td.took{position:absolute;top:.5rem;right:0;width:auto}td.took small{display:inline;margin-left:.3rem}}
`

const HEADERS: Readonly<Record<string, string>> = {
  'Content-Security-Policy': [
    "default-src 'none'",
    `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cache-Control': 'no-store',
}
