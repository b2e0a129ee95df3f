"""Tests of the report: a self-contained page that is harmless whatever the records contain, drawn by a real browser."""

import html.parser
import json
import pathlib
import re
import shutil
import subprocess
import time

import pytest
from histories import History, jobs_of, record, write

from isthmus import cli, exits
from isthmus.records import load

ROOT = pathlib.Path(__file__).resolve().parents[2]
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7777 * 7777 }}\x1b[2J"


def made(tmp_path, *arguments, code=0):
    out = tmp_path / "report.html"
    assert cli.main(["report", *map(str, arguments), "-o", str(out)]) == code
    return out.read_text()


class Page(html.parser.HTMLParser):
    """Parsed page: its elements with their attributes, and its text outside scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", "".join(self.words))


def test_the_committed_records_make_a_whole_page(tmp_path, capsys):
    text = made(tmp_path, ROOT / "papers/data", "--profiled")
    kept = sum(len(load.read(path)) for path in (ROOT / "papers/data").rglob("*.jsonl*"))
    assert f"{kept} records" in capsys.readouterr().out and len(text.encode()) < 10e6
    page = Page(text)
    expected = ["Summary", "NVIDIA H200", "From where to where", "transfer/ce: rate at 1GiB", "Provenance"]
    families = ["Other families", "stream/gpu0/triad bytes=512MiB memory=pool", "alloc: ", "fault/cpu/anonymous"]
    for words in [*expected, *families, "580.159.04", "Roofline", "Modes at super", "timer_coarse"]:
        assert words in page.text
    plots = json.loads(re.search(r'id="plots">(.*?)</script>', text, re.DOTALL)[1])
    places = {attributes["id"] for tag, attributes in page.elements if attributes.get("class") == "plot"}
    assert set(plots) == places and len(plots) > 5


def test_hosts_of_two_and_of_four_gpus_are_not_one_machine(tmp_path):
    text = Page(made(tmp_path, ROOT / "papers/data/h200-x2", ROOT / "papers/data/h200-x4")).text
    assert "779 GB/s" in text and "940 GB/s" in text and "859 GB/s" not in text


def test_the_page_asks_for_nothing(tmp_path):
    page = Page(made(tmp_path, ROOT / "papers/data/h200"))
    assert not [tag for tag, attributes in page.elements if {"src", "data", "action"} & attributes.keys()]
    assert all(attributes["href"].startswith("#") for tag, attributes in page.elements if "href" in attributes)
    policy = next(a["content"] for tag, a in page.elements if "http-equiv" in a)
    assert policy.startswith("default-src 'none'")


def test_hostile_strings_are_only_text(tmp_path):
    cases = jobs_of(History(step=0.05), 1, 8)
    for index, case in enumerate(cases):
        case["run"] |= {"system": EVIL, "node": EVIL}
        case["host"] |= {"cpu": EVIL, "kernel": EVIL + str(index // 8)}
        case["devices"][0]["name"] = EVIL
        case["metrics"][0] |= {"share": 0.5, "name": "in_rate", "limit": {"value": 1.0, "unit": "s", "source": EVIL}}
        case["warnings"] = [{"code": "evil", "message": EVIL, "samples": None}]
        case["size"] = case["placement"] = EVIL
    folder = write(tmp_path / "r", cases)
    (folder / f"{EVIL.replace('/', '')}.jsonl").write_text("{")
    text = made(tmp_path, folder, "--from", "driver=570", "--to", "driver=580", "--title", EVIL, code=exits.UNDECIDED)
    page = Page(text)
    assert [tag for tag, _ in page.elements].count("script") == 4
    assert "img" not in [tag for tag, _ in page.elements]
    assert not [a for _, a in page.elements if any(name.startswith("on") for name in a)]
    assert "<script>alert(1)</script>" in page.text and "{{ 7777 * 7777 }}" in page.text and "60481729" not in page.text
    assert "\x1b" not in re.sub(r"<title>.*?</title>|<h1>.*?</h1>", "", text)


def test_the_terminal_has_a_summary(capsys):
    assert cli.main(["report", str(ROOT / "papers/data/h200")]) == 0
    said = capsys.readouterr().out
    assert said.startswith("1 record is invalid and left out: others on the GPU.\n28 figures are low:\n- ")
    assert re.search(r"(?m)^NVIDIA H200 +17 +\d+ +\d+ +0 +\d+ +0\.\d+% +\d+%$", said), (
        "hosts of one name, by their GPUs"
    )
    assert "coarse timer (" in " ".join(said.split()) and "warning timer_coarse: " in said
    assert max(map(len, said.splitlines())) <= 80


def test_hostile_strings_do_not_steer_the_terminal(tmp_path, capsys):
    cases = jobs_of(History(), 1, 8)
    for case in cases:
        case["devices"][0]["name"] = EVIL + "[bold red]"
    assert cli.main(["report", str(write(tmp_path / "r", cases))]) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said and "[bold red]" in said


def test_a_comparison_is_part_of_the_page(tmp_path):
    folder = write(tmp_path / "r", jobs_of(History(step=0.05), 1, 8))
    text = Page(made(tmp_path, folder, "--from", "driver=570", "--to", "driver=580")).text
    assert "8 jobs against 8" in text and "regressed" in text


def test_the_page_opens_with_the_answer(tmp_path):
    """Checks that the verdict on a change is at the top of the page, and what was left out directly below."""
    cases = jobs_of(History(step=0.05), 1, 8)
    cases[0]["warnings"] = [{"code": "xid_errors", "message": "Xid 79", "samples": None}]
    text = made(tmp_path, write(tmp_path / "r", cases), "--from", "driver=570", "--to", "driver=580")
    parts = ["The change: regressed", "left out: driver errors", 'id="summary"', 'id="regressions"', 'id="machine1"']
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_without_anything_to_say_the_page_says_so(tmp_path, capsys):
    cases = [record(0.001, job=str(job)) for job in range(3)]
    assert cli.main(["report", str(write(tmp_path / "r", cases))]) == 0
    assert capsys.readouterr().out.startswith("Nothing failed, and nothing casts doubt on 1 figure.\n")


def test_low_figures_are_named_at_the_top_and_marked_where_they_stand(tmp_path):
    case = record(29.1e9, workload="transfer/pinned-gpu0/ce", axes={"bytes": 1 << 30}, placement=None)
    case["metrics"][0] |= {"name": "rate", "unit": "B/s", "better": "higher", "share": 0.46, "bytes_moved": 1 << 30}
    case["metrics"][0]["limit"] = {"value": 63e9, "unit": "B/s", "source": "PCIe 5 x16"}
    text = Page(made(tmp_path, write(tmp_path / "r", [case]))).text
    words = "low, 53% of the usual 87% of PCIe: the record does not say why"
    assert text.index("1 figure is low:") < text.index("Figures are medians") and text.count(words) >= 2


def test_a_node_far_off_its_equals_is_named(tmp_path, capsys):
    """Makes one of eight nodes slow, which the median over nodes hides."""
    cases = [
        record(value * (1 + job / 1000), node=f"n{node}", gpu=f"GPU-{node}", job=f"{node}{job}")
        for node, value in enumerate([0.001] * 7 + [0.0013])
        for job in range(4)
    ]
    assert cli.main(["report", str(write(tmp_path / "r", cases))]) == 0
    said = capsys.readouterr().out
    assert said.startswith("1 node is far from their equals (see `isthmus nodes`):\n- n7 is 23.1% worse")


def test_five_thousand_records_in_fifteen_seconds_and_ten_megabytes(tmp_path):
    cases = [
        record(0.001 * (1 + job / 1000), job=str(job), workload=f"transfer/gpu{a}-gpu{b}/ce", axes={"bytes": 1 << size})
        for job in range(5)
        for a in range(5)
        for b in range(5)
        for size in range(40)
    ]
    folder = write(tmp_path / "r", cases)
    started = time.process_time()
    text = made(tmp_path, folder)
    assert time.process_time() - started < 15 and len(text.encode()) < 10e6


def test_bad_input(tmp_path, capsys):
    assert cli.main(["report", str(tmp_path)]) == 2
    assert cli.main(["report", str(ROOT / "papers/data/h200/medium.jsonl"), "-o", "/none/x.html"]) == 2
    assert cli.main(["report", str(ROOT / "papers/data/h200"), "--from", "driver=1"]) == 2
    assert capsys.readouterr().err.count("\n") == 3


@pytest.mark.skipif(not shutil.which("chromium"), reason="no chromium here")
@pytest.mark.parametrize("width", [420, 1280])
def test_a_browser_draws_it_without_an_error(tmp_path, width):
    cases = [record(0.001, axes={"bytes": 1 << n}, workload="transfer/gpu0-gpu1/ce") for n in range(9)]
    for case in cases:
        case["metrics"][0] |= {"name": "rate", "unit": "B/s", "share": 0.8, "better": "higher"}
    folder = write(tmp_path / "r", cases)
    made(tmp_path, folder)
    for seconds in (10, 30, 90):  # on a busy machine, a browser may not draw a frame within a few seconds
        drawn = subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},4000", "--dump-dom",
             f"--virtual-time-budget={1000 * seconds}", "--enable-logging=stderr",
             f"--user-data-dir={tmp_path / f'profile{seconds}'}", (tmp_path / "report.html").as_uri()],
            capture_output=True, text=True, check=True, timeout=240,
        )  # fmt: skip
        assert "CONSOLE" not in drawn.stderr, drawn.stderr
        if drawn.stdout.count('class="main-svg"') >= 2:
            return
    pytest.fail("no plot was drawn")
