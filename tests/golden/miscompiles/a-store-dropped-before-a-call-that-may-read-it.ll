declare void @g(ptr)
define void @f(ptr noundef %p) {
  store i32 1, ptr %p
  store i32 2, ptr %p
  ret void
}
; wrong
declare void @g(ptr)
define void @f(ptr noundef %p) {
  store i32 1, ptr %p
  ret void
}
; right
declare void @g(ptr)
define void @f(ptr noundef %p) {
  store i32 2, ptr %p
  ret void
}
