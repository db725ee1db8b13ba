define i32 @f(i32 noundef %n) {
entry:
  br label %h
h:
  %i = phi i32 [ 0, %entry ], [ %j, %b ]
  %s = phi i32 [ 0, %entry ], [ %t, %b ]
  %c = icmp ult i32 %i, %n
  br i1 %c, label %b, label %e
b:
  %t = add i32 %s, 3
  %j = add i32 %i, 1
  br label %h
e:
  ret i32 %s
}
; wrong
define i32 @f(i32 noundef %n) {
  %m = sub i32 %n, 1
  %r = mul i32 %m, 3
  ret i32 %r
}
; right
define i32 @f(i32 noundef %n) {
  %r = mul i32 %n, 3
  ret i32 %r
}
