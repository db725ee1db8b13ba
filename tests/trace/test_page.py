"""The HTML page in a real browser, by real input: zoom, drag, click, search, sort, hover."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.browser import Browser, chromium
from support.traces import training

from planish.trace.page import page, page_data
from planish.trace.trace import Trace

ROW, AXIS = 16, 20  # of the timeline, in pixels


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    made = training(3)
    made.host("a_function_of_a_very_long_name_" * 12, 4000, 400)
    made.host("worker", 0, 500, thread=77)
    # a thread whose name has no room in a third of the window
    made.events.append({"ph": "M", "name": "thread_name", "pid": 100, "tid": 77,
                        "args": {"name": "pool of workers " * 9}})  # fmt: skip
    return made.trace(tmp_path_factory.mktemp("trace"))


@pytest.fixture(scope="module")
def browser(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    command = chromium()
    if command is None:
        pytest.skip("no chromium here")
    folder = tmp_path_factory.mktemp("page")
    (folder / "t.html").write_text(page(trace))
    with Browser(command, folder / "profile") as opened:
        opened.open((folder / "t.html").as_uri())
        yield opened


@pytest.fixture(autouse=True)
def whole_run(request: pytest.FixtureRequest) -> None:
    """Each test begins with the whole run in view."""
    if "browser" in request.fixturenames:
        request.getfixturevalue("browser").click("#whole")


def view(browser: Browser) -> tuple[float, float]:
    left, right = browser.value("[from, to]")
    return left, right


def x_of(browser: Browser, nanoseconds: float) -> float:
    return float(browser.value(
        f"LABEL + ({nanoseconds} - from) * (canvas.clientWidth - LABEL) / (to - from)"
    ))  # fmt: skip


def line_of(browser: Browser, label: str) -> int:
    return int(browser.value(f"rows.findIndex(r => r.label === {label!r})"))


def colour_at(browser: Browser, x: float, line: int) -> list[int]:
    """Red, green, blue of the canvas a little above the middle of a row, beside any text."""
    y = AXIS + line * ROW + 3
    return list(browser.value(
        "[...canvas.getContext('2d').getImageData("
        f"{x} * devicePixelRatio, {y} * devicePixelRatio, 1, 1).data.slice(0, 3)]"
    ))  # fmt: skip


def test_an_event_is_drawn_where_it_ran(browser: Browser, trace: Trace) -> None:
    lane = line_of(browser, "device 0 stream 20")
    begin = trace.span[0]
    (first, *_) = trace.work.where(trace.work.stream == 20).start.tolist()
    middle, before = first + 100_000 - begin, first - 20_000 - begin
    for zoomed in (False, True):
        if zoomed:
            browser.wheel("#timeline", x_of(browser, middle), AXIS + 5, -120)
        assert colour_at(browser, x_of(browser, middle), lane) == [0xD9, 0x82, 0x2B]
        assert colour_at(browser, x_of(browser, before), lane) != [0xD9, 0x82, 0x2B]


def test_the_wheel_zooms_about_the_mouse(browser: Browser) -> None:
    left, right = view(browser)
    place = x_of(browser, (left + right) / 2)
    browser.wheel("#timeline", place, 30, -120)
    closer = view(browser)
    assert closer[1] - closer[0] == pytest.approx(0.8 * (right - left))
    assert sum(closer) / 2 == pytest.approx((left + right) / 2, rel=0.01)
    browser.wheel("#timeline", place, 30, 120)
    assert view(browser) == pytest.approx((left, right), rel=0.01, abs=1e4)


def test_buttons_double_click_and_keys(browser: Browser) -> None:
    whole = view(browser)
    browser.click("#in")
    assert view(browser)[1] - view(browser)[0] == pytest.approx(0.6 * (whole[1] - whole[0]))
    browser.click("#whole")
    assert view(browser) == whole
    browser.click("#timeline", x_of(browser, whole[1] / 2), 30, times=2)
    inside = view(browser)
    assert inside[1] - inside[0] == pytest.approx(0.25 * (whole[1] - whole[0]))
    browser.value("canvas.focus()")
    browser.press("ArrowRight")
    moved = view(browser)
    assert moved[0] - inside[0] == pytest.approx((inside[1] - inside[0]) / 8)
    browser.press("+")
    assert view(browser)[1] - view(browser)[0] == pytest.approx(0.7 * (inside[1] - inside[0]))


def test_dragging_moves_the_run_with_the_mouse(browser: Browser) -> None:
    for _ in range(2):
        browser.click("#in")
    left, right = view(browser)
    pixels = float(browser.value("canvas.clientWidth - LABEL"))
    browser.drag("#timeline", (600, 40), -80)
    assert view(browser)[0] - left == pytest.approx(80 / pixels * (right - left), rel=0.02)


def test_hovering_says_what_ran(browser: Browser, trace: Trace) -> None:
    lane = line_of(browser, "device 0 stream 7")
    first = int(trace.work.where(trace.work.stream == 7).start[0]) - trace.span[0]
    browser.hover("#timeline", x_of(browser, first + 50_000), AXIS + lane * ROW + 8)
    assert browser.value("tip.style.display") == "block"
    assert browser.value("tip.textContent").startswith("gemm\n100.00 us at ")


def test_labels_have_room_or_end_in_an_ellipsis(browser: Browser) -> None:
    browser.value("window.texts = []; window.plain = CanvasRenderingContext2D.prototype.fillText;"
                  "CanvasRenderingContext2D.prototype.fillText = function (t, x, y) {"
                  " texts.push([t, x, this.measureText(t).width, this.canvas.clientWidth]);"
                  " return plain.call(this, t, x, y); }; all()")  # fmt: skip
    texts = browser.value("texts")
    browser.value("CanvasRenderingContext2D.prototype.fillText = plain")
    assert len(texts) > 10
    assert all(x + width <= whole for _, x, width, whole in texts)
    label = float(browser.value("LABEL"))
    lanes = [(text, width) for text, x, width, _ in texts if x == 6]
    assert all(6 + width <= label for _, width in lanes)
    drawn = [text for text, _ in lanes]
    assert "device 0 stream 7" in drawn
    assert any(text.startswith("pool of workers") and text.endswith("…") for text in drawn)
    # the whole name stands where the mouse rests on the label
    line = int(browser.value("rows.findIndex(r => r.lane.startsWith('pool of'))"))
    browser.hover("#timeline", 20, AXIS + line * ROW + 8)
    assert browser.value("tip.textContent").startswith("pool of workers " * 9)


def test_a_click_on_a_frame_looks_into_it(browser: Browser) -> None:
    everything = browser.value("document.getElementById('flamewhere').textContent")
    assert everything.startswith("all idle time: ")
    x, y = browser.value("(() => { const b = boxes.find(b => label(b[3]) === 'data loading');"
                         " return [b[0] + b[2] / 2, b[1] + 9]; })()")  # fmt: skip
    browser.click("#flame", x, y)
    inside = browser.value("document.getElementById('flamewhere').textContent")
    assert inside.startswith("data loading: ")
    browser.click("#flameup")
    assert browser.value("document.getElementById('flamewhere').textContent") == everything


def test_finding_counts_what_is_in_view(browser: Browser) -> None:
    browser.click("#find")
    browser.write("GEMM")
    assert browser.value("document.getElementById('found').textContent") == "3 in view"
    browser.value("(() => { const f = document.getElementById('find'); f.value = '';"
                  " f.dispatchEvent(new Event('input')); })()")  # fmt: skip


def test_a_click_on_a_heading_sorts(browser: Browser) -> None:
    column = ("[...document.querySelectorAll('#kernels tbody tr')].map(r =>"
              " r.lastElementChild.textContent)")  # fmt: skip
    names = browser.value(column)
    assert len(names) == 2
    browser.click("#kernels th:last-child", 3, 3)
    down = browser.value(column)
    browser.click("#kernels th:last-child", 3, 3)
    assert down == sorted(names, reverse=True)
    assert browser.value(column) == sorted(names)


def test_the_flame_graph_holds_all_idle_time(trace: Trace) -> None:
    flame = page_data(trace)["flame"]
    assert sum(flame["own"]) == flame["total"][0] == trace.idle().total
