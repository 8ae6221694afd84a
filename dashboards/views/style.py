"""How the page looks: a banner to be read from the door, tiles that wrap, the same words on light and on dark."""

# Tints are laid over the theme's own background and text keeps the theme's own colour, so both themes work.
CSS = """
<style>
.stMainBlockContainer { padding-top: 3.8rem; padding-bottom: 2rem; }
.zmon-banner { border-left: 10px solid var(--tint); border-radius: 6px; padding: .7rem 1.1rem;
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
.zmon-other, .zmon-unknown { margin: 0; opacity: .9; }
.zmon-ranks { display: grid; grid-template-columns: repeat(auto-fill, minmax(10rem, 1fr)); gap: .5rem; }
.zmon-ranks > div { border: 1px solid color-mix(in srgb, var(--tint) 60%, transparent);
  border-left: 6px solid var(--tint); border-radius: 6px; padding: .4rem .7rem;
  display: flex; flex-direction: column; line-height: 1.35; }
.zmon-ranks > .culprit { background: color-mix(in srgb, var(--tint) 22%, transparent); border-width: 2px 2px 2px 8px; }
.zmon-ranks b { font-size: 1.1rem; }
.zmon-ranks i { font-style: normal; font-weight: 600; }
.zmon-ranks span { font-size: .85rem; opacity: .85; }
.zmon-chart-unknown { height: 230px; display: flex; align-items: center; justify-content: center;
  border: 1px dashed color-mix(in srgb, currentColor 35%, transparent); border-radius: 6px; padding: 1rem;
  text-align: center; opacity: .8; }
</style>
"""
