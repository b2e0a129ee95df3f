"""Named figures: each is drawn readably from the committed records, or is refused with one sentence."""

import itertools
import os
import pathlib
import re
import subprocess
import sys

import matplotlib
import pytest
from commands import run
from histories import record, write

from isthmus import Error, cli, exits
from isthmus.advise import overlap
from isthmus.figures import plots
from isthmus.tables import readings
from isthmus_papers.figures import command, interjob, memory, networks, paging, programs, registry

matplotlib.use("agg")
ROOT = pathlib.Path(__file__).resolve().parents[2]
TRANSFERS = ROOT / "papers/data/h200/transfer.jsonl.gz"


@pytest.fixture(scope="module")
def committed():
    with command.open_store([ROOT / "papers/data"]) as opened:
        yield opened


@pytest.fixture
def close_figures():
    yield
    plots.pyplot.close("all")


def visible(texts):
    return [each for each in texts if each.get_visible() and each.get_text().strip()]


def drawn_ticks(axis):
    """Returns the labels of the ticks that are within the axis."""
    low, high = sorted(axis.get_view_interval())
    labels = zip(axis.get_majorticklocs(), axis.get_majorticklabels())
    return visible(label for place, label in labels if low <= place <= high)


def unreadable(figure):
    """Yields texts that touch their neighbours on an axis, and texts outside the figure's area."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    paper = figure.bbox
    for axes in figure.axes:
        ticks = {"x": drawn_ticks(axes.xaxis), "y": drawn_ticks(axes.yaxis)}
        for labels in ticks.values():
            boxes = [(each.get_text(), each.get_window_extent(renderer)) for each in labels if not each.get_rotation()]
            pairs = itertools.pairwise(boxes)
            yield from (f"{a} touches {b}" for (a, one), (b, other) in pairs if one.overlaps(other))
        words = [
            axes.xaxis.label,
            axes.yaxis.label,
            axes.title,
            axes._left_title,
            *axes.texts,
            *ticks["x"],
            *ticks["y"],
        ]
        for each in visible(words):
            box = each.get_window_extent(renderer)
            if box.x0 < paper.x0 - 1 or box.x1 > paper.x1 + 1 or box.y0 < paper.y0 - 1 or box.y1 > paper.y1 + 1:
                yield f"{each.get_text()!r} of {axes.get_title(loc='left')!r} is cut"


@pytest.mark.parametrize("name", command.FIGURES)
def test_each_draws_from_the_committed_records(name, committed, close_figures):
    made, notes, _ = command.draw(name, committed, {})
    assert re.match(r"machine: ([24] × )?NVIDIA H", notes[0])
    assert not list(unreadable(made))
    for axes in made.axes:
        says = axes.get_title(loc="left") or axes.get_ylabel()
        assert says and (
            axes.has_data() or "these records do not show this" in [text.get_text() for text in axes.texts]
        ), says


def test_a_user_without_a_name_and_a_home_can_draw():
    code = (
        "import os, pwd, sys\n"
        "def unknown(uid): raise KeyError(uid)\n"
        "pwd.getpwuid = unknown\n"
        "from isthmus_papers.figures import command\n"
        "print(command.names())\n"
    )
    environment = {name: value for name, value in os.environ.items() if name not in ("HOME", "MPLCONFIGDIR")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "memory-latency" in done.stdout, done.stderr


def test_what_is_cut_or_touches_is_seen(close_figures):
    figure, [axes] = plots.panels(1, width=3)
    axes.set_xticks([0, 0.01, 1], ["a long name", "another one", "z"])
    assert any("touches" in each for each in unreadable(figure))
    figure, [axes] = plots.panels(1, width=3)
    axes.text(2.0, 0.5, "outside", transform=axes.transAxes).set_in_layout(False)
    assert any("is cut" in each for each in unreadable(figure))


def test_the_notebooks_draw_by_name():
    """Every named figure is drawn by a notebook, so that figures are not implemented twice."""
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "papers/notebooks").glob("*.py"))
    for each in command.FIGURES.values():
        function = f"{each.draw.__module__.rsplit('.', 1)[1]}.{each.draw.__name__}("
        assert function in text, each.name


def test_modes_of_batches_are_those_of_the_advice():
    assert interjob.MODES == overlap.MODES


def test_registers_are_of_the_kernels_that_differ():
    """A kernel that both placements have does not read pages, so its registers do not count, and neither do those of a
    kernel on edges that the host packs."""

    def case(placement, kernels, **axes):
        kernels = [{"name": name, "registers": number} for name, number in kernels.items()]
        return {"workload": "apps/p", "placement": placement, "axes": axes, "kernels": kernels}

    plain = [case("managed_demand", {"gather": 60, "expand": 48, "fill": None}), case("pinned", {"expand": 48})]
    paged = case("paged", {"gather": 60, "expand_pages": 88, "fill": None})
    packed = case("pinned", {"expand_packed": 99}, edges="packed")
    assert paging.registers([*plain, paged, packed]) == {"p": {"plain": 48, "paged": 88}}
    assert not paging.registers(plain) and not paging.registers([paged])
    of_queries = [
        case(placement, {name: number}, query=query, predicate="travels")
        for query, *pair in (("Q1", 32, 118), ("all", 64, 118))
        for placement, name, number in zip(("pinned", "paged"), ("query_plain", "query_paged"), pair)
    ]
    assert paging.registers(of_queries)["p, all, travels"] == {"plain": 64, "paged": 118}


def copies(values, **changes):
    """Returns records of copies with the values of `values`, which is keyed by (bytes, cache)."""
    metric = {"metrics__0__name": "rate", "metrics__0__unit": "B/s", "metrics__0__better": "higher"}
    return [
        record(value, workload=f"transfer/{path}/ce", axes={"bytes": size, "cache": cache}, **metric | changes)
        for (size, cache), value in values.items() for path in ("pinned-gpu0", "gpu0-pinned")
    ]  # fmt: skip


FLUSHED = {(1024, "flushed"): 1e9, (4096, "flushed"): 2e9, (1024, "warm"): 3e9}


def drawn(folder, name, **cases):
    with command.open_store([folder]) as opened:
        made, notes, _ = command.draw(name, opened, cases)
    [axes, *_] = made.axes
    return {line.get_label(): list(line.get_ydata()) for line in axes.lines}, axes, notes


def points(axes):
    """Returns the values of each line of a plot, in order."""
    return [list(map(float, container.lines[0].get_ydata())) for container in axes.containers]


def test_the_commonest_case_is_taken_and_said(tmp_path, close_figures):
    folder = write(tmp_path / "r", copies(FLUSHED))
    _, axes, notes = drawn(folder, "transfer-zero-copy")
    assert points(axes) == [[1e9, 2e9]]
    assert notes[1] == "axes.cache=flushed, the commonest of flushed, warm; --where chooses another"
    _, axes, notes = drawn(folder, "transfer-zero-copy", **{"axes.cache": "warm"})
    assert points(axes) == [[3e9]] and len(notes) == 1
    _, axes, _ = drawn(folder, "transfer-zero-copy", **{"axes.bytes": "4KiB"})
    assert points(axes) == [[2e9]]


def test_a_name_of_the_same_axes_is_the_same_case(tmp_path, close_figures):
    cases = copies({(1024, "flushed"): 1e9}) + copies({(1024, "flushed"): 3e9}, job="2", size="small")
    _, axes, notes = drawn(write(tmp_path / "r", cases), "transfer-zero-copy")
    assert points(axes) == [[2e9]] and len(notes) == 1


def test_a_field_that_follows_the_axis_takes_nothing_away(tmp_path):
    cases = [
        record(value, workload="apps/nw", size="mega", placement="pinned", staging=staging, mode=mode, job=job)
        for job in "12" for value, staging, mode in ((1, "direct", "pm"), (2, "async", "pm_async"), (3, "none", None))
    ]  # fmt: skip
    found = registry.Commonest(readings.load(write(tmp_path / "r", cases)).found)
    assert found.by("staging", metric="time") == {"async": 2, "direct": 1, "none": 3} and not found.taken


def test_of_several_machines_one_is_taken_and_said(tmp_path, close_figures):
    few = copies({(1024, "flushed"): 5e9}, devices__0__name="NVIDIA Few", node="n2", gpu="GPU-2")
    folder = write(tmp_path / "r", copies(FLUSHED) + few)
    _, axes, notes = drawn(folder, "transfer-zero-copy")
    assert points(axes) == [[1e9, 2e9]] and "of 2 machines the one with the most data" in notes[0]
    assert "NVIDIA Few" in notes[0].partition("chooses another")[2]
    with command.open_store([folder], ["device=NVIDIA Few"]) as opened:
        made, notes, _ = command.draw("transfer-zero-copy", opened, {})
    assert points(made.axes[0]) == [[5e9]] and notes == ["machine: NVIDIA Few"]


@pytest.mark.parametrize("cases, why", [
    ({"axes.cash": "warm"}, "no record of this figure has axes.cash; its axes are bytes, cache"),
    ({"axes.cache": "hot"}, "no record of this figure has axes.cache=hot; there are flushed, warm"),
    ({"axes.bytes": "1MiB"}, "has axes.bytes=1MiB; there are 1024, 4096"),
    ({"preset": "paper-fig2"}, "no record of this figure has preset"),
])  # fmt: skip
def test_what_no_record_has_is_refused(tmp_path, cases, why):
    with pytest.raises(Error, match=re.escape(why)):
        drawn(write(tmp_path / "r", copies(FLUSHED)), "transfer-zero-copy", **cases)


@pytest.mark.parametrize("name, why", [
    ("transfer-manged", "there is no figure 'transfer-manged'; did you mean 'transfer-managed'?"),
    ("modes-parts", "these records have no valid figure of microbench/*"),
    ("transfer-matrix", "these records have too little data for transfer-matrix: copies by the runtime"),
])  # fmt: skip
def test_what_cannot_be_drawn_is_a_sentence(tmp_path, name, why, close_figures):
    with pytest.raises(Error, match=re.escape(why)):
        drawn(write(tmp_path / "r", copies(FLUSHED)), name)


def test_what_a_profiler_slowed_is_not_drawn_and_what_it_counted_is(tmp_path, close_figures):
    slowed = copies({(8192, "flushed"): 9e9}, profiler="ncu")
    _, axes, _ = drawn(write(tmp_path / "r", copies(FLUSHED) + slowed), "transfer-zero-copy")
    assert points(axes) == [[1e9, 2e9]]
    of = {"workload": "microbench/vector_seq", "preset": "paper-fig11", "mode": "pm",
          "metrics__0__name": "profiled_flops_per_shared_access", "metrics__0__unit": "1"}  # fmt: skip
    cases = [record(value, axes={"threads": n}, profiler="ncu", **of) for n, value in ((32, 31.5), (128, 33))]
    _, axes, _ = drawn(write(tmp_path / "c", cases), "counters-threads")
    assert points(axes) == [[31.5, 33]]


def test_a_panel_without_data_says_so(tmp_path, close_figures):
    only = [each for each in copies(FLUSHED) if "pinned-gpu0" in each["workload"]]
    with command.open_store([write(tmp_path / "r", only)]) as opened:
        made, *_ = command.draw("transfer-zero-copy", opened, {})
    assert [[text.get_text() for text in axes.texts] for axes in made.axes] == [[], ["these records do not show this"]]


@pytest.mark.parametrize("kind, start", [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_command_writes_a_picture(tmp_path, kind, start):
    for name in ("a", "b"):
        done = run("figure", "transfer-managed", TRANSFERS, "-o", tmp_path / f"{name}.{kind}", MPLBACKEND="")
        assert done.returncode == 0 and done.stdout == "" and done.stderr.startswith("machine: NVIDIA H200")
    picture = (tmp_path / f"a.{kind}").read_bytes()
    assert picture.startswith(start) and picture == (tmp_path / f"b.{kind}").read_bytes()


@pytest.mark.parametrize("changes, words, code", [
    ({"verify__status": "fail"}, "of 12 cases 6 wrong; none of these counts", exits.UNDECIDED),
    ({"error": "device lost", "metrics": []}, "of 12 cases 6 failed; none of these counts", exits.UNDECIDED),
    ({"warnings": [{"code": "throttled", "message": "x", "samples": None}]},
     "of 12 cases 6 invalid; none of these counts", exits.PASSED),
    ({"emulated": True}, "6 emulated records left out", exits.PASSED),
])  # fmt: skip
def test_the_command_says_what_it_does_not_show(tmp_path, capsys, changes, words, code):
    other = record(1.0, workload="microbench/saxpy", verify__status="fail")  # not a workload of the figure
    elsewhere = copies({(1024, "flushed"): 5e9}, devices__0__name="NVIDIA Few", verify__status="fail")  # not drawn
    folder = write(
        tmp_path / "r", [*copies(FLUSHED), *copies(FLUSHED, run__id="another-run", **changes), other, *elsewhere]
    )
    wanted = ["figure", "transfer-zero-copy", str(folder), "-o", str(tmp_path / "x.svg")]
    assert cli.main(wanted) == code and (tmp_path / "x.svg").exists()
    assert f"transfer-zero-copy: {words}\n" in capsys.readouterr().err


def test_the_command_lists_them():
    done = run("figure", "--list")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines if line[0] != " "] == sorted(command.FIGURES)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("words, why", [
    (["transfer-managed", TRANSFERS], "a name, records and -o FILE are needed, or --list"),
    (["transfer-managed", TRANSFERS, "-o", "x.jpeg"], "x.jpeg ends in .jpeg, which is not a known format; name a file"),
    (["transfer-managed", TRANSFERS, "-o", "-"], "- does not name a format; name a file that ends in .png"),
    (["nothing", TRANSFERS, "-o", "x.png"], "there is no figure 'nothing'; `isthmus figure --list` lists them"),
    (["transfer-managed", "absent", "-o", "x.png"], "absent"),
    (["transfer-managed", TRANSFERS, "-o", "x.png", "--where", "colour=red"], "selects nothing; write FIELD=VALUE"),
    (["transfer-managed", TRANSFERS, "-o", "x.png", "--where", "axes.colour=red"], "no record of this figure has"),
    (["transfer-managed", TRANSFERS, "-o", "x.png", "--where", "axes.width=4", "--where", "axes.width=8"],
     "two values of axes.width"),
    (["transfer-managed", TRANSFERS, "-o", "none/x.png"], "none/x.png"),
])  # fmt: skip
def test_wrong_input_is_one_sentence(words, why):
    done = run("figure", *words)
    assert done.returncode == 2 and done.stdout == ""
    assert why in done.stderr.splitlines()[-1] and done.stderr.count("isthmus figure:") == 1
    assert "Traceback" not in done.stderr and not pathlib.Path("x.png").exists()


def test_total_has_the_input_file_where_it_was_read(tmp_path):
    def timed(value, placement, metric, data, preset):
        words = {"workload": "apps/nn", "placement": placement, "size": "large", "preset": preset}
        return record(value, axes={"records": 2**26, "loop": "host", "data": data}, metrics__0__name=metric, **words)

    cases = [timed(value, placement, metric, data, preset)
             for metric, data, preset, pair in (("wall", "written", "paper-mi300a", (3, 2)),
                                                ("total", "written", "paper-mi300a", (4, 3)))
             for placement, value in zip(("pageable", "managed_demand"), pair, strict=True)]  # fmt: skip
    of_both = readings.load(write(tmp_path / "both", cases))
    assert programs.unified(of_both)["nn"] == pytest.approx({"total": 3 / 4})
    assert programs.unified(readings.load(write(tmp_path / "wall", cases[:2])))["nn"] == pytest.approx({"total": 2 / 3})


def test_compute_has_the_copies_in_it_as_in_the_paper(tmp_path):
    cases = [
        record(value, workload="apps/dwt2d", placement=placement, size="large", preset="paper-mi300a",
               axes={"form": "parts"}, metrics__0__name=metric)
        for metric, pair in {"kernel": (1, 8), "overlapped": (4, 10), "total": (20, 22)}.items()
        for placement, value in zip(("pageable", "managed_demand"), pair, strict=True)
    ]  # fmt: skip
    found = readings.load(write(tmp_path / "r", cases))
    assert programs.unified(found) == {"dwt2d": pytest.approx({"kernel": 8, "compute": 2.5, "total": 1.1})}


def test_peaks_of_memory_are_of_one_program_in_one_form(tmp_path):
    def peak(value, placement, **axes):
        name = axes.pop("program", "hotspot")
        words = {
            "workload": f"apps/{name}",
            "placement": placement,
            "size": "large",
            "preset": axes.pop("preset", None),
        }
        metric = {"metrics__0__name": "memory_peak", "metrics__0__unit": "B"}
        return record(value, axes={"rows": 4096, **axes}, **words, **metric)

    cases = [
        peak(8e8, "pageable"), peak(6e8, "managed_demand"), peak(7e8, "pinned"),
        peak(9e8, "pageable", program="nn", loop="device"), peak(9e8, "managed_demand", program="nn", loop="device"),
        peak(4e8, "pageable", program="nn", loop="host", preset="paper-mi300a"),
        peak(3e8, "managed_demand", program="nn", loop="host", preset="paper-mi300a"),
        peak(5e8, "pageable", program="heartwall", form="double"),
        peak(4e8, "managed_demand", program="heartwall", form="double"),
        peak(8e8, "pageable", program="heartwall", form="static"),
        peak(2e8, "managed_demand", program="heartwall", form="static"),
        peak(9e8, "pageable", program="heartwall", form="single"),
        peak(1e8, "managed_demand", program="heartwall", form="single"),
    ]  # fmt: skip
    found = readings.load(write(tmp_path / "r", cases))
    peaks = {name: bars["memory"] for name, bars in programs.unified(found).items()}
    assert peaks == pytest.approx({"heartwall": 0.8, "heartwall, static": 0.25, "hotspot": 0.75, "nn": 0.75})


def test_stream_faults_are_of_ten_passes(tmp_path):
    def counted(metric, value, workload="stream/cpu/triad", **axes):
        return record(value, workload=workload, preset="paper-fig3", axes=axes, metrics__0__name=metric)

    metrics = {"init_page_faults": 100, "first_pass_page_faults": 20, "page_faults_per_pass": 3}
    other = {"workload": "stream/gpu0/cpu-triad", "threads": 0, "memory": "managed", "first_touch": "gpu"}
    cases = [counted(name, value * scale, threads=threads) for name, value in metrics.items()
             for threads, scale in ((1, 7), (4, 1))] + [counted("init_page_faults", 2, **other)]  # fmt: skip
    assert memory.stream_faults(readings.load(write(tmp_path / "r", cases))) == {
        "malloc": {"until written": 100, "first pass": 20, "nine more passes": 27},
        "managed, gpu first": {"until written": 2},
    }


def test_at_once_is_of_all_threads_or_of_so_many(tmp_path):
    def share(value, threads, gpu_threads, side="cpu"):
        axes = {"elements": 1024, "type": "f64", "threads": threads, "gpu_threads": gpu_threads}
        words = {"workload": "atomics/gpu0/shared-histogram", "metrics__0__name": f"{side}_relative"}
        return record(value, axes=axes, **words)

    cases = [share(0.5, 0, 0), share(0.25, 4, 64), share(0.125, 4, 1024), share(0.75, 1, 64, "gpu")]
    found = readings.load(write(tmp_path / "r", cases))
    assert memory.at_once(found, "cpu_relative", 1024, "f64") == 0.5
    assert memory.at_once_by_threads(found, "f64") == {
        "CPU": {"2¹⁰ bins,\n4 CPU": {"64 of the GPU": 0.25, "1024 of the GPU": 0.125}},
        "GPU": {"2¹⁰ bins,\n1 CPU": {"64 of the GPU": 0.75}},
    }


def test_large_blocks_and_many_faults_are_of_the_papers_geometry(tmp_path):
    def one(value, workload, preset, metric, **axes):
        return record(value, workload=workload, preset=preset, axes=axes, metrics__0__name=metric)

    block = {"bytes": 2**30, "at_once": 24}
    cases = [
        one(0.4, "alloc/pinned", "paper-fig6", "alloc", **block),
        one(0.1, "alloc/pinned", "paper-fig6", "free", **block),
        one(9.0, "alloc/pinned", "paper-fig6", "alloc", **block | {"at_once": 100}),
        one(9.0, "alloc/pinned", None, "alloc", **block),
        one(3e6, "fault/gpu0/major", "paper-fig7", "rate", at_once=2**23),
        one(9e6, "fault/gpu0/major", "paper-fig7", "rate", at_once=2**10),
        one(7e6, "fault/cpu/zero-page", "paper-fig7-cpus", "rate", at_once=2**22, threads=16),
    ]  # fmt: skip
    found = readings.load(write(tmp_path / "r", cases))
    assert memory.large_blocks(found) == {"pinned": {"allocate": 0.4, "free": 0.1}}
    assert memory.many_faults(found) == {"GPU, untouched": 3e6, "all cores": 7e6}


def test_in_order_is_of_one_preset_and_as_many_threads_as_the_papers(tmp_path):
    def rate(value, workload, preset="paper-gpuvm-fig8", **axes):
        return record(value, workload=workload, preset=preset, axes=axes, metrics__0__name="rate")

    cases = [
        rate(51e9, "paging/pattern", page=4096, way="paged"), rate(9e9, "paging/pattern", page=4096, way="managed"),
        rate(8e9, "paging/pattern", None, page=4096, way="paged"),
        rate(1.5e9, "paging/copies", page=4096, threads=16), rate(7e9, "paging/copies", page=4096, threads=1),
    ]  # fmt: skip
    assert paging.in_order(readings.load(write(tmp_path / "r", cases))) == {
        "paged by the GPU": {4096: 51e9}, "copies of 16 threads": {4096: 1.5e9},
    }  # fmt: skip


def test_first_reads_keep_orders_apart(tmp_path):
    def read(seconds, **axes):
        return record(seconds, workload="faults/latency", axes={"bytes": 4096, **axes})

    old = [read(0.004, memory="managed"), read(0.001, memory="pinned")]  # records without an order
    new = [read(0.006 * factor, memory="managed", order=order) for order, factor in (("regular", 1), ("random", 2))] + [
        read(0.002, memory="pinned", order=order) for order in ("regular", "random")
    ]
    times = paging.first_reads(readings.load(write(tmp_path / "r", [*old, *new])))
    assert list(times) == [
        "managed", "pinned", "managed, regular", "pinned, regular", "managed, random", "pinned, random",
    ]  # fmt: skip
    assert {name: of[4096] for name, of in paging.over_explicit(times).items()} == pytest.approx(
        {"over pinned": 4, "over pinned, regular": 3, "over pinned, random": 6}
    )


def test_a_step_of_training_is_of_the_papers_batch(tmp_path):
    def step(value, network, batch):
        axes = {"network": network, "batch": batch, "allocation": "arena", "steps": 1}
        return record(value, workload="apps/network_training", mode="pm", axes=axes, metrics__0__name="kernel")

    cases = [step(1, "resnet50", 1), step(2, "resnet50", 32), step(3, "yolov3", 1), step(4, "yolov3-tiny", 4)]
    found = readings.load(write(tmp_path / "r", cases))
    kernels = {name: networks.step(found, name, "pm").get("kernel") for name in networks.NETWORKS}
    assert kernels == {"resnet18": None, "resnet50": 2, "yolov3-tiny": 4, "yolov3": None}


def test_latencies_of_another_geometry_are_drawn(close_figures):
    """The kept records contain ten latencies of the CPU, none of them in the paper's geometry."""
    with command.open_store([ROOT / "papers/data/cpu-only"]) as opened:
        made, _, _ = command.draw("memory-latency", opened, {})
    [axes] = [axes for axes in made.axes if axes.get_title(loc="left") == "one access of the CPU"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["pageable", "node0 from node0"]
    drawn = [list(container.lines[0].get_xdata()) for container in axes.containers]
    assert drawn == [[2**14, 2**18, 2**22, 2**26, 2**30]] * 2
