"""The projects of `bench/builds.py`: Debian's sources, their own build systems, their own tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Project:
    """How a project is built and tested; $CC, $CXX and $FLAGS are given, $TREE is the folder.

    name       of the Debian source package
    system     its build system
    configure  once a folder, recorded but not timed
    build      what is timed
    program    what is weighed, and tuned as one module
    test       the project's own test suite, on the program that lies there
    clean      back to what `configure` left
    prepare    before all else, unrecorded: patches, generated files
    """

    name: str
    system: str
    configure: str
    build: str
    program: str
    test: str
    clean: str = "make -s clean"
    prepare: str = "true"


_BZIP2 = 'make -s CC="$CC" CFLAGS="$FLAGS -D_FILE_OFFSET_BITS=64"'
_AUTOTOOLS = 'sh ./configure -q --disable-dependency-tracking CC="$CC" CFLAGS="$FLAGS"'
_CMAKE = '-DCMAKE_BUILD_TYPE=None -DCMAKE_C_COMPILER="$CC" -DCMAKE_C_FLAGS="$FLAGS"'
_MESON = 'CC="$CC" CXX="$CXX" CFLAGS="$FLAGS" CXXFLAGS="$FLAGS" meson setup -Dbuildtype=plain'
_NINJA = ("ninja -C build", "ninja -C build -t clean")
# libyaml's own suite needs files from elsewhere; its programs check themselves on its examples:
# run-emitter and run-dumper parse what they have emitted, and compare.
_YAML = (
    "make -s -C tests check > t.log 2>&1 || { cat t.log; exit 1; }; "
    "for p in scanner parser loader emitter dumper; do for f in examples/*.yaml; do "
    'tests/run-$p $f > t.log 2>&1 && ! grep -q FAIL t.log || { cat t.log; exit 1; }; done; done'
)  # fmt: skip
# `-o`: what the tests need lies there already, and is not made again.
_LZ4 = (
    "for p in lz4 unlz4 lz4cat; do cp build/meson/programs/lz4 programs/$p; done; "
    "cp build/meson/tests/datagen tests && make -s -C tests -o lz4 -o datagen -o unlz4 -o lz4cat "
    "test-lz4-essentials test-lz4-opt-parser test-lz4-skippable > t.log 2>&1 && "
    "for t in fuzzer frametest; do build/meson/tests/$t -s1 -i100 > t.log 2>&1 || exit 1; done"
)  # fmt: skip
_MBEDTLS_SUITES = (
    "aes.cbc", "aes.xts", "arc4", "asn1parse", "base64", "bignum.generated", "bignum.misc", "ccm",
    "chacha20", "cipher.aes", "ctr_drbg", "des", "ecdsa", "ecp", "gcm.aes128_de",
    "hkdf", "md", "pem", "pk", "pkcs1_v15", "pkcs5", "pkparse", "rsa", "shax", "ssl", "x509parse",
)  # fmt: skip

PROJECTS = (
    Project(
        # Debian links the program with the shared library; here it is one program.
        "bzip2", "make", "true",
        f"{_BZIP2} libbz2.a bzip2.o && $CC $FLAGS bzip2.o libbz2.a -o bzip2", "bzip2",
        f"{_BZIP2} -o bzip2 test > t.log 2>&1 || {{ tail -30 t.log; exit 1; }}",
    ),
    Project(
        "figlet", "make", "true", 'make -s CC="$CC" LD="$CC" CFLAGS="$FLAGS" figlet', "figlet",
        "sh run-tests.sh fonts > t.log 2>&1 || { tail -20 t.log; exit 1; }",
    ),
    Project(
        # Weighed is its example: the test program is 5 MB of buffers.
        "http-parser", "make", "true",
        'make -s CC="$CC" CFLAGS_FAST="$FLAGS -I." test_fast && '
        "$CC $FLAGS -I. -c contrib/parsertrace.c -o p.o && $CC p.o http_parser.o -o parsertrace",
        "parsertrace",
        "./test_fast > t.log && printf 'GET /a HTTP/1.1\\r\\nHost: b\\r\\n\\r\\n' > t.in && "
        "./parsertrace -q t.in | grep -q 'Header field: Host'",
    ),
    Project(
        "xxhash", "make", "true", 'make -s CC="$CC" CFLAGS="$FLAGS" xxhsum', "xxhsum",
        "cp xxhsum xxhsum.kept && for t in check test-xxhsum-c; do "
        'make -s CC="$CC" CFLAGS="$FLAGS" -o xxhsum $t > t.log 2>&1 || { tail t.log; exit 1; }; '
        "done; cmp xxhsum xxhsum.kept",
    ),
    Project(
        "lz4", "meson",
        f"{_MESON} -Dprograms=true -Dtests=true -Ddefault_library=static contrib/meson build",
        _NINJA[0], "build/meson/programs/lz4", _LZ4, _NINJA[1],
    ),
    Project(
        # The manual's date is newer than the manual, for which texinfo would be needed.
        "gzip", "autotools", _AUTOTOOLS, "make -s MAKEINFO=true", "gzip",
        "make -s MAKEINFO=true -o gzip check > t.log 2>&1 || { tail -30 t.log; exit 1; }",
    ),
    Project(
        "libyaml", "autotools and libtool", f"{_AUTOTOOLS} --disable-shared",
        "make -s && make -s -C tests run-scanner run-parser run-loader run-emitter run-dumper "
        "test-version test-reader", "tests/run-dumper", _YAML,
        prepare="autoreconf -fi > /dev/null 2>&1",
    ),
    Project(
        "jansson", "cmake and make",
        f"cmake -S . -B build {_CMAKE} -DJANSSON_BUILD_DOCS=OFF -DJANSSON_EXAMPLES=OFF",
        "make -s -C build", "build/bin/json_process", "ctest --test-dir build -j 2 > t.log || "
        "{ tail -30 t.log; exit 1; }", "make -s -C build clean",
    ),
    Project(
        "tinyxml2", "meson, C++",
        # its flags in the environment are lost where it is given arguments of its own
        f'{_MESON} -Dtests=true -Ddefault_library=static -Dcpp_args="-fPIC $FLAGS" . build',
        _NINJA[0],
        "build/xmltest", "cd build && mkdir -p resources/out && ./xmltest > t.log || "
        "{ tail -30 t.log; exit 1; }", _NINJA[1],
    ),
    Project(
        "mbedtls", "cmake and ninja",
        f"cmake -G Ninja -S . -B build {_CMAKE} -DENABLE_TESTING=ON -DENABLE_PROGRAMS=ON "
        # Its own -Werror knows no clang as new as this one.
        "-DMBEDTLS_FATAL_WARNINGS=OFF",
        "ninja -C build selftest " + " ".join(f"test_suite_{s}" for s in _MBEDTLS_SUITES),
        "build/programs/test/selftest",
        "build/programs/test/selftest > t.log 2>&1 || { tail -30 t.log; exit 1; }; cd build/tests; "
        "for t in " + " ".join(_MBEDTLS_SUITES) + "; do ./test_suite_$t > t.log 2>&1 || "
        "{ tail -30 t.log; exit 1; }; done", _NINJA[1],
    ),
)  # fmt: skip
