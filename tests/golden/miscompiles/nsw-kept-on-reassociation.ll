define i8 @f(i8 noundef %a, i8 noundef %b, i8 noundef %c) {
  %x = add nsw i8 %a, %b
  %y = add nsw i8 %x, %c
  ret i8 %y
}
; wrong
define i8 @f(i8 noundef %a, i8 noundef %b, i8 noundef %c) {
  %x = add nsw i8 %b, %c
  %y = add nsw i8 %a, %x
  ret i8 %y
}
; right
define i8 @f(i8 noundef %a, i8 noundef %b, i8 noundef %c) {
  %x = add i8 %b, %c
  %y = add i8 %a, %x
  ret i8 %y
}
