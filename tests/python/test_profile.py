"""Outputs of profilers: what is read of them, what is refused, what becomes of a record."""

import copy
import gc
import json
import pathlib
import sqlite3
import tracemalloc

import histories
import hypothesis
import profiles
import pytest
from hypothesis import strategies as st

from isthmus import cli, exits
from isthmus.profiles import as_record, command, cupti, ncu, nsys, numerals, perf, profile, rocprofv3
from isthmus.records import content, validate

SAXPY = "saxpy(float*, float*)"


def read_text(tmp_path, reader, text, name="a.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return reader(path)


def refused(tmp_path, reader, text, name="a.csv"):
    with pytest.raises(profile.ProfileError) as error:
        read_text(tmp_path, reader, text, name)
    assert name in str(error.value) and "\n" not in str(error.value)
    return str(error.value)


# --- what each says ---


def test_nsys(tmp_path):
    seen = nsys.read(profiles.write_nsys(tmp_path / "nsys.sqlite"))
    assert seen.kernels == {"saxpy": profile.Kernel(2, pytest.approx(4e-6), 32, 1024)}
    assert seen.copies["h2d"].bytes == 8192 and seen.copies["d2h"].count == 1 and "other" not in seen.copies
    assert seen.migrations["h2d"].bytes == 65536
    assert seen.page_faults == {"gpu": 7, "cpu": 2}
    assert seen.api_calls == {"cudaMalloc": 1, "cudaLaunchKernel": 2}
    assert {name: moved.count for name, moved in seen.phases.items()} == {"in": 1, "out": 1}
    # 2 µs in, 4 of kernels, 1 out; all within 6: 1 of the 3 that could be hidden was.
    assert as_record.overlap(seen) == pytest.approx(1 / 3)


@pytest.mark.parametrize("table", ["CUPTI_ACTIVITY_KIND_KERNEL", "CUDA_UM_GPU_PAGE_FAULT_EVENTS", "NVTX_EVENTS"])
def test_nsys_makes_tables_only_for_what_it_saw(tmp_path, table):
    whole = nsys.read(profiles.write_nsys(tmp_path / "whole.sqlite"))
    part = nsys.read(profiles.write_nsys(tmp_path / "part.sqlite", without=[table]))
    assert part.api_calls == whole.api_calls
    assert "gpu" in part.page_faults or table == "CUDA_UM_GPU_PAGE_FAULT_EVENTS"


def test_ncu(tmp_path):
    seen = read_text(tmp_path, ncu.read, profiles.NCU)
    assert seen.kernels["saxpy_staged(float *)"] == profile.Kernel(2, pytest.approx(40e-6), 32, None)
    figures = as_record.figures(seen)
    assert figures["flops"] == (100 + 2 * 450 + 300 + 2 * 1350, "1")
    assert figures["shared_accesses"] == (4000, "1")
    assert figures["flops_per_shared_access"] == (1.0, "1")
    assert figures["shared_accesses_per_cycle"] == (0.5, "1")
    assert figures["dram_read_bytes"] == (5e6, "B")
    assert figures["stall_memory_dependency"] == (6.0, "1")  # by cycles: (3 × 2000 + 7 × 6000) / 8000
    assert figures["instructions"] == (8192, "1")


def test_ncu_says_where_it_stopped(tmp_path):
    launch = profiles.NCU.splitlines()[-1]
    fewer = profiles.NCU + f"{launch}\n" * (ncu.LAUNCHES - 3)
    assert not read_text(tmp_path, ncu.read, fewer).notes
    assert read_text(tmp_path, ncu.read, f"{fewer}{launch}\n").notes == ["only the first 200 launches were counted"]


def test_ncu_of_an_h200():
    """saxpy of 2^27 elements three times, in shared-memory tiles: two flops, two loads and one store an element."""
    seen = ncu.read(pathlib.Path(__file__).parent / "data" / "ncu-2025.3-saxpy-large.csv")
    figures = {name: value for name, (value, _) in as_record.figures(seen).items()}
    elements = 3 * 2**27
    assert figures["kernels"] == 3 and figures["registers"] == 31
    assert figures["flops"] == 2 * elements
    assert figures["global_load_bytes"] == pytest.approx(8 * elements, rel=1e-3)
    assert figures["global_store_bytes"] == pytest.approx(4 * elements, rel=1e-3)
    assert figures["dram_read_bytes"] == pytest.approx(8 * elements, rel=1e-2)
    assert figures["global_rate"] == pytest.approx(12 * elements / figures["kernel_time"], rel=1e-2)
    assert 4e12 < figures["global_rate"] < 4.814e12  # below the memory's peak


def test_ncu_in_other_units(tmp_path):
    other = profiles.NCU.replace('"Mbyte"', '"Kbyte"').replace('"2.5"', '"2,500"').replace('"usecond"', '"ns"')
    other = other.replace('"10",', '"10000",').replace('"30",', '"30000",')
    found = as_record.figures(read_text(tmp_path, ncu.read, other))
    for name, (value, unit) in as_record.figures(read_text(tmp_path, ncu.read, profiles.NCU)).items():
        assert found[name] == (pytest.approx(value), unit)
    strange = read_text(tmp_path, ncu.read, profiles.NCU.replace('"Mbyte"', '"furlong"'))
    assert "dram__bytes_read.sum in 'furlong', a unit that is not known (2 rows)" in strange.all_notes()[-1]
    assert "dram_read_bytes" not in as_record.figures(strange) and as_record.figures(strange)["kernels"] == (2, "1")


def test_ncu_without_permission(tmp_path):
    text = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters"
    assert "only administrators" in refused(tmp_path, ncu.read, text)
    assert "no kernel was profiled" in refused(tmp_path, ncu.read, "==WARNING== No kernels were profiled.")


def test_perf(tmp_path):
    seen = read_text(tmp_path, perf.read, profiles.PERF, "stat.perf")
    assert seen.page_faults == {"cpu": 5243}
    assert seen.counters["cpu_seconds"] == pytest.approx(0.09852)
    assert seen.notes == ["not supported here: dTLB-load-misses, cycles"]
    assert as_record.figures(seen)["cpu_major_faults"] == (3, "1")


def test_perf_that_counted_some_of_the_time(tmp_path):
    seen = read_text(tmp_path, perf.read, "100;;instructions;1;50.00;;\n", "stat.perf")
    assert seen.notes == ["instructions was counted 50.00% of the time only"]


def test_perf_in_another_language(tmp_path):
    assert read_text(tmp_path, perf.read, "98,52;msec;task-clock;1;100,00\n".replace("100,00", "100.00"),
                     "a.perf").counters["cpu_seconds"] == pytest.approx(0.09852)  # fmt: skip


def test_perf_of_a_german_and_of_an_american_locale(tmp_path):
    german = "1234;;page-faults;1000000;100,00;;\n12,50;msec;task-clock;12500000;100,00;0,9;CPUs utilized\n"
    for text in (german, german.replace("1234;", "1.234;"), german.replace(",", ".").replace("1234;", "1,234;")):
        seen = read_text(tmp_path, perf.read, text, "stat.perf")
        assert seen.page_faults == {"cpu": 1234} and not seen.notes
        assert seen.counters["cpu_seconds"] == pytest.approx(0.0125)


def test_a_line_of_perf_that_cannot_be_read_costs_its_own_figure_only(tmp_path):
    text = "5;;page-faults;1;;;\n1,234;msec;task-clock;1;;;\n7;furlong;cycles;1;;;\nx;;instructions;1;;;\n8;;minor-fa"
    seen = read_text(tmp_path, perf.read, f"{text}\n9;", "stat.perf")
    assert seen.page_faults == {"cpu": 5} and seen.counters == {"minor-fa": 8}
    assert [note.partition(":")[0] for note in seen.notes] == ["left out"] * 4
    assert "(task-clock): '1,234' can be 1234 or 1.234; run the tool with LC_ALL=C" in seen.notes[0]
    assert "'furlong'" in seen.notes[1] and "'x' is no number" in seen.notes[2] and "cut short" in seen.notes[3]
    assert "'x' is no number" in refused(tmp_path, perf.read, "x;;page-faults;1;;;\n", "stat.perf")


@pytest.mark.parametrize(
    "others, text, whole, amount",
    [
        ([], "1234", True, 1234), ([], "1,234,567", False, 1234567), ([], "1.234,56", False, 1234.56),
        ([], "1,234.5", False, 1234.5), ([], "12,50", False, 12.5), ([], "0,125", False, 0.125),
        ([], "-1,5", False, -1.5),
        ([], "1,234", True, 1234), ([], "1.234", True, 1234), ([], "1.234", False, 1.234),
        (["100,00"], "1.234", False, 1234),
        (["100.00"], "1,234", False, 1234), (["1,234,567"], "5.125", False, 5.125), (["7,5"], "1,234", False, 1.234),
        ([], "1 234 567", False, 1234567), ([], "1'234.5", False, 1234.5), ([], "1\u202f234,5", False, 1234.5),
        ([], "1e6", False, 1e6), ([], "1234.5678", False, 1234.5678), ([], "1234,567", False, 1234.567),
    ],
)  # fmt: skip
def test_numbers_of_locales(others, text, whole, amount):
    assert numerals.Numerals([*others, text]).number(text, "here", whole=whole) == pytest.approx(amount, rel=1e-12)


@pytest.mark.parametrize(
    "others, text, whole",
    [([], "1,234", False), (["7.5", "7,5"], "1,234", False), (["100.00"], "1.234", True), ([], "1,23,456", False),
     ([], "12,34.5", False), ([], "", False), ([], "1 2", False), ([], ",", False), ([], "1,2,3", False),
     ([], "nan", False)],
)  # fmt: skip
def test_numbers_that_can_be_two_or_are_none_are_refused(others, text, whole):
    with pytest.raises(profile.ProfileError, match=r"^here: "):
        numerals.Numerals([*others, text]).number(text, "here", whole=whole)


# --- what a reader does not know is said ---


def with_tables(path, **tables):
    connection = sqlite3.connect(path)
    for name, rows in tables.items():
        connection.execute(f"CREATE TABLE {name} (start INTEGER, end INTEGER, severity INTEGER, text TEXT)")
        connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    return path


def test_nsys_counts_graphs_that_were_traced_as_a_whole(tmp_path):
    path = with_tables(
        profiles.write_nsys(tmp_path / "a.sqlite"),
        CUPTI_ACTIVITY_KIND_GRAPH_TRACE=[(0, 900_000, 0, ""), (1_000_000, 1_899_000, 0, "")],
    )
    seen = nsys.read(path)
    figures = as_record.figures(seen)
    assert figures["graph_launches"] == (2, "1") and figures["graph_time"] == (pytest.approx(1.799e-3), "s")
    assert figures["kernels"] == (2, "1"), "whose kernels are not known"
    assert "--cuda-graph-trace=node tells them apart" in seen.all_notes()[0]
    assert as_record.overlap(seen) == pytest.approx(1), "all copies are beside the first graph"
    assert not nsys.read(profiles.write_nsys(tmp_path / "b.sqlite")).counters


def test_nsys_names_what_it_left_out(tmp_path):
    rows = [(0, 1, 2, "Not all CUDA events were collected")]
    path = with_tables(profiles.write_nsys(tmp_path / "a.sqlite"), CUPTI_ACTIVITY_KIND_MEMSET=rows * 3,
                       MPI_P2P_EVENTS=rows, ENUM_NSYS_X=rows, OSRT_API=[], DIAGNOSTIC_EVENT=rows)  # fmt: skip
    notes = nsys.read(path).all_notes()
    assert notes[0] == "nsys says: Not all CUDA events were collected"
    assert notes[1] == (
        "left out, since no figure here comes from it: CUPTI_ACTIVITY_KIND_MEMSET (3 rows), MPI_P2P_EVENTS (1 row), "
        "NVTX_EVENTS without a name or an end (1 row)"
    )


def test_our_own_nsys_traces_graphs_node_by_node_and_every_tool_runs_in_the_c_locale():
    text = (pathlib.Path(__file__).parents[2] / "reframe/plugins/profilers.py").read_text()
    assert "--cuda-graph-trace=node" in text and "export LC_ALL=C" in text


def test_rocprofv3_names_what_it_left_out(tmp_path):
    path = profiles.write_rocpd(tmp_path / "db" / "out.db") if (tmp_path / "db").mkdir() is None else None
    with_tables(
        path, rocpd_memory_allocate=[(0, 1, 0, "")] * 2, rocpd_info_agent=[(0, 1, 0, "")], kernels=[(0, 1, 0, "")]
    )
    assert "rocpd_memory_allocate (2 rows)" in command.read("rocprofv3", path.parent).all_notes()[-1]
    assert "rocpd_info" not in str(command.read("rocprofv3", path.parent).all_notes())
    whole = copy.deepcopy(profiles.ROCM_JSON)
    whole["rocprofiler-sdk-tool"][0]["buffer_records"] |= {"rccl_api": [{}, {}], "hsa_api": []}
    assert read_text(tmp_path, rocprofv3.read, json.dumps(whole), "a.json").left_out == {"rccl_api": 2}
    (tmp_path / "csv").mkdir()
    for name in ("1_kernel_trace.csv", "1_scratch_memory_trace.csv"):
        (tmp_path / "csv" / name).write_text(profiles.ROCM_KERNELS_7)
    assert "the file 1_scratch_memory_trace.csv" in command.read("rocprofv3", tmp_path / "csv").all_notes()[-1]


def test_cupti_and_ncu_name_what_they_left_out(tmp_path):
    strange = read_text(tmp_path, cupti.read, json.dumps(profiles.CUPTI | {"graphs": 4}), "a.json")
    assert "graphs (1 row)" in strange.all_notes()[-1]
    other = profiles.NCU.replace("dram__bytes_read.sum", "sm__throughput.avg").replace('"2000"', '"n/a"')
    seen = read_text(tmp_path, ncu.read, f"==WARNING== some launches were not profiled\n{other}")
    assert seen.all_notes()[0] == "==WARNING== some launches were not profiled"
    assert "sm__throughput.avg (1 row)" in seen.all_notes()[1]
    assert "sm__cycles_elapsed.max, which was not available (1 row)" in seen.all_notes()[1]


def test_a_sum_that_lacks_a_launch_is_left_out(tmp_path):
    assert "shared_accesses" in as_record.figures(read_text(tmp_path, ncu.read, profiles.NCU))
    spoilt = read_text(tmp_path, ncu.read, profiles.NCU.replace('"3,000"', '"3,00,0"'))
    assert "shared_accesses" not in as_record.figures(spoilt) and "'3,00,0' is no number" in spoilt.all_notes()[-1]


def test_the_command_shows_counters_that_are_no_figure(tmp_path, capsys):
    (tmp_path / "stat.perf").write_text("7;;branch-misses;1;100.00;;\n")
    assert cli.main(["profile", "perf", str(tmp_path)]) == exits.PASSED
    assert "branch-misses                               7" in capsys.readouterr().out


@pytest.mark.parametrize("columns", [profiles.ROCM_KERNELS_6, profiles.ROCM_KERNELS_7])
def test_rocprofv3_kernels(tmp_path, columns):
    seen = read_text(tmp_path, rocprofv3.read, columns, "1_kernel_trace.csv")
    kernel = seen.kernels[SAXPY]
    assert (kernel.count, kernel.seconds, kernel.shared_bytes) == (2, pytest.approx(3e-6), 512)
    assert kernel.registers == (16 if "VGPR" in columns else None)


def test_rocprofv3_says_the_same_in_each_format(tmp_path):
    for name, text in profiles.ROCM_CSV.items():
        (tmp_path / "csv/rank0").mkdir(parents=True, exist_ok=True)
        (tmp_path / "csv/rank0" / name).write_text(text)
    (tmp_path / "json").mkdir()
    (tmp_path / "json/out_results.json").write_text(json.dumps(profiles.ROCM_JSON))
    for folder, options in (("rocpd", {}), ("old", {"suffix": "", "views": False}), ("tables", {"views": False})):
        (tmp_path / folder).mkdir()
        profiles.write_rocpd(tmp_path / folder / "out_results.db", **options)
    whole = as_record.figures(command.read("rocprofv3", tmp_path / "json"))
    assert whole["h2d_bytes"] == (8192, "B") and whole["api_calls"] == (3, "1") and whole["tlb_misses"] == (42, "1")
    assert whole["registers"] == (16, "1")
    for folder in ("rocpd", "old", "tables"):
        assert as_record.figures(command.read("rocprofv3", tmp_path / folder)) == whole
    csv = as_record.figures(command.read("rocprofv3", tmp_path / "csv"))
    assert csv.pop("shared_accesses") == (100, "1")  # only there counted
    csv.pop("overlap")  # kernels and copies stand in two files
    assert csv == {name: value for name, value in whole.items() if name in csv}
    assert {"h2d_bytes", "d2h_bytes", "overlap"} == set(whole) - set(csv)  # the CSV has no bytes


def test_cupti(tmp_path):
    seen = command.read("cupti", profiles.write(tmp_path / "rank0", "cupti"))
    figures = as_record.figures(seen)
    assert figures["migrated_h2d_bytes"] == (65536, "B") and figures["gpu_page_faults"] == (7, "1")
    assert figures["registers"] == (32, "1") and figures["api_calls"] == (6, "1") and figures["kernels"] == (4, "1")
    assert figures["overlap"][0] == pytest.approx(2 / 3)


def test_cupti_that_saw_nothing(tmp_path):
    nothing = profiles.CUPTI | {"kernels": {}, "runtime_calls": {}, "errors": ["cuptiSubscribe: CUPTI_ERROR_UNKNOWN"]}
    why = refused(tmp_path, cupti.read, json.dumps(nothing), "a.json")
    assert "saw nothing (cuptiSubscribe: CUPTI_ERROR_UNKNOWN)" in why


@pytest.mark.parametrize("tool", command.TOOLS)
def test_ranks_are_added_up(tmp_path, tool):
    for rank in range(3):
        profiles.write(tmp_path / f"rank{rank}", tool)
    one, three = command.read(tool, tmp_path / "rank0"), command.read(tool, tmp_path)
    alone, together = as_record.figures(one), as_record.figures(three)
    assert set(alone) == set(together) and len(three.files) == 3
    for name, (value, _) in alone.items():
        same = name in ("registers", "overlap") or name.startswith("stall_") or "_per_" in name or name == "global_rate"
        assert together[name][0] == pytest.approx(value if same else 3 * value)


@pytest.mark.parametrize("tool", command.TOOLS)
def test_a_profiler_that_left_nothing(tmp_path, tool):
    with pytest.raises(profile.ProfileError, match=f"{tool} left no"):
        command.read(tool, tmp_path)


def test_nsys_without_its_importer(tmp_path):
    (tmp_path / "rank0").mkdir()
    (tmp_path / "rank0" / "nsys.qdstrm").write_bytes(b"")
    with pytest.raises(profile.ProfileError, match="no importer"):
        command.read("nsys", tmp_path)


@pytest.mark.parametrize("tool, report", [
    ("nsys", "run.nsys-rep"), ("nsys", "run.qdstrm"), ("ncu", "run.ncu-rep"), ("rocprofv3", "7_results.pftrace"),
])  # fmt: skip
def test_a_report_that_was_never_converted_is_missing(tmp_path, capsys, tool, report):
    profiles.write(tmp_path / "rank0", tool)
    (tmp_path / "rank0" / command.files(tool, tmp_path)[0].with_suffix(pathlib.Path(report).suffix).name).touch()
    assert not command.read(tool, tmp_path).missing
    (tmp_path / "rank0" / report).touch()
    assert cli.main(["profile", tool, str(tmp_path)]) == exits.UNDECIDED
    assert f"not the whole run: rank0/{report} was never converted" in " ".join(capsys.readouterr().out.split())
    assert cli.main(["profile", tool, str(tmp_path), "--format", "csv"]) == exits.UNDECIDED
    assert report in capsys.readouterr().err
    for path in command.files(tool, tmp_path):
        path.unlink()
    with pytest.raises(profile.ProfileError, match="no importer" if "qdstrm" in report else "never converted"):
        command.read(tool, tmp_path)


@pytest.mark.parametrize("tool", command.TOOLS)
def test_a_rank_without_a_figure_is_missing(tmp_path, capsys, tool):
    for rank in range(2):
        profiles.write(tmp_path / f"rank{rank}", tool)
    (tmp_path / "logs").mkdir()
    assert cli.main(["profile", tool, str(tmp_path)]) == exits.PASSED
    assert "not the whole run" not in capsys.readouterr().out
    for path in (tmp_path / "rank1").iterdir():
        path.rename(path.with_suffix(".elsewhere"))
    assert cli.main(["profile", tool, str(tmp_path)]) == exits.UNDECIDED
    first = capsys.readouterr().out.splitlines()[0]
    assert first == "not the whole run: rank1 has no figure, unlike those next to it"
    (record,) = as_record.amend([case()], command.read(tool, tmp_path), unprofiled=[])
    assert record["profile"]["notes"][0] == first


def test_a_rank_that_did_nothing_is_missing(tmp_path):
    names = [name for name in profiles.tables_of_nsys() if name != "StringIds"]
    for name, without in (("run0.sqlite", ()), ("run1.sqlite", names)):
        profiles.write_nsys(tmp_path / name, without=without)
    assert command.read("nsys", tmp_path).missing == [
        "not the whole run: run1.sqlite has no figure, unlike those next to it"
    ]


def test_no_format_of_rocprofv3_hides_another_rank(tmp_path):
    for rank in range(3):
        (tmp_path / f"rank{rank}").mkdir()
    profiles.write_rocpd(tmp_path / "rank0" / "a_results.db")
    for name in ("rank0/a_results.json", "rank1/b_results.json"):
        (tmp_path / name).write_text(json.dumps(profiles.ROCM_JSON))
    for name, text in profiles.ROCM_CSV.items():
        (tmp_path / "rank2" / name).write_text(text)
        (tmp_path / "rank1" / name.replace("1_", "b_")).write_text(text)
    seen = command.read("rocprofv3", tmp_path)
    assert seen.kernels[SAXPY].count == 6 and not seen.missing and not seen.left_out and not seen.notes
    assert [name for name in seen.files if "rank2" not in name] == ["rank0/a_results.db", "rank1/b_results.json"]
    (tmp_path / "rank0" / "2_results.json").write_text(json.dumps(profiles.ROCM_JSON))
    (tmp_path / "rank1" / "c_scratch_memory_trace.csv").write_text(profiles.ROCM_KERNELS_7)
    seen = command.read("rocprofv3", tmp_path)
    assert seen.kernels[SAXPY].count == 8 and list(seen.left_out) == ["the file c_scratch_memory_trace.csv"]
    assert "rank0/2_results.json, rank0/a_results.db have different names" in seen.notes[0]


def test_every_process_of_a_rocpd_database_is_read(tmp_path):
    path = tmp_path / "out_results.db"
    profiles.write_rocpd(path)
    profiles.write_rocpd(path, suffix="_00006410_00d1_70d1_a5cb_b5ab88214544", views=False, kernel="axpy")
    seen = rocprofv3.read(path)
    assert {name: kernel.count for name, kernel in seen.kernels.items()} == {SAXPY: 2, "axpy": 2}
    assert seen.copies["h2d"].bytes == 2 * 8192 and not seen.left_out


# --- memory ---


def peak(read, path):
    """Most bytes of Python objects while a file is read."""
    gc.collect()
    tracemalloc.start()
    read(path)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def repeated(text, rows, head):
    """A table with its last row repeated."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[:head]) + lines[-1] * rows


def many_kernels(path, rows):
    profiles.write_nsys(path)
    connection = sqlite3.connect(path)
    every = f"WITH RECURSIVE s(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM s WHERE x < {rows - 1}) INSERT INTO "
    connection.execute(f"{every} CUPTI_ACTIVITY_KIND_KERNEL SELECT x * 9, x * 9 + 5, 1, 1, 32, 0, 0 FROM s")
    for table in ("CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"):
        columns = "x, x + 1, 2" if "RUNTIME" in table else "x, x + 1, 'in', NULL"
        connection.execute(f"{every} {table} SELECT {columns} FROM s")
    connection.commit()
    connection.close()


@pytest.mark.parametrize("reader, name, write", [
    (rocprofv3.read, "1_kernel_trace.csv", lambda path, n: path.write_text(repeated(profiles.ROCM_KERNELS_7, n, 1))),
    (rocprofv3.read, "1_hip_api_trace.csv", lambda path, n: path.write_text(repeated(profiles.ROCM_CALLS, n, 1))),
    (ncu.read, "a.csv", lambda path, n: path.write_text(repeated(profiles.NCU, n, 3))),
    (perf.read, "a.perf", lambda path, n: path.write_text(repeated("# x\n7;;page-faults;1;50.00;;\n", n, 1))),
    (nsys.read, "a.sqlite", many_kernels),
], ids=["kernels", "calls", "ncu", "perf", "nsys"])  # fmt: skip
def test_memory_does_not_grow_with_the_rows(tmp_path, reader, name, write):
    few, many = 500, 8_000
    used = []
    for rows in (few, many):
        path = tmp_path / str(rows) / name
        path.parent.mkdir()
        write(path, rows)
        used.append(peak(reader, path))
    assert (used[1] - used[0]) / (many - few) < 40, "a begin and an end are 16 bytes; an array grows ahead"
    assert used[1] < 4 << 20, "of which 1 MiB is the file's buffer"


def test_json_that_memory_would_not_hold_is_refused(tmp_path):
    path = tmp_path / "1_results.json"
    with path.open("wb") as file:
        file.truncate(profile.MOST_OF_JSON + 1)
    with pytest.raises(profile.ProfileError, match=r"larger than 128 MiB.*--output-format"):
        rocprofv3.read(path)


def test_spans_that_are_out_of_order_cover_the_same():
    pairs = [(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (2.5, 2.6)]
    for order in (pairs, sorted(pairs)):
        seen = profile.Profile("nsys")
        for pair in order:
            seen.add_span("kernel", pair)
        seen.add_span("h2d", (2.0, 5.5))
        assert profile.busy(seen.spans) == (6.0, 7.5, 4.0)


def test_a_line_without_an_end_is_refused(tmp_path):
    for name, reader in (("a.csv", ncu.read), ("1_kernel_trace.csv", rocprofv3.read), ("a.perf", perf.read)):
        assert "a line is longer than 4 MiB" in refused(tmp_path, reader, "x" * (5 << 20), name)


def test_an_unknown_profiler(tmp_path):
    with pytest.raises(profile.ProfileError, match="'gprof' is no profiler"):
        command.read("gprof", tmp_path)


# --- cut files, foreign columns, anything at all ---


@pytest.mark.parametrize("tool", command.TOOLS)
@hypothesis.given(where=st.integers(0, 40_000))
@hypothesis.settings(deadline=None, max_examples=40)
def test_a_cut_file_is_refused_or_says_less(tmp_path_factory, tool, where):
    folder = profiles.write(tmp_path_factory.mktemp("cut"), tool)
    (path,) = command.files(tool, folder)
    whole = command.read(tool, folder)
    content = path.read_bytes()
    path.write_bytes(content[: where % len(content)])
    try:
        seen = command.read(tool, folder)
    except profile.ProfileError as error:
        assert str(error) and "\n" not in str(error)
        return
    for name, kernel in seen.kernels.items():
        assert kernel.count <= whole.kernels[name].count
    assert sum(seen.api_calls.values()) <= sum(whole.api_calls.values())


READERS = [
    (ncu.read, "a.csv"), (perf.read, "a.perf"), (cupti.read, "a.json"),
    (nsys.read, "a.sqlite"), (rocprofv3.read, "a.db"), (rocprofv3.read, "a.json"),
    (rocprofv3.read, "a_kernel_trace.csv"), (rocprofv3.read, "a_memory_copy_trace.csv"),
    (rocprofv3.read, "a_counter_collection.csv"),
]  # fmt: skip


@pytest.mark.parametrize("reader, name", READERS, ids=lambda each: str(getattr(each, "__name__", each)))
@hypothesis.given(content=st.binary(max_size=300))
@hypothesis.settings(deadline=None, max_examples=60)
def test_any_bytes_are_taken_or_refused(tmp_path_factory, reader, name, content):
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    try:
        reader(path)
    except profile.ProfileError as error:
        assert str(error)


def mutated(tree, path, value):
    """The tree with something else at one place."""
    if not path or not isinstance(tree, (dict, list)) or not tree:
        return value
    keys = sorted(tree) if isinstance(tree, dict) else list(range(len(tree)))
    key = keys[path[0] % len(keys)]
    changed = copy.copy(tree)
    changed[key] = mutated(tree[key], path[1:], value)
    return changed


STRANGE = st.none() | st.booleans() | st.integers(-5, 2**70) | st.text(max_size=4) | st.lists(st.integers(), max_size=2)


@pytest.mark.parametrize("reader, whole", [(cupti.read, profiles.CUPTI), (rocprofv3.read, profiles.ROCM_JSON)])
@hypothesis.given(path=st.lists(st.integers(0, 20), max_size=8), value=STRANGE)
@hypothesis.settings(deadline=None, max_examples=150)
def test_json_with_something_else_in_it(tmp_path_factory, reader, whole, path, value):
    file = tmp_path_factory.getbasetemp() / "strange.json"
    file.write_text(json.dumps(mutated(whole, path, value)))
    try:
        as_record.figures(reader(file))
    except profile.ProfileError as error:
        assert str(error)


@hypothesis.given(column=st.integers(0, 30), value=st.text(max_size=5), row=st.integers(0, 3))
@hypothesis.settings(deadline=None, max_examples=150)
def test_tables_with_something_else_in_them(tmp_path_factory, column, value, row):
    for text, name in ((profiles.ROCM_KERNELS_7, "x_kernel_trace.csv"), (profiles.NCU, "x.csv")):
        lines = text.splitlines()
        place = row % len(lines)
        fields = lines[place].split(",")
        fields[column % len(fields)] = value
        lines[place] = ",".join(fields)
        path = tmp_path_factory.getbasetemp() / name
        path.write_text("\n".join(lines), encoding="utf-8")
        try:
            as_record.figures((ncu.read if name == "x.csv" else rocprofv3.read)(path))
        except profile.ProfileError as error:
            assert str(error)


def test_foreign_columns_do_no_harm(tmp_path):
    lines = [
        f'"Guid",{lines}' if i == 0 else f'"00",{lines}' for i, lines in enumerate(profiles.ROCM_KERNELS_7.splitlines())
    ]
    seen = read_text(tmp_path, rocprofv3.read, "\n".join(lines), "1_kernel_trace.csv")
    assert seen.kernels[SAXPY].count == 2
    assert "no column 'kernel_name'" in refused(tmp_path, rocprofv3.read, '"a","b"\n1,2\n', "1_kernel_trace.csv")


def test_a_database_of_another_program(tmp_path):
    for reader, name in ((nsys.read, "a.sqlite"), (rocprofv3.read, "a.db")):
        connection = sqlite3.connect(tmp_path / name)
        connection.execute("CREATE TABLE t (x)")
        connection.commit()
        connection.close()
        with pytest.raises(profile.ProfileError, match="so not a"):
            reader(tmp_path / name)


def test_something_that_ends_before_it_begins(tmp_path):
    text = profiles.ROCM_KERNELS_7.replace("1000,3000", "3000,1000")
    assert "ends before it begins" in refused(tmp_path, rocprofv3.read, text, "1_kernel_trace.csv")


# --- the record ---


def case(wall=1.0):
    record = copy.deepcopy(histories.BASE) | {"profiler": "cupti"}
    record["run"]["wall"] = wall
    return record


@pytest.mark.parametrize("tool", command.TOOLS)
def test_an_amended_record_is_a_valid_one(tmp_path, tool):
    seen = command.read(tool, profiles.write(tmp_path / "rank0", tool))
    (record,) = as_record.amend([case(3.0)], seen, unprofiled=[case(2.0)])
    assert validate.problem(record) is None
    assert record["profile"]["tool"] == tool and record["profile"]["wall_ratio"] == 1.5
    figures = {name: m["median"] for name, m in content.metrics(record).items() if name.startswith("profiled_")}
    assert figures["profiled_cost"] == 1.5 and len(figures) > 3


def test_several_cases_share_one_profile(tmp_path):
    seen = command.read("cupti", profiles.write(tmp_path / "rank0", "cupti"))
    for record in as_record.amend([case(), case()], seen, unprofiled=[case()]):
        assert validate.problem(record) is None
        assert record["profile"]["scope"] == "run" and record["profile"]["wall_ratio"] is None
        assert not any(name.startswith("profiled_") for name in content.metrics(record))


def test_counts_are_held_and_times_are_not():
    held = {"kernels": "1", "registers": "1", "h2d_bytes": "B", "instructions": "1", "flops_per_shared_access": "1"}
    assert all(as_record.is_held(profile.PROFILED + name, unit) for name, unit in held.items())
    free = {"kernel_time": "s", "global_rate": "B/s", "overlap": "1", "stall_barrier": "1", "cost": "1"}
    assert not any(as_record.is_held(profile.PROFILED + name, unit) for name, unit in free.items())
    assert not as_record.is_held("in", "1")


@pytest.mark.parametrize("tool", command.TOOLS)
def test_the_command_prints_what_was_seen(tmp_path, capsys, tool):
    profiles.write(tmp_path / "rank0", tool)
    assert cli.main(["profile", tool, str(tmp_path)]) == exits.PASSED
    assert "page_faults" in capsys.readouterr().out or tool in ("ncu", "rocprofv3")
    assert cli.main(["profile", tool, str(tmp_path / "none")]) == exits.BAD_INPUT
    assert "no such folder" in capsys.readouterr().err
