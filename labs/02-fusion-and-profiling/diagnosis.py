"""Lab 02: what is wrong with each patient? Fill this in from their traces, then: course grade 02
diagnosis.py

`cause` is one of
    "none"             nothing: the time is where the work is
    "unfused-chain"    one formula in many kernels, and each reads and writes the whole array
    "round-trip"       to another format or another device, and back
    "tiny-batches"     the same matrices read again for every few rows
    "strided-copies"   an array put into another order and back
`operator` is the one that takes most time by itself, by its name in the trace: "aten::mm", say.
"""

DIAGNOSIS = {
    "A": {"cause": "", "operator": ""},
    "B": {"cause": "", "operator": ""},
    "C": {"cause": "", "operator": ""},
    "D": {"cause": "", "operator": ""},
    "E": {"cause": "", "operator": ""},
}
