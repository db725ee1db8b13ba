define i1 @f(i32 noundef %x) {
  %s = sext i32 %x to i64
  %r = icmp slt i64 %s, 100
  ret i1 %r
}
; wrong
define i1 @f(i32 noundef %x) {
  %r = icmp ult i32 %x, 100
  ret i1 %r
}
; right
define i1 @f(i32 noundef %x) {
  %r = icmp slt i32 %x, 100
  ret i1 %r
}
