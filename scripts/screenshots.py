"""Draw the pictures of the docs from a replay recording: `python -m scripts.screenshots`, or `make screenshots`.

docs/dashboard.png is the page of the job during the fault. docs/frozen-rank.gif shows the same page from a job that
trains to the name of its culprit. Playwright drives Debian's Chromium; pillow joins the frames. The other pictures of
the docs are in `message_pictures.py`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from tests.e2e.browser import CHROMIUM, FLAGS

DOCS = Path(__file__).parents[1] / "docs"
NAME = "frozen-rank"  # of the recording
CULPRIT = "rank 2"  # of its fault
WIDTH, HEIGHT = 1160, 1460  # pixels of the page in docs/dashboard.png
GIF_WIDTH, GIF_HEIGHT = 900, 640  # pixels of docs/frozen-rank.gif, which shows the top of the page
COLOURS = 64  # of the GIF
FRAME_SECONDS = 1.0
LAST_SECONDS = 4.0  # the last frame stays this long
HEALTHY_FRAMES, FAULTY_FRAMES = 5, 7  # shown before and after the page names the culprit
CHARTS_SECONDS = 5.0  # until the charts have caught up with the banner
READY_SECONDS = 90.0
BANNER = "[data-testid=zmon-banner]"


def main() -> None:
    """Play the recording and write both pictures."""
    with replay(NAME) as dashboard, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(f"{dashboard}/job?job_id=recorded-{NAME}&range=5m")
        page.wait_for_selector(BANNER, timeout=1000 * READY_SECONDS)
        frames = [*gif_frames(page)]
        page.wait_for_timeout(1000 * CHARTS_SECONDS)
        still = Image.open(io.BytesIO(page.screenshot()))
        browser.close()
    still.convert("RGB").quantize(256).save(DOCS / "dashboard.png", optimize=True)
    save_gif(frames, DOCS / f"{NAME}.gif")
    for name in ("dashboard.png", f"{NAME}.gif"):
        print(f"{name}: {(DOCS / name).stat().st_size / 1000:.0f} kB")


@contextlib.contextmanager
def replay(name: str) -> Iterator[str]:
    """Play a recording, and yield the URL of its dashboard once that answers."""
    with tempfile.TemporaryFile() as out:
        command = [sys.executable, "-m", "zmon", "demo", "--replay", name]
        process = subprocess.Popen(command, stdout=out, stderr=out, env=os.environ | {"COLUMNS": "160"})
        try:
            yield dashboard_of(process, out.fileno())
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=30)


def dashboard_of(process: subprocess.Popen[bytes], output: int) -> str:
    """Wait until the replay has printed the URL of the dashboard, and return it."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        text = os.pread(output, 1 << 16, 0).decode()
        if match := re.search(r"dashboard\W+(http://[\d.:]+)", text):
            return match[1]
        time.sleep(0.1)
    sys.exit(f"screenshots: the replay did not start: {os.pread(output, 1 << 16, 0).decode()}")


def gif_frames(page: Page) -> Iterator[Image.Image]:
    """Yield the last frames of the healthy job, and the first ones after its culprit has a name."""
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": WIDTH * GIF_HEIGHT / GIF_WIDTH}
    healthy: list[Image.Image] = []
    remaining = FAULTY_FRAMES
    deadline = time.monotonic() + READY_SECONDS
    while remaining and time.monotonic() < deadline:
        began = time.monotonic()
        banner = page.inner_text(BANNER)
        frame = Image.open(io.BytesIO(page.screenshot(clip=clip)))  # type: ignore[arg-type]
        if CULPRIT in banner:
            if remaining == FAULTY_FRAMES and not healthy:
                sys.exit("screenshots: the page opened after the fault, because the machine is busy. Try again")
            yield from healthy[-HEALTHY_FRAMES:]
            healthy.clear()
            yield frame
            remaining -= 1
        elif "HEALTHY" in banner:
            healthy.append(frame)
        page.wait_for_timeout(1000 * max(0.0, began + FRAME_SECONDS - time.monotonic()))


def save_gif(frames: list[Image.Image], path: Path) -> None:
    """Write the frames as an animated GIF with one palette, so that nothing flickers."""
    small = [frame.convert("RGB").resize((GIF_WIDTH, GIF_HEIGHT), Image.Resampling.LANCZOS) for frame in frames]
    sheet = Image.new("RGB", (GIF_WIDTH, 2 * GIF_HEIGHT))
    sheet.paste(small[0], (0, 0))
    sheet.paste(small[-1], (0, GIF_HEIGHT))
    palette = sheet.quantize(COLOURS)
    first, *rest = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in small)
    milliseconds = [int(1000 * FRAME_SECONDS)] * len(rest) + [int(1000 * LAST_SECONDS)]
    first.save(path, save_all=True, append_images=rest, duration=milliseconds, loop=0, optimize=True)


if __name__ == "__main__":
    main()
