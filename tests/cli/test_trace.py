"""`planish trace` as a user meets it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.traces import Builder, training

import planish
from planish.cli.main import main


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = 0
    try:
        main([str(word) for word in words])
    except SystemExit as error:
        code = int(error.code or 0)
    out = capsys.readouterr()
    return code, out.out, out.err


def test_the_first_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = training().write(tmp_path / "t.json")
    code, out, err = run(capsys, "trace", path)
    assert (code, err) == (0, "")
    for words in (
        "device 0", "busy", "idle", "host busy elsewhere", "data loading", "gemm", "ncclDevKernel",
        "Memcpy DtoH", "20.0 GB/s", "steps: 3", "critical path",
    ):  # fmt: skip
        assert words in out


def test_json_is_the_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = training().write(tmp_path / "t.json")
    code, out, _ = run(capsys, "trace", path, "--json", "--top", "5")
    assert code == 0
    found = json.loads(out)
    assert found.pop("what_if") == []
    assert found.pop("advice")
    assert found == json.loads(json.dumps(planish.read_trace(path).summary(5)))
    (device,) = found["devices"]
    assert device["busy"] + device["idle"] == device["span"]
    assert sum(device["idle_by_cause"].values()) == device["idle"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nothing.json",), "cannot read"),
        (("cut.json",), "byte"),
        (("t.json", "--nonsense"), "No such option"),
        ((), "no FILE"),
        (("diff", "t.json"), "Missing argument"),
        (("export", "t.json", "o", "--format", "perfeto"), "did you mean perfetto"),
        (("t.json", "--html", "missing/folder/x.html"), "cannot write"),
        (("empty",), "no traces in"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...], message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    text = training().write(Path("t.json")).read_text()
    Path("cut.json").write_text(text[:900])
    Path("empty").mkdir()
    code, _, err = run(capsys, "trace", *words)
    assert code == 2
    assert message in err
    assert err.startswith("planish: error: ")
    assert len(err.splitlines()) == 1


def test_salvage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = training().text()
    (tmp_path / "cut.json").write_text(text[: len(text) // 2])
    code, out, _ = run(capsys, "trace", tmp_path / "cut.json", "--salvage")
    assert code == 0
    assert "damaged parts left out" in out


def test_diff(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = training().write(tmp_path / "a.json")
    made = training()
    for event in made.events:
        if event["name"] == "gemm":
            event["dur"] -= 50
    after = made.write(tmp_path / "b.json")
    code, out, _ = run(capsys, "trace", "diff", before, after, "--json")
    assert code == 0
    kernels = {row["what"]: row for row in json.loads(out)["kernels"]}
    assert kernels["gemm"]["before"] - kernels["gemm"]["after"] == 150_000
    code, out, _ = run(capsys, "trace", "diff", before, after)
    assert "-50.0%" in out


def test_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(3):
        made = Builder(head={"distributedInfo": {"rank": rank}})
        made.call("cudaLaunchKernel", 0, 1, 1)
        made.kernel("gemm", 5, 100 if rank != 1 else 150, 1)
        made.write(tmp_path / f"{rank}.json")
    (tmp_path / "bad.json").write_text("{")
    code, out, _ = run(capsys, "trace", tmp_path, "--json")
    found = json.loads(out)
    assert code == 0
    assert [row["rank"] for row in found["rows"]] == [0, 1, 2]
    assert [row["straggler"] for row in found["rows"]] == [False, True, False]
    assert found["skew"] == pytest.approx(0.5)
    assert len(found["failed"]) == 1
    code, out, _ = run(capsys, "trace", tmp_path)
    assert "straggler" in out
    assert "left out" in out


def test_perfetto_reads_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = training().write(tmp_path / "t.json")
    run(capsys, "trace", "export", path, tmp_path / "p.json")
    first, second = planish.read_trace(path), planish.read_trace(tmp_path / "p.json")
    for name in ("start", "duration", "kind", "device", "stream", "correlation"):
        assert (getattr(first.events, name) == getattr(second.events, name)).all()
    assert [first.strings[i] for i in first.events.name] == [
        second.strings[i] for i in second.events.name
    ]
    assert (first.table.details.grid == second.table.details.grid).all()


def test_the_first_screen_says_what_to_look_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = training().write(tmp_path / "t.json")
    _, out, _ = run(capsys, "trace", path)
    advice = planish.read_trace(path).advise()
    assert f"up to {advice[0].speedup:.2f}x  {advice[0].title}" in out
    # both streams, each with what it waits for most
    assert re.search(r"^ +7 .*% host busy elsewhere", out, re.MULTILINE)
    assert re.search(r"^ +20 .*% (host busy|waiting|no work)", out, re.MULTILINE)
    _, out, _ = run(capsys, "trace", path, "--json")
    found = json.loads(out)
    assert [row["rule"] for row in found["advice"]] == [a.rule for a in advice[:3]]
    for row in found["devices"][0]["streams"]:
        assert sum(row["idle_by_cause"].values()) == row["idle"]


def test_what_if(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = training().host("f<a=2>", 0, 1).write(tmp_path / "t.json")
    trace = planish.read_trace(path)
    _, out, _ = run(capsys, "trace", path, "--what-if", "gemm=2", "--what-if",
                    "cudaStreamSynchronize", "--json")  # fmt: skip
    faster, without = json.loads(out)["what_if"]
    assert faster["after"] == trace.what_if("gemm", faster=2).after
    assert without["after"] == trace.what_if("cudaStreamSynchronize").after < without["before"]
    _, out, _ = run(capsys, "trace", path, "--what-if", "gemm=1.5")
    assert "what if gemm: 1.5 times as fast: " in out
    code, _, err = run(capsys, "trace", path, "--what-if", "gemn=2")
    assert code == 2
    assert "did you mean gemm" in err


def test_speedscope_holds_the_idle_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = training().write(tmp_path / "t.json")
    run(capsys, "trace", "export", path, tmp_path / "s.json", "--format", "speedscope")
    found = json.loads((tmp_path / "s.json").read_text())
    (profile,) = found["profiles"]
    assert sum(profile["weights"]) == planish.read_trace(path).idle().total
    frames = found["shared"]["frames"]
    assert all(0 <= f < len(frames) for sample in profile["samples"] for f in sample)


def test_the_page_is_whole_and_works_in_a_browser(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = training().host("</script><b>x</b>", 50, 5)
    path, page = made.write(tmp_path / "t.json"), tmp_path / "t.html"
    code, _, _ = run(capsys, "trace", path, "--html", page)
    text = page.read_text()
    assert code == 0
    assert "</script><b>" not in text
    assert "http://" not in text
    assert "https://" not in text
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no chromium here")
    shown = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
         f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()],
        capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip
    assert 'data-ready="yes"' in shown
    assert "data loading" in shown
    assert "% busy of" in shown
