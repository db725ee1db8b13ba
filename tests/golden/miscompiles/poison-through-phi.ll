define i32 @f(i1 noundef %c, i32 noundef %x) {
entry:
  br i1 %c, label %a, label %b
a:
  %p = add i32 %x, 1
  br label %b
b:
  %r = phi i32 [ 0, %entry ], [ %p, %a ]
  ret i32 %r
}
; wrong
define i32 @f(i1 noundef %c, i32 noundef %x) {
entry:
  %p = add nuw i32 %x, 1
  br i1 %c, label %a, label %b
a:
  br label %b
b:
  %r = phi i32 [ 0, %entry ], [ %p, %a ]
  ret i32 %r
}
; right
define i32 @f(i1 noundef %c, i32 noundef %x) {
  %p = add i32 %x, 1
  %r = select i1 %c, i32 %p, i32 0
  ret i32 %r
}
