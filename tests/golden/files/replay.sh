# src/codec.c: x86_64-unknown-linux-gnu, LLVM 22.1.8
# 2 functions have recipes of their own, which need `planish opt --replay`
clang --target=x86_64-unknown-linux-gnu -Os -Iinclude '-DNAME="x y"' -fno-omit-frame-pointer -momit-leaf-frame-pointer -Xclang -disable-llvm-passes -emit-llvm -c src/codec.c -o codec.0.bc
opt '-passes=require<profile-summary>,function(gvn-sink,simplifycfg),default<Oz>' codec.0.bc -o codec.1.bc
clang --target=x86_64-unknown-linux-gnu -Os -Iinclude '-DNAME="x y"' -fno-omit-frame-pointer -momit-leaf-frame-pointer -Xclang -disable-llvm-passes -mllvm -disable-lsr -mllvm -regalloc=basic -c codec.1.bc -o codec.o
