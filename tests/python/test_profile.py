"""Tests of reading profilers' outputs: what is read, what is refused, and the resulting record."""

import copy
import faulthandler
import gc
import json
import os
import pathlib
import shutil
import sqlite3
import tracemalloc

import histories
import hypothesis
import profiles
import pytest
from hypothesis import strategies as st

from isthmus import cli, exits, inputs
from isthmus.profiles import as_record, command, cupti, database, ncu, nsys, numerals, perf, profile, rocprofv3
from isthmus.records import fields, validate

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


# --- readers ---


def test_nsys(tmp_path):
    seen = nsys.read(profiles.write_nsys(tmp_path / "nsys.sqlite"))
    assert seen.kernels == {"saxpy": profile.Kernel(2, pytest.approx(4e-6), 32, 1024)}
    assert seen.copies["h2d"].bytes == 8192 and seen.copies["d2h"].count == 1 and "other" not in seen.copies
    assert seen.migrations["h2d"].bytes == 65536
    assert seen.page_faults == {"gpu": 7, "cpu": 2}
    assert seen.api_calls == {"cudaMalloc": 1, "cudaLaunchKernel": 2}
    assert {name: moved.count for name, moved in seen.phases.items()} == {"in": 1, "out": 1}
    # Copies in take 2 µs, kernels 4 µs and copies out 1 µs, all within 6 µs. So 1 of the 3 µs of copies was hidden.
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
    assert figures["stall_memory_dependency"] == (6.0, "1")  # mean weighted by cycles: (3 × 2000 + 7 × 6000) / 8000
    assert figures["instructions"] == (8192, "1")


def test_ncu_says_where_it_stopped(tmp_path):
    launch = profiles.NCU.splitlines()[-1]
    fewer = profiles.NCU + f"{launch}\n" * (ncu.LAUNCHES - 3)
    assert not read_text(tmp_path, ncu.read, fewer).all_notes()
    [limit] = read_text(tmp_path, ncu.read, f"{fewer}{launch}\n").all_notes()
    assert limit.startswith("only the first 200 launches were counted")
    assert not read_text(tmp_path, ncu.read, f"{fewer}{launch}\n{launch}\n").all_notes(), "a user's own, of any number"


def test_ncu_of_an_h200():
    """Reads a profile of saxpy with 2^27 elements, run three times with shared-memory tiles. The kernel does two flops,
    two loads and one store per element."""
    seen = ncu.read(pathlib.Path(__file__).parent / "data" / "ncu-2025.3-saxpy-large.csv")
    figures = {name: value for name, (value, _) in as_record.figures(seen).items()}
    elements = 3 * 2**27
    assert figures["kernels"] == 3 and figures["registers"] == 31
    assert figures["flops"] == 2 * elements
    assert figures["global_load_bytes"] == pytest.approx(8 * elements, rel=1e-3)
    assert figures["global_store_bytes"] == pytest.approx(4 * elements, rel=1e-3)
    assert figures["dram_read_bytes"] == pytest.approx(8 * elements, rel=1e-2)
    assert figures["global_rate"] == pytest.approx(12 * elements / figures["kernel_time"], rel=1e-2)
    assert 4e12 < figures["global_rate"] < 4.814e12  # below the memory's peak rate


def test_ncu_in_other_units(tmp_path):
    other = profiles.NCU.replace('"Mbyte"', '"Kbyte"').replace('"2.5"', '"2,500"').replace('"usecond"', '"ns"')
    other = other.replace('"10",', '"10000",').replace('"30",', '"30000",')
    found = as_record.figures(read_text(tmp_path, ncu.read, other))
    for name, (value, unit) in as_record.figures(read_text(tmp_path, ncu.read, profiles.NCU)).items():
        assert found[name] == (pytest.approx(value), unit)
    strange = read_text(tmp_path, ncu.read, profiles.NCU.replace('"Mbyte"', '"furlong"'))
    assert "dram__bytes_read.sum in 'furlong', an unknown unit (2 rows)" in strange.all_notes()[-1]
    assert "dram_read_bytes" not in as_record.figures(strange) and as_record.figures(strange)["kernels"] == (2, "1")


def test_ncu_without_permission(tmp_path):
    text = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters"
    assert "only administrators" in refused(tmp_path, ncu.read, text)
    assert "no kernel was profiled" in refused(tmp_path, ncu.read, "==WARNING== No kernels were profiled.\n")


def test_perf(tmp_path):
    seen = read_text(tmp_path, perf.read, profiles.PERF, "stat.perf")
    assert seen.page_faults == {"cpu": 5243}
    assert seen.counters["cpu_seconds"] == pytest.approx(0.09852)
    assert seen.notes == ["not supported here: dTLB-load-misses",
                          "never counted, because the run was too short or other events were counted: "
                          "cycles"]  # fmt: skip
    assert as_record.figures(seen)["cpu_major_faults"] == (3, "1")


def test_perf_that_counted_some_of_the_time(tmp_path):
    seen = read_text(tmp_path, perf.read, "100;;instructions;1;50.00;;\n", "stat.perf")
    [limit] = seen.all_notes()
    assert limit.startswith("instructions was counted for only 50.00% of the time")


@pytest.mark.parametrize("share, limits", [("100.00", 0), ("25.00", 1)])
def test_perf_of_several_runs_has_the_share_behind_the_time(tmp_path, share, limits):
    """Reads the output of `perf stat -r`, which has a deviation before the time."""
    text = f"50;;page-faults;1.33%;573887;{share};;\n<not counted>;;cycles;0.00%;0;0.00;;\n"
    seen = read_text(tmp_path, perf.read, text, "stat.perf")
    assert seen.page_faults == {"cpu": 50} and len(seen.limits) == limits and not seen.missing
    assert all(f"page-faults was counted for only {share}% of the time" in limit for limit in seen.limits)
    assert "means of several runs (perf stat -r), with their deviation: page-faults (1.33%)" in seen.notes


def test_a_second_run_in_a_file_of_perf_is_named_and_not_added(tmp_path):
    """Reads a file with two runs, as `perf stat --append` writes it."""
    once = read_text(tmp_path, perf.read, profiles.PERF, "one.perf")
    twice = read_text(tmp_path, perf.read, profiles.PERF * 2, "two.perf")
    assert (twice.page_faults, twice.counters) == (once.page_faults, once.counters) and not once.missing
    [why] = twice.missing
    assert "two.perf has a second run, which is not read" in why


@pytest.mark.parametrize("again", ["page-faults", "faults", "page-faults:u"])
def test_an_event_that_perf_counted_before_is_named_and_not_added(tmp_path, again):
    seen = read_text(tmp_path, perf.read, f"5;;page-faults;1;100.00;;\n5;;{again};1;100.00;;\n", "stat.perf")
    assert seen.page_faults == {"cpu": 5} and not seen.limits
    [why] = seen.missing
    assert f"stat.perf, line 2: {again.removesuffix(':u')} was counted before in this file" in why


def test_parts_of_an_event_that_perf_counted_apart_are_added(tmp_path):
    text = "5;;page-faults:u;1;100.00;;\n2;;page-faults:k;1;100.00;;\n"
    seen = read_text(tmp_path, perf.read, text, "stat.perf")
    assert seen.page_faults == {"cpu": 7} and len(seen.limits) == 2 and not seen.missing


def test_perf_of_groups_is_refused(tmp_path):
    text = "5;;page-faults;user.slice;573887;25.00;;\n"
    assert "as perf stat -G writes groups" in refused(tmp_path, perf.read, text, "x.perf")


@pytest.mark.parametrize("before", ["     1.000105821;", "CPU0;"])
def test_perf_by_time_or_by_processor_is_no_perf_that_saw_nothing(tmp_path, before):
    """Reads files of `perf stat -I` and `perf stat -A`, which are refused."""
    assert "perf stat -I and -A" in refused(tmp_path, perf.read, f"{before}1000;;page-faults;1;100.00;;\n", "x.perf")


def test_a_second_table_of_ncu_is_named_and_not_read_as_kernels(tmp_path):
    once = read_text(tmp_path, ncu.read, profiles.NCU)
    twice = read_text(tmp_path, ncu.read, profiles.NCU + profiles.NCU[profiles.NCU.index('"ID"') :], "two.csv")
    assert (twice.kernels, twice.counters) == (once.kernels, once.counters)
    assert len(twice.missing) == 1 and "two.csv has a second table" in twice.missing[0]


def test_perf_that_counted_a_part_says_which(tmp_path):
    """Reads counts of user mode only. perf adds :u by itself for an ordinary user."""
    text = "10;;page-faults:u;1;100.00;;\n20;;cycles:u;1;100.00;;\n30;;instructions:pp;1;100.00;;\n"
    seen = read_text(tmp_path, perf.read, text, "stat.perf")
    assert (seen.page_faults, seen.counters) == ({"cpu": 10}, {"cycles": 20.0, "instructions": 30.0})
    [note] = seen.all_notes()
    assert note.startswith("counted only in user mode, not in all modes: page-faults, cycles;")


@pytest.mark.parametrize("event, called", [
    ("cpu_core/cycles/u", "cpu_core/cycles/"), ("cpu_core/cycles:u/", "cpu_core/cycles/"),
    ("cpu/event=0x3c,umask=0x0/uP", "cpu/event=0x3c,umask=0x0/"), ("cpu_atom/cycles/:u", "cpu_atom/cycles/"),
])  # fmt: skip
def test_perf_that_counted_a_part_of_an_event_of_one_unit_says_so(tmp_path, event, called):
    text = f"20;;{event};1;100.00;;\n30;;cpu_core/uops/;1;100.00;;\n9;;sched:sched_switch;1;100.00;;\n"
    seen = read_text(tmp_path, perf.read, text, "stat.perf")
    assert seen.counters == {called: 20.0, "cpu_core/uops/": 30.0, "sched:sched_switch": 9.0}
    [note] = seen.all_notes()
    assert note.startswith(f"counted only in user mode, not in all modes: {called};")


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
    assert seen.notes == ["left out: stat.perf, line 3: cycles is in 'furlong', an unknown unit"]
    cut, *lines = seen.missing
    assert cut == "not the whole run: stat.perf is cut short: its last line has no end; write it again"
    assert [said.split(": ")[:2] for said in lines] == [["not the whole run", "left out"]] * 3
    assert "(task-clock): '1,234' can mean 1234 or 1.234; run the tool with LC_ALL=C" in lines[0]
    assert "'x' is not a number" in lines[1] and "cut short" in lines[2]
    assert "'x' is not a number" in refused(tmp_path, perf.read, "x;;page-faults;1;;;\n", "stat.perf")


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


# --- tables and messages that a reader does not use ---


def test_a_database_that_another_program_locks_is_named_as_that(tmp_path):
    connection = sqlite3.connect(profiles.write_nsys(tmp_path / "run.sqlite"))
    connection.execute("BEGIN EXCLUSIVE")
    with pytest.raises(profile.ProfileError, match="another program is writing to it"):
        nsys.read(tmp_path / "run.sqlite")
    connection.rollback()
    connection.close()


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
    assert "--cuda-graph-trace=node traces each kernel and copy" in seen.all_notes()[0]
    assert as_record.overlap(seen) == pytest.approx(1), "all copies overlap with the first graph"
    assert not nsys.read(profiles.write_nsys(tmp_path / "b.sqlite")).counters


def test_nsys_names_what_it_left_out(tmp_path):
    rows = [(0, 1, 2, "Not all CUDA events were collected")]
    path = with_tables(profiles.write_nsys(tmp_path / "a.sqlite"), CUPTI_ACTIVITY_KIND_MEMSET=rows * 3,
                       MPI_P2P_EVENTS=rows, ENUM_NSYS_X=rows, OSRT_API=[], DIAGNOSTIC_EVENT=rows)  # fmt: skip
    notes = nsys.read(path).all_notes()
    assert notes[0].startswith("not the whole run: a.sqlite says Not all CUDA events were collected; profile it again")
    assert notes[1] == (
        "left out, since no figure here comes from it: CUPTI_ACTIVITY_KIND_MEMSET (3 rows), MPI_P2P_EVENTS (1 row), "
        "NVTX_EVENTS without a name or an end (1 row)"
    )


def test_our_own_nsys_traces_graphs_node_by_node_and_every_tool_runs_in_the_c_locale():
    text = (pathlib.Path(__file__).parents[2] / "reframe/isthmus_reframe/profilers.py").read_text()
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
    assert seen.missing[0].startswith("not the whole run: a.csv says ==WARNING== some launches were not profiled;")
    assert "sm__throughput.avg (1 row)" in seen.all_notes()[1]
    assert "sm__cycles_elapsed.max, which was not available (1 row)" in seen.all_notes()[1]
    seen = read_text(tmp_path, ncu.read, f'{other}==ERROR== LaunchFailed\n==ERROR== Failed to profile "gemm"\n')
    assert len(seen.missing) == 2 and "says ==ERROR== LaunchFailed; profile it again" in seen.missing[0]


def test_a_sum_that_lacks_a_launch_is_left_out(tmp_path):
    assert "shared_accesses" in as_record.figures(read_text(tmp_path, ncu.read, profiles.NCU))
    invalid = read_text(tmp_path, ncu.read, profiles.NCU.replace('"3,000"', '"3,00,0"'))
    assert "shared_accesses" not in as_record.figures(invalid) and "'3,00,0' is not a number" in invalid.all_notes()[-1]


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
    assert csv.pop("shared_accesses") == (100, "1")  # only the CSV files have this counter
    csv.pop("overlap")  # differs, because kernels and copies are in two files
    assert csv == {name: value for name, value in whole.items() if name in csv}
    assert {"h2d_bytes", "d2h_bytes", "overlap"} == set(whole) - set(csv)  # CSV files have no sizes of copies


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


def test_a_rank_that_was_slower_than_another_is_named(tmp_path):
    text = (pathlib.Path(__file__).parent / "data" / "ncu-2025.3-saxpy-large.csv").read_text()
    (tmp_path / "rank0.csv").write_text(text)
    (tmp_path / "rank1.csv").write_text(text.replace('"399.200000"', '"3992.00000"'))
    [note] = [note for note in command.read("ncu", tmp_path).notes if "sum of 2 parts: rank0.csv, rank1.csv" in note]
    assert note.endswith("; kernels took 0.0012 s in rank0.csv and 0.00479 s in rank1.csv")


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


def aged(path, seconds):
    """Makes a file older by `seconds`, or newer if `seconds` is negative."""
    status = path.stat()
    os.utime(path, (status.st_atime - seconds, status.st_mtime - seconds))


@pytest.mark.parametrize("tool, report, export", [
    ("nsys", "nsys.nsys-rep", "nsys.sqlite"), ("nsys", "nsys.qdrep", "nsys.sqlite"), ("ncu", "ncu.ncu-rep", "ncu.csv"),
])  # fmt: skip
def test_an_export_that_is_older_than_its_report_is_not_read(tmp_path, capsys, tool, report, export):
    for rank in range(2):
        profiles.write(tmp_path / f"rank{rank}", tool)
        (tmp_path / f"rank{rank}" / report).touch()
        os.utime(tmp_path / f"rank{rank}" / report, ns=(0, (tmp_path / f"rank{rank}" / export).stat().st_mtime_ns))
    aged(tmp_path / "rank1" / export, 1.5)
    assert len(command.read(tool, tmp_path).files) == 2 and not command.read(tool, tmp_path).missing
    aged(tmp_path / "rank1" / export, 3600)
    assert cli.main(["profile", tool, str(tmp_path)]) == exits.UNDECIDED
    seen = command.read(tool, tmp_path)
    why = (
        f"rank1/{report} is newer than rank1/{export}, so that export shows an earlier run and is not read; delete it "
        f"and convert the report again: {tool} "
    )
    assert len(seen.missing) == 1 and seen.missing[0].startswith(f"not the whole run: {why}")
    assert (
        seen.files == [f"rank0/{export}"] == [str(path.relative_to(tmp_path)) for path in command.files(tool, tmp_path)]
    )
    capsys.readouterr()
    aged(tmp_path / "rank0" / export, 3600)
    assert cli.main(["profile", tool, str(tmp_path)]) == exits.BAD_INPUT
    error = " ".join(capsys.readouterr().err.split())
    assert f"rank0/{report}, rank1/{report} are newer than rank0/{export}, rank1/{export}, so those show" in error
    for rank in range(2):
        aged(tmp_path / f"rank{rank}" / report, 7200)
    assert not command.read(tool, tmp_path).missing


def test_a_stale_export_is_read_under_no_other_name(tmp_path):
    profiles.write(tmp_path / "exports", "nsys")
    profiles.write(tmp_path / "rank1", "nsys")
    (tmp_path / "rank0").mkdir()
    (tmp_path / "rank0" / "nsys.nsys-rep").touch()
    (tmp_path / "rank0" / "nsys.sqlite").symlink_to("../exports/nsys.sqlite")
    aged(tmp_path / "exports" / "nsys.sqlite", 60)
    seen = command.read("nsys", tmp_path)
    assert seen.files == ["rank1/nsys.sqlite"] and len(seen.missing) == 1


def test_the_formats_of_rocprofv3_are_written_in_any_order(tmp_path):
    profiles.write(tmp_path, "rocprofv3")
    (tmp_path / "out_results.pftrace").touch()
    aged(tmp_path / "out_results.json", 60)
    assert not command.read("rocprofv3", tmp_path).missing


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
    assert first == "not the whole run: rank1 has no figure, unlike the files next to it"
    (record,) = as_record.amend([case()], command.read(tool, tmp_path), unprofiled=[])
    assert record["profile"]["notes"][0] == first


@pytest.mark.parametrize("tool", command.TOOLS)
def test_a_rank_whose_number_is_missing_is_named(tmp_path, capsys, tool):
    for rank in (0, 2):
        profiles.write(tmp_path / f"rank{rank}", tool)
    assert cli.main(["profile", tool, str(tmp_path)]) == exits.UNDECIDED
    assert " ".join(capsys.readouterr().out.split()).startswith(
        "not the whole run: no output of rank 1, although there is rank 2; put its output next to the others, or "
        "profile the run again "
    )
    (tmp_path / "rank1").mkdir()
    assert command.read(tool, tmp_path).missing == [
        "not the whole run: rank1 has no figure, unlike the files next to it"
    ]  # fmt: skip
    profiles.write(tmp_path / "rank1", tool)
    assert not command.read(tool, tmp_path).missing


@pytest.mark.parametrize("names, missing", [
    ("run_rank0 run_rank3", "ranks 1-2, although there is rank 3"),
    ("rank-00.a rank-01.b rank-03.c rank-06.d", "ranks 2, 4-5, although there is rank 6"),
    ("rank1/x rank2/x", "rank 0, although there is rank 2"),
    ("rank0of3 rank1of3", "rank 2, although the run had 3 ranks"),
    ("MPI_Rank0_pid71 MPI_Rank0_pid72 MPI_Rank2_pid73", "rank 1, although there is rank 2"),
    ("alpha_rank0 beta_rank2 alpha_rank3", "rank 1, although there is rank 3"),
    ("node1/rank0 node1/rank1 node2/rank3", "rank 2, although there is rank 3"),
    ("node1/local_rank0 node1/local_rank2 node2/local_rank0", "rank 1 in node1, although there is rank 2"),
    ("a/node1/rank0/x a/node2/rank1/x b/node1/rank0/x b/node1/rank2/x", "rank 1 in b/node1, although there is rank 2"),
    ("rank0 rank1000000000 rank999999999", "ranks 1-999999998, although there is rank 999999999"),
    ("rank0 rank1 rank2", ""),
    ("node1/rank0 node1/rank2 node2/rank1 node2/rank3", ""),
    ("a/node1/rank0 a/node2/rank1 b/node1/rank0 b/node2/rank1", ""),
    ("rank8 rank16 rank32", ""),  # not ranks of a run, but as in names of matrix instructions
    ("rank1", ""), ("rank0", ""), ("run.0 run.2", ""), ("job0/x job2/x", ""), ("4711 4713", ""),
    ("size0 size8", ""), ("2026-11-26 2026-11-28", ""), ("ranks0 ranks2 nrank4", ""), ("frank0 frank2", ""),
])  # fmt: skip
def test_which_numbers_are_ranks(tmp_path, names, missing):
    for name in names.split():
        path = tmp_path / f"{name}.perf"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(profiles.PERF)
    sentences = [sentence.partition(";")[0] for sentence in command.read("perf", tmp_path).missing]
    assert sentences == ([f"not the whole run: no output of {missing}"] if missing else [])


def with_mpi(path, ranks, size):
    connection = sqlite3.connect(profiles.write_nsys(path))
    connection.execute("CREATE TABLE MPI_RANKS (globalTid, rank)")
    connection.executemany("INSERT INTO MPI_RANKS VALUES (1, ?)", [(rank,) for rank in ranks])
    connection.execute("CREATE TABLE MPI_COMMUNICATORS (rank, size)")
    connection.executemany("INSERT INTO MPI_COMMUNICATORS VALUES (?, ?)", [(ranks[0], size), (None, "x"), (-1, 1)])
    connection.commit()
    connection.close()


def test_a_report_says_how_many_ranks_there_were(tmp_path):
    for rank in range(2):
        (tmp_path / f"rank{rank}").mkdir()
        with_mpi(tmp_path / f"rank{rank}" / "nsys.sqlite", [rank], 4)
    (sentence,) = command.read("nsys", tmp_path).missing
    assert sentence.startswith("not the whole run: no output of ranks 2-3, although the run had 4 ranks;")
    (tmp_path / "rank2").mkdir()
    with_mpi(tmp_path / "rank2" / "nsys.sqlite", [2, 3], 4)
    assert not command.read("nsys", tmp_path).missing, "one report may be of several ranks"


def test_a_rank_that_cannot_be_read_is_named_once(tmp_path):
    for name in ("x_rank0", "x_rank3"):
        profiles.write_nsys(tmp_path / f"{name}.sqlite")
    (tmp_path / "x_rank1.nsys-rep").touch()
    profiles.write_nsys(tmp_path / "x_rank2.sqlite")
    (tmp_path / "x_rank2.nsys-rep").touch()
    aged(tmp_path / "x_rank2.sqlite", 60)
    never, stale = command.read("nsys", tmp_path).missing
    assert "x_rank1.nsys-rep was never converted" in never and "x_rank2.nsys-rep is newer" in stale
    for rank in (0, 2):
        profiles.write(tmp_path / "linked" / f"rank{rank}", "perf")
    (tmp_path / "linked" / "rank1").symlink_to("gone")
    (sentence,) = command.read("perf", tmp_path / "linked").missing
    assert "rank1: a link whose target is missing" in sentence


def test_kinds_of_events_are_no_ranks(tmp_path):
    for rank, kinds in ((0, ("kernel", "hip_api", "memory_copy")), (1, ("kernel", "hip_api")), (2, ("memory_copy",))):
        for kind in kinds:
            (tmp_path / f"rank{rank}_{kind}_trace.csv").write_text(profiles.ROCM_CSV[f"1_{kind}_trace.csv"])
    assert not command.read("rocprofv3", tmp_path).missing


def test_a_rank_that_did_nothing_is_missing(tmp_path):
    names = [name for name in profiles.tables_of_nsys() if name != "StringIds"]
    for name, without in (("run0.sqlite", ()), ("run1.sqlite", names)):
        profiles.write_nsys(tmp_path / name, without=without)
    assert command.read("nsys", tmp_path).missing == [
        "not the whole run: run1.sqlite has no figure, unlike the files next to it"
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
    assert seen.kernels[SAXPY].count == 6 and not seen.left_out
    assert seen.notes == ["figures are the sum of 3 parts: rank0, rank1, rank2"]
    assert [why.partition(", unlike")[0] for why in seen.missing] == [
        "not the whole run: rank0, rank1 lack shared_accesses",
        "not the whole run: rank2 lacks sizes of d2h copies and sizes of h2d copies",
    ]
    assert [name for name in seen.files if "rank2" not in name] == ["rank0/a_results.db", "rank1/b_results.json"]
    (tmp_path / "rank0" / "2_results.json").write_text(json.dumps(profiles.ROCM_JSON))
    (tmp_path / "rank1" / "c_scratch_memory_trace.csv").write_text(profiles.ROCM_KERNELS_7)
    seen = command.read("rocprofv3", tmp_path)
    assert seen.kernels[SAXPY].count == 8 and list(seen.left_out) == ["the file c_scratch_memory_trace.csv"]
    assert "rank0/2_results.json, rank0/a_results.db have different names" in " ".join(seen.notes)


def in_passes(folder, *counters):
    """Writes the output of passes of rocprofv3, which runs the program once for each line of counters, with different
    process ids."""
    for number, names in enumerate(counters, 1):
        for name, text in profiles.ROCM_CSV.items():
            if name == "1_counter_collection.csv":
                rows = [line for line in text.splitlines() if line.startswith('"') or "TCP_UTCL1" in line]
                rows = [line.replace("TCP_UTCL1_TRANSLATION_MISS_sum", names) for line in rows]
                head = text[: text.index("1,1,4,1")]
                text = head + "".join(f"{row}\n" for row in rows if "," in row and not row.startswith('"'))
            place = folder / f"pmc_{number}/node"
            place.mkdir(parents=True, exist_ok=True)
            (place / name.replace("1_", f"{4000 + number}_", 1)).write_text(text)


def test_passes_of_rocprofv3_are_one_run(tmp_path):
    """Checks that launches are counted once, not once per pass, and that counters of all passes are combined."""
    in_passes(tmp_path / "two", "SQ_BUSY_CYCLES", "SQ_INSTS_LDS")
    in_passes(tmp_path / "one", "SQ_BUSY_CYCLES")
    seen, alone = command.read("rocprofv3", tmp_path / "two"), command.read("rocprofv3", tmp_path / "one")
    assert not seen.missing and not alone.missing
    assert seen.counters == {"cycles": 42.0, "shared_accesses": 42.0} and alone.counters == {"cycles": 42.0}
    assert seen.kernels == alone.kernels and seen.copies == alone.copies and seen.api_calls == alone.api_calls
    in_passes(tmp_path / "ranks/rank0", "SQ_BUSY_CYCLES", "SQ_INSTS_LDS")
    in_passes(tmp_path / "ranks/rank1", "SQ_BUSY_CYCLES", "SQ_INSTS_LDS")
    both = command.read("rocprofv3", tmp_path / "ranks")
    assert both.counters == {"cycles": 84.0, "shared_accesses": 84.0} and not both.missing
    assert both.kernels[SAXPY].count == 2 * seen.kernels[SAXPY].count


@pytest.mark.parametrize(
    ("invalidate", "why"),
    [
        (lambda folder: shutil.rmtree(folder / "pmc_1"), "no output of pass 1"),
        (lambda folder: shutil.rmtree(folder / "pmc_2/node"), "pmc_2 has no figure, unlike the files next to it"),
        (lambda folder: shortened(folder / "pmc_2/node/4002_kernel_trace.csv"),
         "numbers of launches differ between passes: 1 in pass 2"),
        (lambda folder: shortened(folder / "pmc_2/node/4002_counter_collection.csv"),
         "numbers of launches with counters differ between passes: 1 in pass 2 and 2 in pass 1"),
        (lambda folder: (folder / "pmc_2/node/4002_counter_collection.csv").unlink(),
         "numbers of launches with counters differ between passes: 0 in pass 2 and 2 in pass 1"),
    ],
)  # fmt: skip
def test_a_pass_that_is_missing_or_cut_is_said(tmp_path, capsys, invalidate, why):
    in_passes(tmp_path / "run", "SQ_BUSY_CYCLES", "SQ_INSTS_LDS")
    invalidate(tmp_path / "run")
    assert cli.main(["profile", "rocprofv3", str(tmp_path / "run")]) == exits.UNDECIDED
    assert why in " ".join(capsys.readouterr().out.split())


def shortened(path):
    """Removes the last line of a file, which a reader of only this file cannot notice."""
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def test_every_process_of_a_rocpd_database_is_read(tmp_path):
    path = tmp_path / "out_results.db"
    profiles.write_rocpd(path)
    profiles.write_rocpd(path, suffix="_00006410_00d1_70d1_a5cb_b5ab88214544", views=False, kernel="axpy")
    seen = rocprofv3.read(path)
    assert {name: kernel.count for name, kernel in seen.kernels.items()} == {SAXPY: 2, "axpy": 2}
    assert seen.copies["h2d"].bytes == 2 * 8192 and not seen.left_out


# --- links ---


def test_links_are_followed_once_and_loops_end(tmp_path, capsys):
    folder = tmp_path / "run"
    profiles.write(folder / "rank0", "perf")
    profiles.write(tmp_path / "far" / "rank1", "perf")
    profiles.write(tmp_path / "one", "perf")
    (folder / "rank2").mkdir()
    (folder / "rank1").symlink_to(tmp_path / "far" / "rank1")
    (folder / "rank2" / "stat.perf").symlink_to(tmp_path / "one" / "stat.perf")
    assert command.read("perf", folder).files == [f"rank{rank}/stat.perf" for rank in range(3)]
    (folder / "a.perf").symlink_to("rank0/stat.perf")
    (folder / "latest").symlink_to("rank0")
    (folder / "rank0" / "up").symlink_to("..")
    (tmp_path / "far" / "rank1" / "here").symlink_to(".")
    seen = command.read("perf", folder)
    assert seen.files == [f"rank{rank}/stat.perf" for rank in range(3)] and not seen.missing
    (tmp_path / "link").symlink_to("run")
    assert cli.main(["profile", "perf", str(tmp_path / "link")]) == exits.PASSED
    assert f"cpu_page_faults {3 * 5243:>29}" in capsys.readouterr().out


def test_an_export_that_is_read_under_another_name_converts_its_report(tmp_path):
    profiles.write(tmp_path / "exports", "nsys")
    (tmp_path / "rank0").mkdir()
    (tmp_path / "rank0" / "nsys.nsys-rep").touch()
    (tmp_path / "rank0" / "nsys.sqlite").symlink_to("../exports/nsys.sqlite")
    seen = command.read("nsys", tmp_path)
    assert seen.files == ["exports/nsys.sqlite"] and seen.kernels["saxpy"].count == 2 and not seen.missing


def test_a_dangling_link_is_one_sentence(tmp_path, capsys):
    profiles.write(tmp_path / "rank0", "perf")
    (tmp_path / "scratch").symlink_to(tmp_path / "unmounted")
    assert cli.main(["profile", "perf", str(tmp_path)]) == exits.UNDECIDED
    why = "scratch: a link whose target is missing; restore the target, or remove the link"
    assert f"not the whole run: {why}" in " ".join(capsys.readouterr().out.split())
    (tmp_path / "again").symlink_to("again")
    assert [line.partition(";")[0] for line in command.read("perf", tmp_path).missing] == [
        "not the whole run: again: Too many levels of symbolic links",
        "not the whole run: scratch: a link whose target is missing",
    ]
    (tmp_path / "again").unlink()
    (tmp_path / "rank0" / "stat.perf").unlink()
    assert cli.main(["profile", "perf", str(tmp_path)]) == exits.BAD_INPUT
    assert f"perf left no *.perf; {why}" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("tool, name", [
    ("perf", "rank1.perf.gz"), ("perf", "nid002.perf.txt"), ("perf", "other.PERF"), ("perf", "rank0.perf.old"),
    ("perf", "rank1"), ("perf", "rank1.txt"), ("perf", "rank1.dat.zst"), ("perf", "rank1.tar.gz"),
    ("ncu", "x.csv.gz"), ("ncu", "rank1.ncu-rep.gz"), ("nsys", "x.sqlite.gz"), ("nsys", "rank1.nsys-rep.zst"),
    ("cupti", "x.json.bz2"), ("rocprofv3", "2_results.db.gz"), ("rocprofv3", "2_kernel_trace.csv.xz"),
])  # fmt: skip
def test_an_output_under_another_name_is_missed(tmp_path, capsys, tool, name):
    [only] = profiles.write(tmp_path, tool).iterdir()
    only.rename(tmp_path / f"rank0{only.suffix}")
    for other in ("slurm-17.out", "log", "rank0.log", "rank0.nsys-rep.gz", f"rank0{only.suffix}.gz", "notes.txt",
                  "run.jsonl", "rank0.sqlite-journal", "agent_info.gz", f"x{only.suffix}x"):  # fmt: skip
        (tmp_path / other).touch()
    aged(tmp_path / f"rank0{only.suffix}", -5)
    assert cli.main(["profile", tool, str(tmp_path)]) == exits.PASSED, capsys.readouterr().out
    (tmp_path / name).write_bytes(b"x")
    capsys.readouterr()
    assert cli.main(["profile", tool, str(tmp_path)]) == exits.UNDECIDED
    said = " ".join(capsys.readouterr().out.split())
    assert f"not the whole run: {name}:" in said and "not read" in said


def test_a_packed_folder_of_a_rank_is_missed(tmp_path):
    profiles.write(tmp_path / "rank0", "perf")
    (tmp_path / "rank1.tgz").touch()
    [why] = command.read("perf", tmp_path).missing
    assert why.startswith("not the whole run: rank1.tgz: ")


def test_where_all_outputs_have_other_names_these_are_named(tmp_path):
    (tmp_path / "stat.perf.gz").touch()
    with pytest.raises(profile.ProfileError, match=r"left no \*.perf; stat.perf.gz: compressed by gzip"):
        command.read("perf", tmp_path)


def test_a_folder_called_manifests_hides_no_rank(tmp_path):
    profiles.write(tmp_path / "rank0", "perf")
    (tmp_path / "rank0" / "manifests").mkdir()
    assert command.read("perf", tmp_path).files == ["rank0/stat.perf"]


# --- memory ---


def peak(read, path):
    """Returns the peak memory of Python objects in bytes while a file is read."""
    gc.collect()
    tracemalloc.start()
    read(path)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def repeated(text, rows, head):
    """Returns the first `head` lines of a table, followed by its last line `rows` times."""
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


def many_names(path, rows, through_ids=False):
    """Writes an export of Nsight Systems whose ranges, and with `through_ids` also kernels and calls, have different
    names."""
    profiles.write_nsys(path)
    connection = sqlite3.connect(path)
    every = f"WITH RECURSIVE s(x) AS (SELECT 10 UNION ALL SELECT x + 1 FROM s WHERE x < {rows + 9}) INSERT INTO "
    if through_ids:
        connection.execute(f"{every} StringIds SELECT x, 'a name ' || x FROM s")
        connection.execute(f"{every} CUPTI_ACTIVITY_KIND_KERNEL SELECT x * 9, x * 9 + 5, x, 1, 32, 0, 0 FROM s")
        connection.execute(f"{every} CUPTI_ACTIVITY_KIND_RUNTIME SELECT x, x + 1, x FROM s")
    texts = "NULL, x" if through_ids else "'a name ' || x, NULL"
    connection.execute(f"{every} NVTX_EVENTS SELECT x, x + 1000, {texts} FROM s")
    connection.commit()
    connection.close()


def numbered(text, name, rows, head):
    """Returns the first `head` lines of a table, followed by its last line `rows` times with different names."""
    lines = text.splitlines(keepends=True)
    assert name in lines[-1]
    return "".join(lines[:head]) + "".join(lines[-1].replace(name, f"a name {i}") for i in range(rows))


@pytest.mark.parametrize("reader, file, write", [
    (nsys.read, "a.sqlite", many_names),
    (nsys.read, "ids.sqlite", lambda path, n: many_names(path, n, True)),
    (ncu.read, "a.csv", lambda path, n: path.write_text(numbered(profiles.NCU, "saxpy_staged", n, 3))),
    (perf.read, "a.perf", lambda path, n: path.write_text(numbered("7;;name;1;50.00;;\n", "name", n, 0))),
    (perf.read, "b.perf", lambda path, n: path.write_text(numbered("7;;name;2%;1;100.00;;\n", "name", n, 0))),
    (perf.read, "c.perf", lambda path, n: path.write_text(
        "1;;cycles;;;;\n" + numbered("<not counted>;;name;1;50.00;;\n", "name", n, 0))),
    *((rocprofv3.read, f"1_{kind}.csv", lambda path, n, text=text, name=name: path.write_text(
        numbered(text, name, n, 1))) for kind, text, name in (
            ("kernel_trace", profiles.ROCM_KERNELS_7, "saxpy"),
            ("hip_api_trace", profiles.ROCM_CALLS, "hipMemcpyAsync"),
            ("marker_api_trace", profiles.ROCM_MARKERS, '"kernel"'),
            ("counter_collection", profiles.ROCM_COUNTERS, "TCP_UTCL1_TRANSLATION_MISS_sum"))),
], ids=lambda each: each if isinstance(each, str) else "")  # fmt: skip
def test_memory_does_not_grow_with_the_names(tmp_path, monkeypatch, reader, file, write):
    for module in (profile, perf):
        monkeypatch.setattr(module, "MOST_NAMES", 100)
    few, many = 500, 4_000
    used = []
    for rows in (few, many):
        path = tmp_path / str(rows) / file
        path.parent.mkdir()
        write(path, rows)
        used.append(peak(lambda path: command.table(reader(path)), path))
    grown = (used[1] - used[0]) / (many - few)
    assert grown < (100 if "ids" in file else 40), "a begin and an end are 16 bytes; texts are held as in their file"


def test_further_names_are_added_up_and_said(tmp_path, capsys, monkeypatch):
    """Lowers the limit on the number of names. Without a limit, a million names of ranges need 19 times as much memory
    as their file."""
    monkeypatch.setattr(profile, "MOST_NAMES", 300)
    for rank in range(2):
        (tmp_path / f"rank{rank}").mkdir()
        many_names(tmp_path / f"rank{rank}/nsys.sqlite", 1000, True)
    seen = command.read("nsys", tmp_path)
    assert not seen.missing
    for names, total in ((seen.phases, 2004), (seen.kernels, 2004), (seen.api_calls, 2006)):
        assert len(names) == 301
        assert sum(getattr(each, "count", each) for each in names.values()) == total
    assert as_record.figures(seen)["kernels"] == (2004, "1") and as_record.figures(seen)["api_calls"] == (2006, "1")
    left = 2004 - sum(moved.count for name, moved in seen.phases.items() if name != profile.FURTHER)
    sentence = f"{left} phases are added up as (further names), since they come after the first 300 names"
    assert sentence in seen.all_notes()
    assert cli.main(["profile", "nsys", str(tmp_path)]) == exits.PASSED
    out = capsys.readouterr().out
    assert sentence in " ".join(out.split()) and out.count("\n") < 130
    assert "251 shorter phases added up as (further names); --format csv has them" in out
    (record,) = as_record.amend([case()], seen, unprofiled=[])
    phases, calls = record["profile"]["phases"], record["profile"]["api_calls"]
    assert len(phases) == len(calls) == as_record.NAMES + 1
    assert sum(each["count"] for each in phases.values()) == 2004 and sum(calls.values()) == 2006
    assert (
        "only 200 of 301 names of phases are listed; isthmus profile --format csv has more"
        in (record["profile"]["notes"])
    )
    assert validate.problem(record) is None


def test_counters_of_further_names_are_no_sum(tmp_path, monkeypatch):
    monkeypatch.setattr(profile, "MOST_NAMES", 3)
    rows = "".join(profiles.ROCM_COUNTERS.splitlines(keepends=True)[:1]) + "".join(
        profiles.ROCM_COUNTERS.splitlines(keepends=True)[1].replace("TCP_UTCL1_TRANSLATION_MISS_sum", f"C{i}")
        for i in range(5)
    )
    for rank in range(2):
        (tmp_path / f"rank{rank}").mkdir()
        (tmp_path / f"rank{rank}/1_counter_collection.csv").write_text(rows.replace('"C0"', f'"D{rank}"'))
    seen = command.read("rocprofv3", tmp_path)
    assert seen.counters == {"C1": 80, "C2": 80}
    assert "counters beyond the first 3" in seen.all_notes()[-1]


def test_names_that_end_unlike_are_told_apart():
    seen = profile.Profile("nsys")
    for end in "ab":
        seen.add_phase("x" * 100_000 + end, (0, 1))
        seen.add_phase("x" * 100_000 + end, (0, 1))
    assert [moved.count for moved in seen.phases.values()] == [2, 2] and max(map(len, seen.phases)) < 5000


@pytest.mark.parametrize("numbers", [(1, 2, 3), (3, 1, 2), (-5, 0, 2**62), (1, 1, 2)])
def test_texts_are_found_by_their_number(numbers):
    pairs = [(number, f"näme {i}") for i, number in enumerate(numbers)]
    texts = database.Texts([*pairs, ("x", "y"), (9, None)])
    known = dict(pairs)
    asked = [*numbers, 0, 4, 9, "x", None, 1.5]
    assert [texts.get(number, "-") for number in asked * 2] == [known.get(number, "-") for number in asked * 2]


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
    with pytest.raises(profile.ProfileError, match="'gprof' is not a known profiler"):
        command.read("gprof", tmp_path)


# --- truncated files, foreign columns, arbitrary contents ---


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
    """Returns the tree with `value` at the position that `path` selects."""
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
    seen = read_text(tmp_path, rocprofv3.read, "\n".join(lines) + "\n", "1_kernel_trace.csv")
    assert seen.kernels[SAXPY].count == 2
    assert "cut short" in refused(tmp_path, rocprofv3.read, "\n".join(lines)[:-1], "1_kernel_trace.csv")
    assert "no column 'kernel_name'" in refused(tmp_path, rocprofv3.read, '"a","b"\n1,2\n', "1_kernel_trace.csv")


def test_a_database_of_another_program(tmp_path):
    for reader, name in ((nsys.read, "a.sqlite"), (rocprofv3.read, "a.db")):
        connection = sqlite3.connect(tmp_path / name)
        connection.execute("CREATE TABLE t (x)")
        connection.commit()
        connection.close()
        with pytest.raises(profile.ProfileError, match="so not a"):
            reader(tmp_path / name)


@pytest.fixture
def must_end():
    """Ends the whole test run if a reader does not end within 120 s, because SQLite ignores signals."""
    faulthandler.dump_traceback_later(120, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


ENDLESS = "WITH RECURSIVE s(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM s) SELECT {} FROM s"


def changed(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


@pytest.mark.usefixtures("must_end")
@pytest.mark.parametrize("table", sorted(profiles.tables_of_nsys()))
def test_a_view_is_no_table_of_nsys(tmp_path, table):
    """Replaces tables by views that have endless rows, or that never return the first row."""
    names = profiles.tables_of_nsys()[table][0].split(", ")
    for number, more in enumerate(("", " WHERE x < 0")):
        path = profiles.write_nsys(tmp_path / f"{number}.sqlite", without=[table])
        columns = ", ".join(f'x AS "{name}"' for name in names)
        changed(path, f"CREATE VIEW {table} AS {ENDLESS.format(columns)}{more}")
        with pytest.raises(profile.ProfileError, match=f"{table} is a view or a virtual table, so not what"):
            nsys.read(path)


@pytest.mark.usefixtures("must_end")
def test_views_of_others_are_not_asked(tmp_path):
    path = changed(profiles.write_nsys(tmp_path / "a.sqlite"), f"CREATE VIEW other AS {ENDLESS.format('x')}")
    assert nsys.read(path).kernels["saxpy"].count == 2
    path = changed(
        profiles.write_rocpd(tmp_path / "a.db"),
        "DROP VIEW rocpd_kernel_dispatch",
        f"CREATE VIEW rocpd_kernel_dispatch AS {ENDLESS.format('x AS start')}",
        f"CREATE VIEW kernels AS {ENDLESS.format('x')}",
    )
    assert rocprofv3.read(path).kernels[SAXPY].count == 2
    path = profiles.write_rocpd(tmp_path / "b.db", suffix="", views=False)
    changed(path, "DROP TABLE rocpd_region", f"CREATE VIEW rocpd_region AS {ENDLESS.format('x')}")
    with pytest.raises(profile.ProfileError, match="rocpd_region is a view"):
        rocprofv3.read(path)


@pytest.mark.usefixtures("must_end")
@pytest.mark.parametrize(
    "statement, why",
    [
        (f"CREATE VIEW NVTX_EVENTS AS {ENDLESS.format('x')}", "not an SQLite database"),
        ("CREATE VIRTUAL TABLE NVTX_EVENTS USING rtree(x, a, b)", "is a view or a virtual table"),
    ],
)
def test_a_schema_that_calls_something_else_a_table(tmp_path, statement, why):
    path = profiles.write_nsys(tmp_path / "a.sqlite", without=["NVTX_EVENTS"])
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema = ON")
    row = ("table", "NVTX_EVENTS", "NVTX_EVENTS", 2, statement)
    connection.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row)
    connection.commit()
    connection.close()
    with pytest.raises(profile.ProfileError, match=why):
        nsys.read(path)


def test_a_column_that_is_computed_is_not_read(tmp_path):
    path = profiles.write_nsys(tmp_path / "a.sqlite", without=["CUPTI_ACTIVITY_KIND_RUNTIME"])
    changed(
        path,
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, nameId AS (length(zeroblob(900000000))))",
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1)",
    )
    assert nsys.read(path).api_calls == {"(unnamed)": 1}


def pages(path, *bodies):
    """Replaces the last table of a database, which must be empty, by these pages of 512 bytes: its root and the pages
    after it."""
    data = bytearray(path.read_bytes())
    root = len(data) // 512  # number of the last page, which was written last
    data[-512:] = b"".join(body(root + number + 1) for number, body in enumerate(bodies))
    data[28:32] = (len(data) // 512).to_bytes(4, "big")
    path.write_bytes(data)


def page(kind, cells, cell, rightmost=b""):
    """Returns a page with one cell that its cell array lists `cells` times."""
    head = bytes([kind, 0, 0]) + cells.to_bytes(2, "big") + (512 - len(cell)).to_bytes(2, "big") + bytes(1) + rightmost
    body = head + (512 - len(cell)).to_bytes(2, "big") * cells
    return body + bytes(512 - len(body) - len(cell)) + cell


def below(next_page):
    """Returns an inner page whose children are all the same page, `next_page`."""
    child = next_page.to_bytes(4, "big")
    return page(5, 60, child + b"\x01", child)


def row(*values):
    """Returns a cell that contains a row of texts."""
    head = bytes([1 + len(values), *(13 + 2 * len(value) for value in values)])
    payload = head + "".join(values).encode()
    return bytes([len(payload), 1]) + payload


def varint(number):
    """Returns a number as a varint of two bytes."""
    return bytes([0x80 | number >> 7, number & 0x7F])


def a_long_text(next_page):
    """Returns a leaf page with rows of one text of 3,000 bytes, whose overflow page must link to itself."""
    head = bytes([3]) + varint(13 + 2 * 3000)
    size = len(head) + 3000
    # minimum bytes of a row kept in the leaf; this formula and those below are from SQLite's file format
    least = (512 - 12) * 32 // 255 - 23
    kept = least + (size - least) % (512 - 4)
    kept = kept if kept <= 512 - 35 else least
    return page(13, 10, varint(size) + b"\x01" + head + b"x" * (kept - len(head)) + next_page.to_bytes(4, "big"))


@pytest.mark.usefixtures("must_end")
@pytest.mark.parametrize("table", ["NVTX_EVENTS", "SOMETHING_ELSE"], ids=["read", "counted"])
def test_pages_that_lead_in_circles_hold_no_more_than_the_file(tmp_path, table):
    def written(name):
        path = tmp_path / name
        changed(path, "PRAGMA page_size = 512", "VACUUM")
        profiles.write_nsys(path, without=["NVTX_EVENTS"])
        return changed(path, f"CREATE TABLE {table} (text)")

    rows = written("rows.sqlite")
    pages(rows, *[below] * 8, lambda _: page(13, 3, row("in")))
    with pytest.raises(profile.ProfileError, match=f"{table} has more rows than fit in .* bytes"):
        nsys.read(rows)
    few = written("few.sqlite")
    pages(few, lambda _: page(13, 3, row("in")))
    assert nsys.read(few).left_out.popitem()[1] == 3
    if table == "NVTX_EVENTS":
        texts = written("texts.sqlite")
        pages(texts, a_long_text, lambda number: (number - 1).to_bytes(4, "big") + b"x" * 508)
        with pytest.raises(profile.ProfileError, match=f"{table} has more rows than fit in .* bytes"):
            nsys.read(texts)


@pytest.mark.usefixtures("must_end")
def test_no_statement_goes_on_for_ever(tmp_path):
    with database.Database(profiles.write_nsys(tmp_path / "a.sqlite")) as opened:
        for _ in range(2):
            with pytest.raises(sqlite3.OperationalError, match="interrupted"):
                opened._execute(f"{ENDLESS.format('x')} WHERE x < 0").fetchone()
        assert opened.count("NVTX_EVENTS") == 3


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
    figures = {name: m["median"] for name, m in fields.metrics(record).items() if name.startswith("profiled_")}
    assert figures["profiled_cost"] == 1.5 and len(figures) > 3


def test_several_cases_share_one_profile(tmp_path):
    seen = command.read("cupti", profiles.write(tmp_path / "rank0", "cupti"))
    for record in as_record.amend([case(), case()], seen, unprofiled=[case()]):
        assert validate.problem(record) is None
        assert record["profile"]["scope"] == "run" and record["profile"]["wall_ratio"] is None
        assert not any(name.startswith("profiled_") for name in fields.metrics(record))


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


# --- profilers' messages about themselves ---


@pytest.mark.parametrize(
    "severity, text, lost",
    [
        (3, "CUDA device 0: 123456 events were lost: buffer overflow", True),
        (2, "Not all CUDA events might have been collected.", True),
        (2, "CUDA profiling might have not been started correctly.", True),
        (2, "The application was terminated before the trace was written", True),
        (1, "12 CUPTI records were dropped", True),
        (3, "Something nobody has heard of", True),
        (2, "CUDA buffers were exhausted", True),
        (2, "Collection stopped early: file size limit reached", True),
        (2, "Process 123 exited before its data was flushed", True),
        (2, "Some CUDA events have invalid timestamps and were ignored", True),
        (2, "NVTX events dropped: 0, CUDA events dropped: 5", True),
        (1, "Number of CUPTI events produced: 12, CUPTI buffers: 2.", False),
        (1, "Number of NVTX events dropped: 0", False),
        (1, "The target process terminated; profiling ended", False),
        (2, "0 CUDA events were dropped", False),
        (2, "No NVTX events collected. Does the process use NVTX?", False),
        (2, "CPU IP/backtrace sampling not supported, disabling.", False),
        (3, "Failed to start the collection of CPU context switches", False),
        (2, "Unified Memory cannot be traced on devices that don't support peer-to-peer transfers.", False),
        (2, "Device-side CUDA Event completion trace is currently enabled.\nThis may increase overhead.", False),
    ],
)
def test_what_nsys_admits_is_missing_on_every_exit(tmp_path, capsys, severity, text, lost):
    profiles.add_diagnostics(profiles.write_nsys(tmp_path / "nsys.sqlite"), (severity, text))
    words = " ".join(text.split())
    for kind in ("text", "json", "csv"):
        code = cli.main(["profile", "nsys", str(tmp_path), "--format", kind])
        assert code == (exits.UNDECIDED if lost else exits.PASSED)
        out, err = capsys.readouterr()
        said = " ".join((out if kind == "text" else err).split())
        assert (words in said) == (severity != 1 or lost), kind
        assert said.startswith("not the whole run: nsys.sqlite says") == lost


def test_the_other_files_of_a_run_are_named_with_their_folder_and_not_all(tmp_path):
    for rank in range(30):
        (tmp_path / f"rank{rank}").mkdir()
        path = profiles.write_nsys(tmp_path / f"rank{rank}" / "nsys.sqlite")
        profiles.add_diagnostics(path, (2, "1 event was lost"))
    missing = command.read("nsys", tmp_path).missing
    assert len(missing) == 21 and "rank0/nsys.sqlite says (Warning) 1 event was lost" in missing[0]
    assert "more such reasons" in missing[-1]


@pytest.mark.parametrize("tool, line, lost", [
    ("ncu", "==ERROR== The application returned an error code (139).", True),
    ("ncu", "==WARNING== Running with uncontrolled GPU clocks. Profiling results may be inconsistent.", False),
    ("rocprofv3", "W20261128 10:00:00.1 7 buffer.cpp:12] 12 records dropped", True),
    ("rocprofv3", "the program itself dropped 12 records", False),
    ("nsys", "WARNING: 3 CUDA events were lost", True),
    ("cupti", "anything lost", False),
])  # fmt: skip
def test_what_a_profiler_admits_in_its_log_is_missing(tmp_path, tool, line, lost):
    folder = profiles.write(tmp_path / "rank0", tool)
    (folder / "log").write_text(f"the program's own words\n{line}\n")
    missing = command.read(tool, tmp_path).missing
    assert bool(missing) == lost
    assert not lost or f"rank0/log says {line}" in missing[0]


def test_a_log_that_cannot_be_read_may_admit_anything(tmp_path, monkeypatch, capsys):
    folder = profiles.write(tmp_path / "rank0", "nsys")
    (folder / "log").write_text("WARNING: 3 CUDA events were lost\n")
    open_file = inputs.open_file

    def refuse(path):
        if pathlib.Path(path).name == "log":
            raise PermissionError(13, "Permission denied", str(path))
        return open_file(path)

    monkeypatch.setattr(inputs, "open_file", refuse)
    assert cli.main(["profile", "nsys", str(tmp_path)]) == exits.UNDECIDED
    said = " ".join(capsys.readouterr().out.split())
    assert "not the whole run: rank0/log cannot be read (Permission denied), so the warnings of nsys" in said


def test_a_warning_of_ncu_that_admits_no_loss_is_a_note(tmp_path, capsys):
    warning = "==WARNING== Backing up device memory in system memory. Kernel replay might be slow."
    (tmp_path / "a.csv").write_text(f"{warning}\n{profiles.NCU}")
    assert cli.main(["profile", "ncu", str(tmp_path), "--format", "json"]) == exits.PASSED
    assert warning in " ".join(capsys.readouterr().err.split())


def test_a_sum_of_some_launches_is_left_out(tmp_path):
    seen = read_text(tmp_path, ncu.read, profiles.NCU.replace('"3,000"', '"n/a"'))
    assert "shared_accesses" not in as_record.figures(seen)
    assert "which was not available (1 row)" in seen.all_notes()[-1]


def test_perf_admits_lost_events(tmp_path):
    seen = read_text(tmp_path, perf.read, f"Processed 9 events and lost 3 chunks!\n{profiles.PERF}", "stat.perf")
    assert len(seen.missing) == 1 and "lost 3 chunks" in seen.missing[0]


def test_a_sum_over_ranks_of_which_one_was_not_counted_is_not_the_whole(tmp_path):
    for rank, value in enumerate(("7", "<not counted>", "9")):
        (tmp_path / f"rank{rank}").mkdir()
        text = f"{value};;cycles;1;100.00;;\n4;;page-faults;1;100.00;;\n"
        (tmp_path / f"rank{rank}" / "stat.perf").write_text(text)
    seen = command.read("perf", tmp_path)
    assert seen.missing == [
        "not the whole run: rank1/stat.perf lacks cycles, unlike the rest of the run, so no figure is derived from it"
    ]
    assert seen.page_faults == {"cpu": 12} and not seen.counters


@pytest.mark.parametrize("more, missing, notes", [
    ({"dropped": 7}, 1, 0),
    ({"errors": ["kernels: CUPTI_ERROR_INVALID_KIND"]}, 1, 0),
    ({"errors": ["cuptiActivityConfigureUnifiedMemoryCounter: CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED"]}, 0, 1),
])  # fmt: skip
def test_cupti_admits_what_it_did_not_count(tmp_path, more, missing, notes):
    seen = read_text(tmp_path, cupti.read, json.dumps(profiles.CUPTI | more), "a.json")
    assert (len(seen.missing), len(seen.notes)) == (missing, notes)
    assert not notes or not {"gpu_page_faults", "cpu_page_faults"} & set(as_record.figures(seen)), "zeros are no counts"


def test_bytes_of_some_copies_are_no_sum(tmp_path):
    """Reads one rank's JSON file with the sizes of copies, and another rank's CSV files without them. The sum of only
    one rank's sizes must not be shown."""
    profiles.write(tmp_path / "rank0", "rocprofv3")
    (tmp_path / "rank1").mkdir()
    for name, text in profiles.ROCM_CSV.items():
        (tmp_path / "rank1" / name).write_text(text)
    seen = command.read("rocprofv3", tmp_path)
    figures = as_record.figures(seen)
    assert figures["h2d_copies"] == (2, "1") and "h2d_bytes" not in figures
    assert "rank1 lacks sizes of d2h copies and sizes of h2d copies, unlike the rest of the run" in seen.missing[1]


def test_bytes_of_some_copies_of_one_report_are_no_sum(tmp_path):
    whole = copy.deepcopy(profiles.ROCM_JSON)
    tool = whole["rocprofiler-sdk-tool"][0]
    row = tool["buffer_records"]["memory_copy"][0]
    tool["buffer_records"]["memory_copy"].append({**row, "bytes": None})
    for rank, what in (("rank0", profiles.ROCM_JSON), ("rank1", whole)):
        (tmp_path / rank).mkdir()
        (tmp_path / rank / "out_results.json").write_text(json.dumps(what))
    seen = command.read("rocprofv3", tmp_path)
    assert "h2d_bytes" not in as_record.figures(seen) and as_record.figures(seen)["d2h_bytes"] == (8192, "B")
    [why] = seen.missing
    assert "rank1/out_results.json lacks sizes of h2d copies" in why


# --- parts that some ranks lack ---


def without_columns(*metrics):
    """Returns ncu's table of raw metrics without the given metrics."""
    lines = NCU_OF_RATES.splitlines()
    kept = [i for i, name in enumerate(lines[0].split(",")) if name.strip('"') not in metrics]
    return "".join(",".join(line.split(",")[i] for i in kept) + "\n" for line in lines)


NCU_OF_RATES = """"ID","Kernel Name","gpu__time_duration.sum","l1tex__t_bytes_pipe_lsu_mem_global_op_ld.sum",\
"l1tex__t_bytes_pipe_lsu_mem_global_op_st.sum","sm__cycles_elapsed.max",\
"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum","smsp__sass_thread_inst_executed_op_dfma_pred_on.sum",\
"launch__registers_per_thread"
"","","s","byte","byte","cycle","","inst","register/thread"
"0","gemm","2","300","100","50","20","10","32"
"""
RATES = {"kernel_time": (4, "s"), "global_rate": (200, "B/s"), "flops": (40, "1"), "registers": (32, "1"),
         "shared_accesses_per_cycle": (0.4, "1"), "flops_per_shared_access": (1, "1"), "kernels": (2, "1"),
         "global_load_bytes": (600, "B"), "global_store_bytes": (200, "B"), "shared_accesses": (40, "1")}  # fmt: skip


@pytest.mark.parametrize("metric, withheld", [
    ("gpu__time_duration.sum", {"kernel_time", "global_rate"}),
    ("l1tex__t_bytes_pipe_lsu_mem_global_op_ld.sum", {"global_load_bytes", "global_rate"}),
    ("l1tex__t_bytes_pipe_lsu_mem_global_op_st.sum", {"global_store_bytes", "global_rate"}),
    ("sm__cycles_elapsed.max", {"shared_accesses_per_cycle"}),
    ("smsp__sass_thread_inst_executed_op_dfma_pred_on.sum", {"flops", "flops_per_shared_access"}),
    ("launch__registers_per_thread", {"registers"}),
])  # fmt: skip
@pytest.mark.parametrize("is_there", [False, True])
def test_no_figure_is_made_of_what_one_rank_of_ncu_lacks(tmp_path, capsys, metric, withheld, is_there):
    """Removes a metric from one rank, so that figures that need it must be withheld. Otherwise, a rate would divide the
    bytes of two ranks by the time of one."""
    for rank in range(2):
        (tmp_path / f"rank{rank}").mkdir()
        (tmp_path / f"rank{rank}/ncu.csv").write_text(NCU_OF_RATES)
    assert as_record.figures(command.read("ncu", tmp_path)) == RATES
    column = [name.strip('"') for name in NCU_OF_RATES.split("\n")[0].split(",")].index(metric)
    fields = NCU_OF_RATES.splitlines()[-1].split(",")
    fields[column] = '"n/a"'
    lines = [*NCU_OF_RATES.splitlines()[:-1], ",".join(fields), ""]
    (tmp_path / "rank1/ncu.csv").write_text("\n".join(lines) if is_there else without_columns(metric))
    assert cli.main(["profile", "ncu", str(tmp_path)]) == exits.UNDECIDED
    said = " ".join(capsys.readouterr().out.split())
    assert f"not the whole run: rank1/ncu.csv lacks {metric}, unlike the rest of the run, so no figure" in said
    figures = as_record.figures(command.read("ncu", tmp_path))
    assert figures == {name: value for name, value in RATES.items() if name not in withheld}


def test_a_rate_of_loads_alone_is_no_rate(tmp_path):
    text = without_columns("l1tex__t_bytes_pipe_lsu_mem_global_op_st.sum")
    assert "global_rate" not in as_record.figures(read_text(tmp_path, ncu.read, text))


def test_times_that_a_rank_lacks_are_not_shown_as_zero(tmp_path, capsys):
    for rank, text in enumerate((NCU_OF_RATES, without_columns("gpu__time_duration.sum"))):
        (tmp_path / f"run{rank}.csv").write_text(text)
    assert cli.main(["profile", "ncu", str(tmp_path)]) == exits.UNDECIDED
    assert "0.0000" not in capsys.readouterr().out


@pytest.mark.parametrize("names", ["rank0/a_{} rank1/b_{}", "rank0_{} rank1_{}", "rank0/pmc_1/a_{} rank1/pmc_1/b_{}"])
@pytest.mark.parametrize("lost, withheld", [("SQ_INSTS_LDS", "shared_accesses"), ("", "tlb_misses")])
def test_a_counter_that_one_rank_of_rocprofv3_lacks_is_no_count_of_both(tmp_path, capsys, names, lost, withheld):
    """Removes a counter from one rank, so that the other rank's count must not be shown as that of both. A process
    without kernels need not have counters."""
    counters = profiles.ROCM_CSV["1_counter_collection.csv"].splitlines(keepends=True)
    for name in names.split():
        for kind in ("kernel_trace.csv", "counter_collection.csv"):
            path = tmp_path / name.format(kind)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(profiles.ROCM_CSV[f"1_{kind}"])
    (tmp_path / "rank2").mkdir()
    (tmp_path / "rank2/c_hip_api_trace.csv").write_text(profiles.ROCM_CALLS)
    whole = command.read("rocprofv3", tmp_path)
    assert not whole.missing and whole.counters == {"tlb_misses": 84, "shared_accesses": 200}
    path.write_text("".join(line for line in counters if lost and lost not in line))
    if not lost:
        path.unlink()
    assert cli.main(["profile", "rocprofv3", str(tmp_path)]) == exits.UNDECIDED
    said = " ".join(capsys.readouterr().out.split())
    assert "rank1" in said.partition(withheld)[0] and f"{withheld}, unlike the rest of the run" in said
    assert withheld not in command.read("rocprofv3", tmp_path).counters


def test_kernels_of_which_a_rank_has_counters_only_are_no_sum(tmp_path):
    for rank, kinds in ((0, ("kernel_trace", "counter_collection")), (1, ("counter_collection",))):
        (tmp_path / f"rank{rank}").mkdir()
        for kind in kinds:
            (tmp_path / f"rank{rank}" / f"1_{kind}.csv").write_text(profiles.ROCM_CSV[f"1_{kind}.csv"])
    seen = command.read("rocprofv3", tmp_path)
    [why] = seen.missing
    assert "rank1 lacks times of kernels" in why and seen.counters["tlb_misses"] == 84
    assert not {"kernels", "kernel_time"} & as_record.figures(seen).keys()


@pytest.mark.parametrize("error, lacked, withheld", [
    ("unified memory: CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED", "migrations and page faults",
     {"gpu_page_faults", "cpu_page_faults", "migrated_h2d_bytes"}),
    ("unified memory: CUPTI_ERROR_UNKNOWN", "migrations and page faults",
     {"gpu_page_faults", "cpu_page_faults", "migrated_h2d_bytes"}),
    ("contexts: CUPTI_ERROR_UNKNOWN", "migrations and page faults",
     {"gpu_page_faults", "cpu_page_faults", "migrated_h2d_bytes"}),
    ("kernels: CUPTI_ERROR_INVALID_KIND", "kernels", {"kernels", "kernel_time", "registers", "overlap"}),
    ("copies between devices: CUPTI_ERROR_INVALID_KIND", "copies between devices", {"p2p_copies", "p2p_bytes"}),
])  # fmt: skip
def test_what_cupti_refused_to_one_rank_is_no_figure_of_both(tmp_path, capsys, error, lacked, withheld):
    """Lets CUPTI refuse a kind of activity to one rank, so that the other rank's counts must not be shown as those of
    both."""
    moved = profiles.CUPTI["copies"]["h2d"]
    sound = profiles.CUPTI | {"copies": profiles.CUPTI["copies"] | {"p2p": moved}}
    for rank, more in enumerate(({}, {"errors": [error]})):
        (tmp_path / f"rank{rank}").mkdir()
        (tmp_path / f"rank{rank}/cupti.1.json").write_text(json.dumps(sound | more))
    (tmp_path / "one").mkdir()
    (tmp_path / "one/cupti.1.json").write_text(json.dumps(sound))
    alone = as_record.figures(command.read("cupti", tmp_path / "one"))
    shutil.rmtree(tmp_path / "one")
    assert cli.main(["profile", "cupti", str(tmp_path)]) == exits.UNDECIDED
    assert f"rank1/cupti.1.json lacks {lacked}, unlike" in " ".join(capsys.readouterr().out.split())
    figures = as_record.figures(command.read("cupti", tmp_path))
    assert set(figures) == set(alone) - withheld


def test_a_report_of_perf_that_counted_nothing_lacks_all(tmp_path, capsys):
    for name, value in (("alpha", "7"), ("beta", "<not counted>")):
        (tmp_path / f"{name}.perf").write_text(f"{value};;cycles;1;100.00;;\n")
    assert cli.main(["profile", "perf", str(tmp_path)]) == exits.UNDECIDED
    assert "beta.perf lacks cycles, unlike the rest of the run" in " ".join(capsys.readouterr().out.split())


def test_parts_of_events_that_ranks_of_perf_counted_are_no_sum(tmp_path):
    for rank, event in enumerate(("cycles", "cycles:u")):
        (tmp_path / f"rank{rank}").mkdir()
        (tmp_path / f"rank{rank}/stat.perf").write_text(f"7;;{event};1;100.00;;\n4;;page-faults;1;100.00;;\n")
    seen = command.read("perf", tmp_path)
    assert [why.split(", ")[0] for why in seen.missing] == [
        "not the whole run: rank0/stat.perf lacks cycles in user mode",
        "not the whole run: rank1/stat.perf lacks cycles",
    ]
    assert seen.page_faults == {"cpu": 8} and not seen.counters
