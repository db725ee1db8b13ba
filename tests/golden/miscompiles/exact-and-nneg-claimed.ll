define i32 @f(i32 noundef %x) {
  %a = lshr i32 %x, 2
  %b = shl i32 %a, 2
  ret i32 %b
}
; wrong
define i32 @f(i32 noundef %x) {
  %a = lshr exact i32 %x, 2
  %b = shl i32 %a, 2
  ret i32 %b
}
; right
define i32 @f(i32 noundef %x) {
  %b = and i32 %x, -4
  ret i32 %b
}
