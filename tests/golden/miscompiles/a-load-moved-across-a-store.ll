define i32 @f(ptr noundef %p, ptr noundef %q, i32 noundef %v) {
  store i32 %v, ptr %q
  %r = load i32, ptr %p
  ret i32 %r
}
; wrong
define i32 @f(ptr noundef %p, ptr noundef %q, i32 noundef %v) {
  %r = load i32, ptr %p
  store i32 %v, ptr %q
  ret i32 %r
}
; right
define i32 @f(ptr noundef %p, ptr noundef %q, i32 noundef %v) {
  store i32 %v, ptr %q
  %r = load i32, ptr %p, align 1
  ret i32 %r
}
