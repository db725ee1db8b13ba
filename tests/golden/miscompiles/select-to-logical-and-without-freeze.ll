define i1 @f(i1 %c, i1 %b) {
  %r = select i1 %c, i1 true, i1 %b
  ret i1 %r
}
; wrong
define i1 @f(i1 %c, i1 %b) {
  %r = or i1 %c, %b
  ret i1 %r
}
; right
define i1 @f(i1 %c, i1 %b) {
  %z = freeze i1 %b
  %r = or i1 %c, %z
  ret i1 %r
}
