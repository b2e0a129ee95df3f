# Tests read_instructions.cmake with the listings below. READER: path of read_instructions.cmake. FOLDER: output folder.
set(cpu ${FOLDER}/cpu.txt)
set(gpu ${FOLDER}/gpu.txt)
set(found ${FOLDER}/found.cpp)
file(WRITE ${cpu} "
0000000000000000 <_ZN1n10update_u32EPj>:
   0:	lock addl $0x1,(%rax)
   4:	ret

0000000000000010 <_ZN1n10update_u64EPy>:
  10:	mov    (%rax),%rcx
  14:	lock cmpxchg %rcx,(%rdx)
  18:	lock addq $0x1,(%rax)

0000000000000020 <_ZN1n10update_f32EPf>:
  20:	mov    (%rax),%rcx

")
file(WRITE ${gpu} "
	code for sm_80
		Function : _ZN1n11update_binsIjLb0EEEvPT_
        /*0ac0*/                   RED.E.ADD.STRONG.GPU [R8], R16 ;
        /*0ad0*/                   BRA 0x10;
		Function : _ZN1n11update_binsIyLb1EEEvPT_
        /*0ac0*/                   ATOMG.E.CAS.64.STRONG.SYS PT, R6, [R8], R6, R4 ;
        /*0ac0*/                   RED.E.ADD.64.STRONG.SYS [R8], R16 ;
	code for sm_90
		Function : _ZN1n11update_binsIjLb0EEEvPT_
        /*0ac0*/                   REDG.E.ADD.STRONG.GPU desc[UR10][R8.64], R16 ;
")

function(expect_found line)
  file(READ ${found} text)
  string(FIND "${text}" "${line}" at)
  if(at LESS 0)
    message(SEND_ERROR "'${line}' is not in:\n${text}")
  endif()
endfunction()
function(read_instructions)
  execute_process(COMMAND ${CMAKE_COMMAND} -DOUTPUT=${found} ${ARGN} -P ${READER} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

read_instructions(-DBACKEND=cuda -DLISTING=${cpu} -DDEVICE_LISTING=${gpu})
expect_found("\"native add (lock addl)\",
    \"compare-and-swap loop (lock cmpxchg)\",
    \"unknown: no atomic instruction was recognised\",
    \"unknown: the function is not in the disassembly\",")
expect_found("{
      \"native add (RED.E.ADD.STRONG.GPU), native add (REDG.E.ADD.STRONG.GPU)\",
      \"unknown: the function is not in the disassembly\",
    },
    {
      \"unknown: the function is not in the disassembly\",
      \"compare-and-swap loop (ATOMG.E.CAS.64.STRONG.SYS)\",
    },")
read_instructions(-DBACKEND=cuda)
expect_found("\"unknown: there was no objdump when this was built\"")
expect_found("\"unknown: there was no cuobjdump when this was built\"")
read_instructions(-DBACKEND=cuda -DOBJDUMP=${CMAKE_COMMAND} -DOBJECT=nothing.o)
expect_found("\"unknown: objdump failed: ")
read_instructions(-DBACKEND=host)
expect_found("\"unknown: the kernels are emulated\"")
