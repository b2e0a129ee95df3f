"""Small outputs of profilers in their own formats, for tests of the readers."""

import json
import sqlite3

CUPTI = {
    "schema": "isthmus.cupti/1",
    "version": 130001,
    "kernels": {
        "saxpy(float)": {"count": 4, "nanoseconds": 4000, "registers": 32, "shared_bytes": 0, "local_bytes": 0}
    },
    "copies": {
        "h2d": {"count": 8, "bytes": 8192, "nanoseconds": 2000},
        "d2h": {"count": 4, "bytes": 4096, "nanoseconds": 1000},
    },
    "migrations": {"h2d": {"count": 2, "bytes": 65536, "nanoseconds": 500}},
    "gpu_page_faults": 7, "gpu_fault_groups": 3, "cpu_page_faults": 2, "thrashing": 0, "remote_maps": 0,
    "runtime_calls": {"cudaMalloc": 2, "cudaLaunchKernel": 4},
    "driver_calls": {"cuMemAlloc_v2": 2},
    "busy_nanoseconds": 5000, "added_nanoseconds": 7000, "longest_nanoseconds": 4000, "dropped": 0,
    "errors": [],
}  # fmt: skip

# Output of `ncu --import FILE --csv --page raw`: a line of names, a line of units, and a line for each kernel.
NCU = """==PROF== Connected to process 4242
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"dram__bytes_read.sum","gpu__time_duration.sum","l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",\
"launch__registers_per_thread","sm__cycles_elapsed.max","smsp__inst_executed.sum",\
"smsp__sass_thread_inst_executed_op_fadd_pred_on.sum","smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",\
"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"
"","","","","","","","","","","","Mbyte","usecond","","register/thread","cycle","inst","inst","inst",""
"0","4242","isthmus-bench","127.0.0.1","saxpy_staged(float *)","1","7","(256, 1, 1)","(64, 1, 1)","0","9.0","2.5","10",\
"1,000","32","2000","4096","100","450","3.0"
"1","4242","isthmus-bench","127.0.0.1","saxpy_staged(float *)","1","7","(256, 1, 1)","(64, 1, 1)","0","9.0","2.5","30",\
"3,000","32","6000","4096","300","1350","7.0"
"""

PERF = """# started on Sat Nov 21 21:00:00 2026

5243;;page-faults;98000000;100.00;53.5;K/sec
5240;;minor-faults;98000000;100.00;53.5;K/sec
3;;major-faults;98000000;100.00;;
98.52;msec;task-clock;98520000;100.00;0.97;CPUs utilized
<not supported>;;dTLB-load-misses;0;100.00;;
<not counted>;;cycles:u;0;0.00;;
"""

# Kernel traces with the columns that rocprofv3 of ROCm 6.2 and of ROCm 7 write.
ROCM_KERNELS_6 = """"Kind","Agent_Id","Queue_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",\
"Start_Timestamp","End_Timestamp","Private_Segment_Size","Group_Segment_Size","Workgroup_Size_X","Workgroup_Size_Y",\
"Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"
"KERNEL_DISPATCH",4,1,74441,1,2,"saxpy(float*, float*)",14,1000,3000,0,512,256,1,1,1024,1,1
"KERNEL_DISPATCH",4,1,74441,2,2,"saxpy(float*, float*)",15,5000,6000,0,512,256,1,1,1024,1,1
"""
ROCM_KERNELS_7 = """"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",\
"Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count",\
"SGPR_Count","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"
"KERNEL_DISPATCH","Agent 7",1,0,74441,1,2,"saxpy(float*, float*)",14,1000,3000,512,0,12,4,48,256,1,1,1024,1,1
"KERNEL_DISPATCH","Agent 7",1,0,74441,2,2,"saxpy(float*, float*)",15,5000,6000,512,0,12,4,48,256,1,1,1024,1,1
"""
ROCM_COPIES = """"Kind","Direction","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp",\
"End_Timestamp"
"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE","Agent 0","Agent 7",1,0,2000
"MEMORY_COPY","DEVICE_TO_HOST","Agent 7","Agent 0",2,6000,7000
"""
ROCM_CALLS = """"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"HIP_RUNTIME_API","hipMalloc",1,1,1,10,20
"HIP_RUNTIME_API","hipMemcpyAsync",1,1,2,30,40
"HIP_RUNTIME_API","hipMemcpyAsync",1,1,3,50,60
"""
ROCM_MARKERS = ROCM_CALLS.splitlines()[0] + '\n"MARKER_CORE_API","kernel",1,1,4,1000,3000\n'
ROCM_COUNTERS = """"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size",\
"Kernel_Id",\
"Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count",\
"Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"
1,1,4,1,1,1,1024,2,"saxpy(float*, float*)",256,512,0,12,4,48,"TCP_UTCL1_TRANSLATION_MISS_sum",40.0,1000,3000
1,1,4,1,1,1,1024,2,"saxpy(float*, float*)",256,512,0,12,4,48,"SQ_INSTS_LDS",100.0,1000,3000
2,2,4,1,1,1,1024,2,"saxpy(float*, float*)",256,512,0,12,4,48,"TCP_UTCL1_TRANSLATION_MISS_sum",2.0,5000,6000
"""
ROCM_CSV = {
    "1_kernel_trace.csv": ROCM_KERNELS_7, "1_memory_copy_trace.csv": ROCM_COPIES, "1_hip_api_trace.csv": ROCM_CALLS,
    "1_marker_api_trace.csv": ROCM_MARKERS, "1_counter_collection.csv": ROCM_COUNTERS,
}  # fmt: skip

ROCM_JSON = {
    "rocprofiler-sdk-tool": [
        {
            "metadata": {"pid": 1},
            "kernel_symbols": [
                {"kernel_id": 2, "kernel_name": "_Z5saxpy", "formatted_kernel_name": "saxpy(float*, float*)",
                 "arch_vgpr_count": 12, "accum_vgpr_count": 4, "sgpr_count": 48}
            ],
            "counters": [{"id": {"handle": 77}, "name": "TCP_UTCL1_TRANSLATION_MISS_sum"}],
            "strings": {
                "buffer_records": [
                    {"kind": "NONE", "operations": []},
                    {"kind": "HIP_RUNTIME_API", "operations": ["hipMalloc", "hipMemcpyAsync"]},
                    {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE",
                                                           "MEMORY_COPY_DEVICE_TO_HOST"]},
                ]
            },
            "callback_records": {
                "counter_collection": [
                    {"dispatch_data": {}, "records": [{"counter_id": {"handle": 77}, "value": 42.0}]}
                ]
            },
            "buffer_records": {
                "kernel_dispatch": [
                    {"start_timestamp": start, "end_timestamp": end,
                     "dispatch_info": {"kernel_id": 2, "group_segment_size": 512}}
                    for start, end in ((1000, 3000), (5000, 6000))
                ],
                "memory_copy": [
                    {"kind": 2, "operation": 1, "start_timestamp": 0, "end_timestamp": 2000, "bytes": 8192},
                    {"kind": 2, "operation": 2, "start_timestamp": 6000, "end_timestamp": 7000, "bytes": 4096},
                ],
                "hip_api": [{"kind": 1, "operation": 0}, {"kind": 1, "operation": 1}, {"kind": 1, "operation": 1}],
            },
        }
    ]
}  # fmt: skip


def tables_of_nsys():
    """Returns the columns and rows of each table in an export of Nsight Systems."""
    return {
        "StringIds": ("id, value", [(1, "saxpy"), (2, "cudaMalloc_v3020"), (3, "cudaLaunchKernel_v7000"), (4, "out")]),
        "CUPTI_ACTIVITY_KIND_KERNEL": (
            "start, end, shortName, demangledName, registersPerThread, staticSharedMemory, dynamicSharedMemory",
            [(1000, 3000, 1, 1, 32, 0, 1024), (4000, 6000, 1, 1, 32, 0, 1024)],
        ),
        "CUPTI_ACTIVITY_KIND_MEMCPY": (
            "start, end, bytes, copyKind",
            [(0, 2000, 8192, 1), (6000, 7000, 4096, 2), (7000, 7500, 65536, 11)],
        ),
        "CUPTI_ACTIVITY_KIND_RUNTIME": ("start, end, nameId", [(0, 1, 2), (1, 2, 3), (2, 3, 3)]),
        "CUDA_UM_GPU_PAGE_FAULT_EVENTS": ("start, end, numberOfPageFaults", [(0, 1, 5), (1, 2, 2)]),
        "CUDA_UM_CPU_PAGE_FAULT_EVENTS": ("start, CpuInstruction", [(0, 1), (1, 1)]),
        "NVTX_EVENTS": (
            "start, end, text, textId",
            [(0, 2000, "in", None), (6000, 7000, None, 4), (1, None, "x", None)],
        ),
    }


def write_nsys(path, *, without=()):
    """Writes an export of Nsight Systems with kernels, copies both ways, a migration, page faults, calls and ranges."""
    connection = sqlite3.connect(path)
    for name, (columns, rows) in tables_of_nsys().items():
        if name not in without:
            connection.execute(f"CREATE TABLE {name} ({columns})")
            connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
    connection.commit()
    connection.close()
    return path


def add_diagnostics(path, *said):
    """Adds nsys's own messages, pairs of a severity and a text, to an export."""
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE ENUM_DIAGNOSTIC_SEVERITY_LEVEL (id, name, label)")
    labels = [(1, "Information"), (2, "Warning"), (3, "Error")]
    connection.executemany("INSERT INTO ENUM_DIAGNOSTIC_SEVERITY_LEVEL VALUES (?, '', ?)", labels)
    connection.execute("CREATE TABLE DIAGNOSTIC_EVENT (timestamp, severity, text)")
    connection.executemany("INSERT INTO DIAGNOSTIC_EVENT VALUES (0, ?, ?)", said)
    connection.commit()
    connection.close()
    return path


def write_rocpd(path, *, suffix="_00006409_00d1_70d1_a5cb_b5ab88214544", views=True,
                kernel="saxpy(float*, float*)"):  # fmt: skip
    """Writes a rocpd database, whose tables have names with the suffix of a process and whose views do not."""
    tables = {
        "rocpd_string": (
            "id, string",
            [(1, "MEMORY_COPY_HOST_TO_DEVICE"), (2, "MEMORY_COPY_DEVICE_TO_HOST"), (3, "hipMalloc"), (4, "kernel"),
             (5, "hipMemcpyAsync")],
        ),
        "rocpd_info_kernel_symbol": (
            "id, kernel_name, display_name, arch_vgpr_count, accum_vgpr_count, sgpr_count",
            [(2, "_Z5saxpy", kernel, 12, 4, 48)],
        ),
        "rocpd_kernel_dispatch": ("id, start, end, kernel_id, group_segment_size",
                                  [(1, 1000, 3000, 2, 512), (2, 5000, 6000, 2, 512)]),
        "rocpd_memory_copy": ("id, start, end, name_id, size", [(1, 0, 2000, 1, 8192), (2, 6000, 7000, 2, 4096)]),
        "rocpd_region": ("id, start, end, name_id",
                         [(1, 10, 20, 3), (2, 30, 40, 5), (3, 50, 60, 5), (4, 1000, 3000, 4)]),
        "rocpd_info_pmc": ("id, name", [(9, "TCP_UTCL1_TRANSLATION_MISS_sum")]),
        "rocpd_pmc_event": ("id, event_id, pmc_id, value", [(1, 1, 9, 40.0), (2, 2, 9, 2.0)]),
    }  # fmt: skip
    connection = sqlite3.connect(path)
    for name, (columns, rows) in tables.items():
        connection.execute(f"CREATE TABLE {name}{suffix} ({columns})")
        connection.executemany(f"INSERT INTO {name}{suffix} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        if views and suffix:
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {name}{suffix}")
    connection.commit()
    connection.close()
    return path


def write(folder, tool):
    """Writes a profiler's output for one rank."""
    folder.mkdir(parents=True, exist_ok=True)
    if tool == "nsys":
        write_nsys(folder / "nsys.sqlite")
    elif tool == "ncu":
        (folder / "ncu.csv").write_text(NCU)
    elif tool == "perf":
        (folder / "stat.perf").write_text(PERF)
    elif tool == "cupti":
        (folder / "cupti.1.json").write_text(json.dumps(CUPTI))
    else:
        (folder / "out_results.json").write_text(json.dumps(ROCM_JSON))
    return folder
