define i1 @f(ptr noundef %p, i64 noundef %n) {
  %q = getelementptr i8, ptr %p, i64 %n
  %r = icmp ult ptr %q, %p
  ret i1 %r
}
; wrong
define i1 @f(ptr noundef %p, i64 noundef %n) {
  %r = icmp slt i64 %n, 0
  ret i1 %r
}
; right
define i1 @f(ptr noundef %p, i64 noundef %n) {
  %a = ptrtoint ptr %p to i64
  %b = add i64 %a, %n
  %r = icmp ult i64 %b, %a
  ret i1 %r
}
