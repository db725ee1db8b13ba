define i32 @f(ptr noundef %p, i1 noundef %c) {
entry:
  br i1 %c, label %in, label %out
in:
  %v = load i32, ptr %p
  br label %out
out:
  %r = phi i32 [ 0, %entry ], [ %v, %in ]
  ret i32 %r
}
; wrong
define i32 @f(ptr noundef %p, i1 noundef %c) {
  %v = load i32, ptr %p
  %r = select i1 %c, i32 %v, i32 0
  ret i32 %r
}
; right
define i32 @f(ptr noundef %p, i1 noundef %c) {
entry:
  br i1 %c, label %in, label %out
out:
  ret i32 0
in:
  %v = load i32, ptr %p
  ret i32 %v
}
