"""Compile all kernels ahead, into ``src/trailgate/_loops.abi3.so``: no user's machine compiles them, or needs numba.

    make native         # in a checkout: a loop is used as long as its code is that which was compiled
    tools/build_loops.py --trust SRC    # for a wheel, whose code does not change: without fingerprints

numba and llvmlite compile each kernel for each level of instructions, in one process for each level. A C compiler links them with
``loops.c``, which checks the arguments of calls. Only this file uses what numba does not document: a release of numba that renames it
breaks the build, and no installation.
"""

import argparse
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# The names of levels of instructions for each machine, the best one last: as LLVM names processors.
LEVELS = {"x86_64": ("x86-64-v2", "x86-64-v3"), "aarch64": ("generic",)}
OUTPUT = Path("trailgate/_loops.abi3.so")
# Distributions add checks of their own to each compiler, whose functions old C libraries lack.
CFLAGS = [
    "-O2",
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-stack-protector",
    "-U_FORTIFY_SOURCE",
    "-Wall",
    "-Werror",
    "-Wl,--build-id=none",
    "-Wl,--wrap=pow",
    "-s",
]


def compile_level(level: str, number: int, folder: Path, *, trust: bool) -> None:
    """Write an object file with every kernel, and the rows of the C table if this is the first level."""
    import llvmlite.binding as llvm  # noqa: PLC0415  after NUMBA_CPU_NAME is set
    import numba  # noqa: PLC0415
    from numba.core.compiler_lock import global_compiler_lock  # noqa: PLC0415

    from trailgate.cli.commands.warm import kernels  # noqa: PLC0415
    from trailgate.columnar.compiling.inner_functions import fingerprint  # noqa: PLC0415
    from trailgate.columnar.compiling.numba_compiler import (  # noqa: PLC0415
        OPTIONS,
        compilable_kernel,
        numba_signature,
    )

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(
        cpu=level, features="", opt=3, reloc="pic", codemodel="default"
    )
    rows = []
    every = sorted(kernels(), key=lambda kernel: (kernel.function.__module__, kernel.__name__))
    for index, kernel in enumerate(every):
        options = {**OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        types = numba_signature(kernel.contract.values())
        dispatcher = numba.njit(**options)(compilable_kernel(kernel.function))
        dispatcher.compile(types)
        compiled = dispatcher.overloads[types]
        context, symbol = compiled.target_context, f"trailgate_{number}_{index}"
        library = context.codegen().create_library(symbol)
        library.add_linking_library(compiled.library)
        results = add_entry(library, context, compiled.fndesc, symbol)
        with global_compiler_lock:
            library.finalize()
        module = llvm.parse_bitcode(library._final_module.as_bitcode())  # noqa: SLF001  see the head
        for each in (*module.functions, *module.global_variables):
            if not each.is_declaration and each.name != symbol:
                each.linkage = "internal"
        passes = llvm.create_pass_builder(
            machine, llvm.create_pipeline_tuning_options(speed_level=3)
        )
        passes.getModulePassManager().run(module, passes)
        (folder / f"{symbol}.o").write_bytes(machine.emit_object(module))
        print(f"{level} {index + 1}/{len(every)} {kernel.__name__}", flush=True)
        name = f"{kernel.function.__module__}.{kernel.__name__}"
        digest = "" if trust else fingerprint(kernel.function)
        arguments = ", ".join(map(c_argument, kernel.contract.values()))
        is_tuple = int(isinstance(compiled.fndesc.restype, numba.types.BaseTuple))
        head = f'"{name}", "{digest}", {len(kernel.contract)}, {{{arguments}}}, "{results}", {is_tuple}'
        rows.append(head)
    (folder / f"rows_{number}.txt").write_text("\n".join(rows))


def c_argument(row: Any) -> str:
    """Return the C initializer of an argument's contract."""
    import numpy as np  # noqa: PLC0415

    if hasattr(row, "kind"):
        return f"{{'{row.kind.__name__[0]}', 0, 0}}"
    form = memoryview(np.empty(0, row.dtype)).format
    assert len(form) == 1, f"{row.dtype}: the C code compares formats of one letter"
    return f"{{'{'RW'[row.writes]}', '{form}', {row.dtype.itemsize}}}"


def add_entry(library: Any, context: Any, described: Any, symbol: str) -> str:
    """Add the C function ``int symbol(int64_t *frame)`` to a library; return the kinds of its results."""
    from llvmlite import ir  # noqa: PLC0415
    from numba.core import types  # noqa: PLC0415
    from numba.np.arrayobj import populate_array  # noqa: PLC0415

    word = ir.IntType(64)
    module = context.create_module(symbol)
    function = ir.Function(module, ir.FunctionType(ir.IntType(32), [word.as_pointer()]), symbol)
    builder = ir.IRBuilder(function.append_basic_block())
    slots = iter(range(1000))

    def slot() -> Any:
        return builder.gep(function.args[0], [ir.Constant(word, next(slots))])

    def array(kind: Any) -> Any:
        made = context.make_array(kind)(context, builder)
        item = context.get_data_type(kind.dtype)
        size = ir.Constant(word, context.get_abi_sizeof(item))
        null = ir.Constant(ir.IntType(8).as_pointer(), None)
        data = builder.inttoptr(builder.load(slot()), item.as_pointer())
        shape = [builder.load(slot())]
        populate_array(
            made, data=data, shape=shape, strides=[size], itemsize=size, meminfo=null, parent=null
        )
        return made._getvalue()  # noqa: SLF001  see the head

    def argument(kind: Any) -> Any:
        if isinstance(kind, types.Array):
            return array(kind)
        value = builder.load(slot())
        if kind == types.boolean:
            return builder.icmp_unsigned("!=", value, ir.Constant(word, 0))
        return builder.bitcast(value, ir.DoubleType()) if kind == types.float64 else value

    arguments = [argument(kind) for kind in described.argtypes]
    declared = context.declare_function(module, described)
    status, result = context.call_conv.call_function(
        builder, declared, described.restype, described.argtypes, arguments
    )
    parts = [] if described.restype == types.none else [(described.restype, result)]
    if isinstance(described.restype, types.BaseTuple):
        parts = [
            (kind, builder.extract_value(result, at)) for at, kind in enumerate(described.restype)
        ]
    kinds = ""
    for kind, value in parts:
        letter, stored = as_word(builder, kind, value)
        builder.store(stored, slot())
        kinds += letter
    builder.ret(builder.zext(status.is_error, ir.IntType(32)))
    library.add_ir_module(module)
    return kinds


def as_word(builder: Any, kind: Any, value: Any) -> tuple[str, Any]:
    """Return a result's kind, as ``loops.c`` knows it, and its 64 bits."""
    from llvmlite import ir  # noqa: PLC0415
    from numba.core import types  # noqa: PLC0415

    word = ir.IntType(64)
    if isinstance(kind, types.Float):
        assert kind.bitwidth == 64
        return "d", builder.bitcast(value, word)
    if isinstance(kind, types.Boolean):
        return "?", builder.zext(value, word)
    letter = "q" if kind.signed else "Q"
    if kind.bitwidth == 64:
        return letter, value
    return letter, (builder.sext if kind.signed else builder.zext)(value, word)


def link(levels: tuple[str, ...], folder: Path, output: Path) -> None:
    """Link the object files and ``loops.c`` to the extension. Raises CalledProcessError."""
    rows = [
        (folder / f"rows_{number}.txt").read_text().splitlines() for number in range(len(levels))
    ]
    assert all(each == rows[0] for each in rows), "the levels differ in more than their code"
    symbols = [
        [f"trailgate_{number}_{index}" for number in range(len(levels))]
        for index in range(len(rows[0]))
    ]
    names = ", ".join(f'"{level}"' for level in levels)
    table = [
        f"enum {{ COUNT = {len(symbols)}, LEVELS = {len(levels)} }};",
        f"static const char *const level_names[] = {{{names}}};",
        *(f"extern code {symbol};" for row in symbols for symbol in row),
        "static const kernel kernels[] = {",
        *(
            f"    {{{head}, {{{', '.join(row)}}}}},"
            for head, row in zip(rows[0], symbols, strict=True)
        ),
        "};",
    ]
    (folder / "table.h").write_text("\n".join(table))
    objects = [f"{symbol}.o" for row in symbols for symbol in row]
    compiler = os.environ.get("CC", "cc")
    include = sysconfig.get_paths()["include"]
    command = [compiler, *CFLAGS, f"-I{include}", "-I.", str(ROOT / "tools/loops.c"), *objects]
    made = folder / output.name
    subprocess.run([*command, "-lm", "-o", str(made)], cwd=folder, check=True)
    temporary = output.with_suffix(".new")  # a process may have loaded the old file
    temporary.write_bytes(made.read_bytes())
    temporary.replace(output)


def build(source: Path, *, trust: bool) -> Path:
    """Build the extension of the sources in a folder; return its path. Raises CalledProcessError."""
    levels = LEVELS[platform.machine()]
    with tempfile.TemporaryDirectory() as name:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")
        }
        # Sets of numba are walked in the order of hashes: a fixed seed makes two builds the same.
        environment |= {
            "PYTHONPATH": str(source),
            "NUMBA_CPU_FEATURES": "",
            "PYTHONHASHSEED": "0",
        }
        running = []
        for number, level in enumerate(levels):
            given = ["--level", str(number), "--folder", name, *(["--trust"] if trust else [])]
            running.append(
                subprocess.Popen(
                    [sys.executable, __file__, *given], env={**environment, "NUMBA_CPU_NAME": level}
                )
            )
        codes = [process.wait() for process in running]
        if any(codes):
            raise SystemExit("a level was not compiled")
        link(levels, Path(name), source / OUTPUT)
    return source / OUTPUT


def are_built() -> bool:
    """Return whether the extension in this checkout has every kernel as its code is now, and was built by these tools."""
    from trailgate.cli.commands.warm import kernels  # noqa: PLC0415  a build starts without it
    from trailgate.columnar.compiling.available_loops import native_loop  # noqa: PLC0415  as above

    output = ROOT / "src" / OUTPUT
    tools = (Path(__file__), ROOT / "tools/loops.c")
    if not output.exists() or output.stat().st_mtime < max(one.stat().st_mtime for one in tools):
        return False
    return all(native_loop(kernel.function) is not None for kernel in kernels())


def main() -> None:
    """Build the extension, or one level of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", type=Path, default=ROOT / "src", metavar="SRC")
    parser.add_argument("--trust", action="store_true", help="without fingerprints, for a wheel")
    parser.add_argument("--level", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.level is not None:
        level = LEVELS[platform.machine()][options.level]
        compile_level(level, options.level, options.folder, trust=options.trust)
        return
    if not options.trust and options.source == ROOT / "src" and are_built():
        print("all loops are native already")
        return
    output = build(options.source.resolve(), trust=options.trust)
    print(f"{output}: {output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
