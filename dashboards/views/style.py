"""The CSS of all pages. The banner is readable from afar, and tiles wrap. Light and dark themes both work."""

# Tints are transparent over the background of the theme, and text has the colour of the theme.
CSS = """
<style>
.stMainBlockContainer { padding-top: 3.8rem; padding-bottom: 2rem; }
.zmon-banner { border-left: 10px solid var(--tint); padding: .1rem 1.1rem;
  background: color-mix(in srgb, var(--tint) 16%, transparent); overflow-wrap: anywhere; }
.zmon-banner p { margin: .2rem 0; }
.zmon-banner .word { font-size: 1.9rem; font-weight: 800; line-height: 1.2; }
.zmon-banner .word span { color: var(--tint); }
.zmon-banner .word small { font-size: 1.1rem; font-weight: 400; opacity: .8; margin-left: .4rem; }
.zmon-banner .culprit { font-size: clamp(2.2rem, 6vw, 3.6rem); font-weight: 800; line-height: 1.1; }
.zmon-banner .next { margin-top: .5rem; padding-top: .5rem;
  border-top: 1px solid color-mix(in srgb, currentColor 25%, transparent); }
.zmon-banner code { font-size: .95em; padding: .1em .35em; border-radius: 4px;
  background: color-mix(in srgb, currentColor 12%, transparent); color: inherit; }
.zmon-banner .blind::before { content: "blind: "; font-weight: 700; }
.zmon-head { display: flex; flex-wrap: wrap; justify-content: space-between; align-items: baseline; gap: 0 .8rem; }
.zmon-head p { margin: 0; }
.zmon-head details { font-size: .85rem; }
.zmon-head details[open] { width: 100%; }
.zmon-head summary { cursor: pointer; opacity: .75; }
.zmon-head details[open] summary { text-align: right; }
.zmon-head pre { user-select: all; }
.zmon-head pre, .zmon-text { font-size: .85rem; margin: .2rem 0; padding: .6rem; border-radius: 6px; overflow: auto;
  max-height: 30rem; white-space: pre-wrap; overflow-wrap: anywhere; color: inherit;
  background: color-mix(in srgb, currentColor 8%, transparent); }
.stHtml .zmon-vitals { padding: 0; display: flex; flex-wrap: wrap; gap: .2rem 2rem; margin: 0; }
.zmon-vitals dt { font-size: .875rem; opacity: .8; }
.zmon-vitals dd { font-size: 1.9rem; line-height: 1.25; margin: 0; font-variant-numeric: tabular-nums; }
.zmon-time p { margin: 0 0 .3rem; font-variant-numeric: tabular-nums; }
.zmon-time div { display: flex; height: 2rem; border-radius: 6px; overflow: hidden; }
.zmon-time i { background: var(--tint); min-width: 2px; color: #0e1117; padding-left: .4rem;
  font-style: normal; font-weight: 600; font-size: .85rem; line-height: 2rem;
  overflow: hidden; white-space: nowrap; text-overflow: ellipsis; box-sizing: border-box; }
.zmon-time i:empty { padding: 0; }
.stHtml .zmon-legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0 1.2rem; margin: .3rem 0 0;
  padding: 0; }
.zmon-legend li { margin: 0; font-variant-numeric: tabular-nums; }
.zmon-legend li::before { content: ""; display: inline-block; width: .8em; height: .8em; border-radius: 2px;
  background: var(--tint); margin-right: .35rem; }
.zmon-lanes { display: grid; grid-template-columns: minmax(4rem, max-content) 1fr; gap: .2rem .7rem;
  align-items: center; }
.zmon-lanes span { font-size: .85rem; overflow-wrap: anywhere; max-width: 14rem; }
.zmon-lanes div { position: relative; height: calc(.3rem + var(--tracks, 1) * 1.2rem); border-radius: 4px;
  background: color-mix(in srgb, currentColor 7%, transparent); }
.zmon-lanes a { position: absolute; top: calc(.2rem + var(--track) * 1.2rem); height: 1.1rem; min-width: 8px;
  max-width: 100%; border-radius: 3px;
  background: var(--tint); }
.zmon-lanes a:hover, .zmon-lanes a:focus-visible { outline: 2px solid currentColor; z-index: 1; }
.zmon-lanes .zmon-axis { background: none; height: auto; }
.zmon-axis { display: flex; justify-content: space-between; font-size: .75rem; opacity: .75; }
.zmon-axis i { font-style: normal; }
.zmon-plain { padding-left: 3rem; }
.zmon-plain .levels { position: relative; height: 11rem; margin: .5rem 0 .4rem; }
.zmon-plain .levels i { position: absolute; left: -3rem; right: 0; font-style: normal; font-size: .75rem;
  line-height: 0; }
.zmon-plain .levels i::after { content: ""; position: absolute; left: 3rem; right: 0;
  border-top: 1px solid color-mix(in srgb, currentColor 18%, transparent); }
.zmon-plain img { position: absolute; width: 100%; height: 100%; max-width: none; }
.zmon-vitals small { font-size: .55em; opacity: .8; }
.zmon-chart-unknown p { margin: 0; }
.zmon-chart-unknown code { font-size: .9em; color: inherit;
  background: color-mix(in srgb, currentColor 12%, transparent); }
.zmon-as-of { position: absolute; z-index: 1; right: .8rem; top: .4rem; margin: 0; font-size: .75rem; opacity: .75; }
.zmon-banner.first { padding-top: 1.5rem; border-top-left-radius: 6px; border-top-right-radius: 6px; }
.zmon-banner.last { padding-bottom: .7rem; border-bottom-left-radius: 6px; border-bottom-right-radius: 6px; }
.zmon-banner .sign { font-size: 1.3rem; }
.zmon-banner .sign span { color: var(--tint); }
.zmon-table { overflow-x: auto; }
.zmon-table table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
.zmon-table th, .zmon-table td { text-align: left; padding: .3rem .7rem; vertical-align: top;
  border-bottom: 1px solid color-mix(in srgb, currentColor 18%, transparent); }
.zmon-table th { font-weight: 600; opacity: .75; white-space: nowrap; }
@media (max-width: 640px) {
  .zmon-table th { white-space: normal; }
  .zmon-table th, .zmon-table td { padding: .3rem .35rem; }
}
.zmon-table td[style] { border-left: 8px solid var(--tint); padding: 0; min-width: 0; }
.stHtml .zmon-list { list-style: none; margin: 0; padding: 0; }
.zmon-list li { border-left: 6px solid var(--tint); padding: .1rem .7rem; margin: .2rem 0; }
.zmon-hosts { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .5rem; }
.zmon-hosts > div { border: 1px solid color-mix(in srgb, currentColor 22%, transparent); border-radius: 6px;
  padding: .35rem .6rem; line-height: 1.3; overflow-wrap: anywhere; }
.zmon-hosts small { opacity: .75; margin-left: .5rem; }
.zmon-hosts i { display: block; height: 1rem; margin-top: .35rem; border: 1px solid var(--tint); border-radius: 2px;
  width: min(100%, calc(var(--parts) * 15px)); --each: calc(100% / var(--parts)); background:
  repeating-linear-gradient(90deg, transparent 0 calc(var(--each) - 1px), var(--tint) 0 var(--each)), var(--busy); }
.st-key-zmon-ways { border-bottom: 1px solid color-mix(in srgb, currentColor 18%, transparent); }
.zmon-banner a, .zmon-table a, .zmon-list a, .zmon-hosts a, .zmon-ranks a, .zmon-other a { color: inherit; }
.stHtml time[title] { text-decoration: underline dotted from-font; text-underline-offset: .2em; cursor: help; }
.zmon-other, .zmon-unknown, .zmon-list { margin: 0; opacity: .9; overflow-wrap: anywhere; }
.zmon-table td { overflow-wrap: anywhere; min-width: 5.5rem; }
.zmon-ranks { display: grid; grid-template-columns: repeat(auto-fill, minmax(10rem, 1fr)); gap: .5rem; }
.zmon-ranks > div { border: 1px solid color-mix(in srgb, var(--tint) 60%, transparent);
  border-left: 6px solid var(--tint); border-radius: 6px; padding: .4rem .7rem;
  display: flex; flex-direction: column; line-height: 1.35; }
.zmon-ranks > .culprit { background: color-mix(in srgb, var(--tint) 22%, transparent); border-width: 2px 2px 2px 8px; }
.zmon-states p { margin: 0 0 .3rem; font-variant-numeric: tabular-nums; }
.zmon-states i { display: block; height: .8rem; border-radius: 3px; }
.zmon-ranks b { font-size: 1.1rem; }
.zmon-ranks i { font-style: normal; font-weight: 600; }
.zmon-ranks span { font-size: .85rem; opacity: .85; }
.zmon-chart-unknown { min-height: 4rem; display: flex; align-items: center; justify-content: center;
  border: 1px dashed color-mix(in srgb, currentColor 35%, transparent); border-radius: 6px; padding: 1rem;
  text-align: center; opacity: .8; }
</style>
"""
