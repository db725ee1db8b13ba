"""The words of compilers' command lines that `invocation.py` has to tell apart."""

from __future__ import annotations

# Options whose value is the following word.
TAKES_VALUE = frozenset([
    "-I", "-D", "-U", "-isystem", "-iquote", "-idirafter", "-include", "-imacros", "-isysroot",
    "--sysroot", "-x", "-target", "-arch", "-MF", "-MT", "-MQ", "-MJ", "-Xclang",
    "-Xpreprocessor", "-Xassembler", "-Xlinker", "-mllvm", "-L", "-l", "-T", "-u", "-z", "-e",
    "-b", "-V", "-B", "-framework", "-F", "-aux-info", "--param", "-iprefix", "-iwithprefix",
    "-iwithprefixbefore", "-o", "-G", "-A", "-dumpbase", "-dumpdir", "-specs", "-stdlib",
    "-include-pch", "-Tbss", "-Tdata", "-Ttext", "-wrapper", "-m", "-soname", "-rpath", "-h",
    "-dynamic-linker", "-plugin", "-Map", "--version-script", "--defsym", "-rpath-link",
    "-install_name", "-undefined", "-dumpbase-ext", "-imultilib", "-serialize-diagnostics",
    "-dependency-file", "--target", "-ccc-gcc-name", "-isystem-after", "-iframework",
])  # fmt: skip
# Of these, a linker's words that a compiler reads otherwise ("-h", "-m", "-plugin").
LINKERS = frozenset(["-m", "-soname", "-rpath", "-h", "-dynamic-linker", "-plugin", "-Map",
                      "--version-script", "--defsym", "-rpath-link"])  # fmt: skip
# And those that mean something else, without a value, to a linker (`ld -x`: no local symbols).
COMPILERS = frozenset(["-x", "-V"])
LANGUAGES = {
    **dict.fromkeys((".c", ".i"), "c"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".c++", ".C", ".cp", ".CPP", ".ii"), "c++"),
}
GIVEN_LANGUAGES = {"c": "c", "c++": "c++", "cpp-output": "c", "c++-cpp-output": "c++"}
# Suffixes that compilers read as something else than an input of the linker.
OTHER_SOURCES = frozenset([".s", ".S", ".sx", ".m", ".mm", ".M", ".h", ".hh", ".hpp", ".hxx",
                            ".f", ".F", ".f90", ".go", ".d", ".cu", ".ll", ".bc"])  # fmt: skip
# What makes another thing than objects.
OTHER_MODES = frozenset([
    "-E", "-S", "-M", "-MM", "-###", "--version", "-v", "-dumpmachine", "-dumpversion",
    "-dumpfullversion", "-dumpspecs", "-print-search-dirs", "-fsyntax-only", "-emit-llvm",
    "-emit-ast", "-save-temps", "--save-temps", "--help", "-verify-pch", "-dM", "-emit-pch",
])  # fmt: skip
OTHER_PREFIXES = (
    "-save-temps=", "--save-temps=", "--analyze", "-print-", "--print-", "-fplugin", "-fdump-",
    "--help=", "-Q", "-fpch-",
)  # fmt: skip
# The compiler writes a file beside the object, or adds code that a replay would leave out.
INSTRUMENTED = (
    "-fprofile", "-fsanitize", "--coverage", "-coverage", "-ftest-coverage", "-pg",
    "-finstrument-functions", "-fxray-instrument", "-fcs-profile", "-gsplit-dwarf",
    "-fstack-usage", "-ftime-trace", "-fsave-optimization-record", "-foptimization-record",
    "-fcallgraph-info",
)  # fmt: skip
WRITES_DEPENDENCIES = ("-MD", "-MMD")
DEBUG_LEVELS = ("-O0", "-Og")
# What is for the linker alone, where a command compiles and links at once.
FOR_LINKER = frozenset([
    "-shared", "-pie", "-rdynamic", "-s", "-nostdlib", "-nostartfiles", "-nodefaultlibs", "-r",
    "-static-libgcc", "-static-libstdc++", "-static-pie", "-nolibc", "-nostdlib++",
])  # fmt: skip
FOR_LINKER_VALUED = frozenset(["-L", "-T", "-u", "-z", "-e", "-Xlinker", "-Tbss", "-Tdata",
                               "-Ttext", "-framework"])  # fmt: skip
FOR_LINKER_PREFIXES = ("-Wl,", "-L", "-fuse-ld=", "-rtlib=", "--rtlib=", "-T", "--ld-path=",
                       "-unwindlib=", "--unwindlib=")  # fmt: skip
