define i32 @f(i32 noundef %x, i32 noundef %n) {
  %m = and i32 %n, 31
  %l = shl i32 %x, %m
  %k = sub i32 32, %m
  %j = and i32 %k, 31
  %h = lshr i32 %x, %j
  %r = or i32 %l, %h
  ret i32 %r
}
; wrong
define i32 @f(i32 noundef %x, i32 noundef %n) {
  %m = and i32 %n, 31
  %l = shl i32 %x, %m
  %k = sub i32 32, %m
  %h = lshr i32 %x, %k
  %r = or i32 %l, %h
  ret i32 %r
}
; right
declare i32 @llvm.fshl.i32(i32, i32, i32)
define i32 @f(i32 noundef %x, i32 noundef %n) {
  %r = call i32 @llvm.fshl.i32(i32 %x, i32 %x, i32 %n)
  ret i32 %r
}
