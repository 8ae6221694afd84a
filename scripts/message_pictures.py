"""Draw an alert in Slack's form and the ends of launches for the docs: `python -m scripts.message_pictures`.

`make screenshots` does it as well. The alert is the first one in tests/deploy/alertmanager/data.json, as the receiver
`pager` of deploy/alertmanager/slack.yml formats it. The ends are the answer of a hub after two jobs of torchrun
(scripts/ends.json).
"""

from __future__ import annotations

import io
import json
import subprocess
import tempfile
from html import escape
from pathlib import Path

import msgspec
import yaml
from PIL import Image
from playwright.sync_api import sync_playwright
from rich.console import Console

from tests.e2e.browser import CHROMIUM, FLAGS
from tests.places import REPOSITORY
from zmon.cli.render.records import ends_text
from zmon.schema.api import EndList

WIDTH = 760  # pixels
COLUMNS = 100  # width of the terminal
TEMPLATE = REPOSITORY / "deploy/alertmanager/zmon.tmpl"
_COLOURS = {"danger": "#a30200", "warning": "#daa038", "good": "#2eb886"}  # of attachments, by Slack's names
_SLACK = """<style>
body {{ font: 15px/1.46 Lato, "DejaVu Sans", sans-serif; color: #1d1c1d; margin: 12px; }}
.bar {{ border-left: 4px solid {colour}; padding: 2px 12px; margin-top: 4px; white-space: pre-line; }}
.bar b {{ color: #1264a3; }} small {{ color: #616061; }}
button {{ font: bold 13px "DejaVu Sans", sans-serif; background: white; border: 1px solid #bbb; border-radius: 4px;
  padding: 6px 12px; margin: 8px 8px 0 0; }}
</style><b>zmon</b> <small>{channel}</small><div class="bar"><b>{title}</b>
{text}<div>{buttons}</div></div>"""
_TERMINAL = '<body style="margin: 12px"><pre style="font: 13px/1.4 DejaVu Sans Mono, monospace">{code}</pre></body>'


def main() -> None:
    """Write both pictures."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": 100}, device_scale_factor=1.5)
        for name, html in {"alert-slack.png": slack(), "ends.png": ends()}.items():
            page.set_content(html)
            picture = Image.open(io.BytesIO(page.screenshot(full_page=True)))
            path = REPOSITORY / "docs" / name
            picture.convert("RGB").quantize(64).save(path, optimize=True)
            print(f"{name}: {path.stat().st_size / 1000:.0f} kB")
        browser.close()


def slack() -> str:
    """Return the page of an alert."""
    receivers = yaml.safe_load((REPOSITORY / "deploy/alertmanager/slack.yml").read_text())["receivers"]
    (message,) = next(receiver["slack_configs"] for receiver in receivers if receiver["name"] == "pager")
    group = json.loads((REPOSITORY / "tests/deploy/alertmanager/data.json").read_text())
    group["alerts"] = group["alerts"][:1]
    text = {name: escape(_render_template(message[name], group)) for name in ("color", "title", "text")}
    buttons = "".join(f"<button>{escape(action['text'])}</button>" for action in message["actions"])
    return _SLACK.format(
        colour=_COLOURS[text["color"]],
        channel=message["channel"],
        title=text["title"],
        text=text["text"],
        buttons=buttons,
    )


def _render_template(template: str, group: object) -> str:
    """Return what Alertmanager makes of a template for a group of alerts."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as data:
        data.write(json.dumps(group))
        data.flush()
        command = ["amtool", "template", "render", "--template.glob", str(TEMPLATE), "--template.data", data.name]
        done = subprocess.run([*command, "--template.text", template], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def ends() -> str:
    """Return the page of the ends of launches."""
    answer = msgspec.json.decode(Path(__file__).with_name("ends.json").read_bytes(), type=EndList)
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print("[bold]$ zmon ends[/]")
    console.print(ends_text(answer, job_id=None, days=None))
    return console.export_html(inline_styles=True, code_format=_TERMINAL)


if __name__ == "__main__":
    main()
