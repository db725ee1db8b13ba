define i32 @f(i32 noundef %x) {
  %f = freeze i32 undef
  %r = sub i32 %f, %f
  ret i32 %r
}
; wrong
define i32 @f(i32 noundef %x) {
  %r = sub i32 undef, undef
  ret i32 %r
}
; right
define i32 @f(i32 noundef %x) {
  ret i32 0
}
