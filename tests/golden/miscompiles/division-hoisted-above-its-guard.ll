define i32 @f(i32 noundef %a, i32 noundef %b) {
entry:
  %z = icmp eq i32 %b, 0
  br i1 %z, label %out, label %in
in:
  %q = udiv i32 %a, %b
  br label %out
out:
  %r = phi i32 [ 0, %entry ], [ %q, %in ]
  ret i32 %r
}
; wrong
define i32 @f(i32 noundef %a, i32 noundef %b) {
  %z = icmp eq i32 %b, 0
  %q = udiv i32 %a, %b
  %r = select i1 %z, i32 0, i32 %q
  ret i32 %r
}
; right
define i32 @f(i32 noundef %a, i32 noundef %b) {
  %z = icmp eq i32 %b, 0
  %s = select i1 %z, i32 1, i32 %b
  %q = udiv i32 %a, %s
  %r = select i1 %z, i32 0, i32 %q
  ret i32 %r
}
