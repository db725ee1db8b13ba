define i32 @f(ptr noundef %p, ptr noundef %q) {
  store i32 1, ptr %p
  store i32 2, ptr %q
  %r = load i32, ptr %p
  ret i32 %r
}
; wrong
define i32 @f(ptr noundef %p, ptr noundef %q) {
  store i32 1, ptr %p
  store i32 2, ptr %q
  ret i32 1
}
; right
define i32 @f(ptr noundef %p, ptr noundef %q) {
  store i32 1, ptr %p
  store i32 2, ptr %q
  %s = icmp eq ptr %p, %q
  %l = load i32, ptr %p
  %r = select i1 %s, i32 2, i32 %l
  ret i32 %r
}
