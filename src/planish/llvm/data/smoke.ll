
%struct.point = type { i32, i32, ptr }

@counter = internal global i32 0, align 4
@table = internal global [16 x i32] [i32 3, i32 1, i32 4, i32 1, i32 5, i32 9, i32 2, i32 6, i32 5, i32 3, i32 5, i32 8, i32 9, i32 7, i32 9, i32 3], align 16
@names = internal global [4 x ptr] [ptr @.str.1, ptr @.str.2, ptr @.str.3, ptr @.str.4], align 16
@.str = private unnamed_addr constant [16 x i8] c"%d %d %d %f %s\0A\00", align 1
@.str.1 = private unnamed_addr constant [5 x i8] c"zero\00", align 1
@.str.2 = private unnamed_addr constant [4 x i8] c"one\00", align 1
@.str.3 = private unnamed_addr constant [4 x i8] c"two\00", align 1
@.str.4 = private unnamed_addr constant [6 x i8] c"three\00", align 1

; Function Attrs: minsize nounwind optsize uwtable
define dso_local i32 @sum(ptr noundef %0, i32 noundef %1) #0 {
  %3 = alloca ptr, align 8
  %4 = alloca i32, align 4
  %5 = alloca i32, align 4
  %6 = alloca i32, align 4
  store ptr %0, ptr %3, align 8, !tbaa !9
  store i32 %1, ptr %4, align 4, !tbaa !5
  call void @llvm.lifetime.start.p0(ptr %5) #7
  store i32 0, ptr %5, align 4, !tbaa !5
  call void @llvm.lifetime.start.p0(ptr %6) #7
  store i32 0, ptr %6, align 4, !tbaa !5
  br label %7

7:                                                ; preds = %20, %2
  %8 = load i32, ptr %6, align 4, !tbaa !5
  %9 = load i32, ptr %4, align 4, !tbaa !5
  %10 = icmp slt i32 %8, %9
  br i1 %10, label %12, label %11

11:                                               ; preds = %7
  call void @llvm.lifetime.end.p0(ptr %6) #7
  br label %23

12:                                               ; preds = %7
  %13 = load ptr, ptr %3, align 8, !tbaa !9
  %14 = load i32, ptr %6, align 4, !tbaa !5
  %15 = sext i32 %14 to i64
  %16 = getelementptr inbounds i32, ptr %13, i64 %15
  %17 = load i32, ptr %16, align 4, !tbaa !5
  %18 = load i32, ptr %5, align 4, !tbaa !5
  %19 = add nsw i32 %18, %17
  store i32 %19, ptr %5, align 4, !tbaa !5
  br label %20

20:                                               ; preds = %12
  %21 = load i32, ptr %6, align 4, !tbaa !5
  %22 = add nsw i32 %21, 1
  store i32 %22, ptr %6, align 4, !tbaa !5
  br label %7, !llvm.loop !12

23:                                               ; preds = %11
  %24 = load i32, ptr %5, align 4, !tbaa !5
  call void @llvm.lifetime.end.p0(ptr %5) #7
  ret i32 %24
}

; Function Attrs: nocallback nofree nosync nounwind willreturn memory(argmem: readwrite)
declare void @llvm.lifetime.start.p0(ptr captures(none)) #1

; Function Attrs: nocallback nofree nosync nounwind willreturn memory(argmem: readwrite)
declare void @llvm.lifetime.end.p0(ptr captures(none)) #1

; Function Attrs: minsize nounwind optsize uwtable
define dso_local void @matmul(ptr noalias noundef %0, ptr noundef %1, ptr noundef %2, i32 noundef %3) #0 {
  %5 = alloca ptr, align 8
  %6 = alloca ptr, align 8
  %7 = alloca ptr, align 8
  %8 = alloca i32, align 4
  %9 = alloca i32, align 4
  %10 = alloca i32, align 4
  %11 = alloca i32, align 4
  %12 = alloca float, align 4
  %13 = alloca i32, align 4
  store ptr %0, ptr %5, align 8, !tbaa !14
  store ptr %1, ptr %6, align 8, !tbaa !14
  store ptr %2, ptr %7, align 8, !tbaa !14
  store i32 %3, ptr %8, align 4, !tbaa !5
  call void @llvm.lifetime.start.p0(ptr %9) #7
  store i32 0, ptr %9, align 4, !tbaa !5
  br label %14

14:                                               ; preds = %69, %4
  %15 = load i32, ptr %9, align 4, !tbaa !5
  %16 = load i32, ptr %8, align 4, !tbaa !5
  %17 = icmp slt i32 %15, %16
  br i1 %17, label %19, label %18

18:                                               ; preds = %14
  store i32 2, ptr %10, align 4
  call void @llvm.lifetime.end.p0(ptr %9) #7
  br label %72

19:                                               ; preds = %14
  call void @llvm.lifetime.start.p0(ptr %11) #7
  store i32 0, ptr %11, align 4, !tbaa !5
  br label %20

20:                                               ; preds = %65, %19
  %21 = load i32, ptr %11, align 4, !tbaa !5
  %22 = load i32, ptr %8, align 4, !tbaa !5
  %23 = icmp slt i32 %21, %22
  br i1 %23, label %25, label %24

24:                                               ; preds = %20
  store i32 5, ptr %10, align 4
  call void @llvm.lifetime.end.p0(ptr %11) #7
  br label %68

25:                                               ; preds = %20
  call void @llvm.lifetime.start.p0(ptr %12) #7
  store float 0.000000e+00, ptr %12, align 4, !tbaa !16
  call void @llvm.lifetime.start.p0(ptr %13) #7
  store i32 0, ptr %13, align 4, !tbaa !5
  br label %26

26:                                               ; preds = %52, %25
  %27 = load i32, ptr %13, align 4, !tbaa !5
  %28 = load i32, ptr %8, align 4, !tbaa !5
  %29 = icmp slt i32 %27, %28
  br i1 %29, label %31, label %30

30:                                               ; preds = %26
  store i32 8, ptr %10, align 4
  call void @llvm.lifetime.end.p0(ptr %13) #7
  br label %55

31:                                               ; preds = %26
  %32 = load ptr, ptr %6, align 8, !tbaa !14
  %33 = load i32, ptr %9, align 4, !tbaa !5
  %34 = load i32, ptr %8, align 4, !tbaa !5
  %35 = mul nsw i32 %33, %34
  %36 = load i32, ptr %13, align 4, !tbaa !5
  %37 = add nsw i32 %35, %36
  %38 = sext i32 %37 to i64
  %39 = getelementptr inbounds float, ptr %32, i64 %38
  %40 = load float, ptr %39, align 4, !tbaa !16
  %41 = load ptr, ptr %7, align 8, !tbaa !14
  %42 = load i32, ptr %13, align 4, !tbaa !5
  %43 = load i32, ptr %8, align 4, !tbaa !5
  %44 = mul nsw i32 %42, %43
  %45 = load i32, ptr %11, align 4, !tbaa !5
  %46 = add nsw i32 %44, %45
  %47 = sext i32 %46 to i64
  %48 = getelementptr inbounds float, ptr %41, i64 %47
  %49 = load float, ptr %48, align 4, !tbaa !16
  %50 = load float, ptr %12, align 4, !tbaa !16
  %51 = call float @llvm.fmuladd.f32(float %40, float %49, float %50)
  store float %51, ptr %12, align 4, !tbaa !16
  br label %52

52:                                               ; preds = %31
  %53 = load i32, ptr %13, align 4, !tbaa !5
  %54 = add nsw i32 %53, 1
  store i32 %54, ptr %13, align 4, !tbaa !5
  br label %26, !llvm.loop !18

55:                                               ; preds = %30
  %56 = load float, ptr %12, align 4, !tbaa !16
  %57 = load ptr, ptr %5, align 8, !tbaa !14
  %58 = load i32, ptr %9, align 4, !tbaa !5
  %59 = load i32, ptr %8, align 4, !tbaa !5
  %60 = mul nsw i32 %58, %59
  %61 = load i32, ptr %11, align 4, !tbaa !5
  %62 = add nsw i32 %60, %61
  %63 = sext i32 %62 to i64
  %64 = getelementptr inbounds float, ptr %57, i64 %63
  store float %56, ptr %64, align 4, !tbaa !16
  call void @llvm.lifetime.end.p0(ptr %12) #7
  br label %65

65:                                               ; preds = %55
  %66 = load i32, ptr %11, align 4, !tbaa !5
  %67 = add nsw i32 %66, 1
  store i32 %67, ptr %11, align 4, !tbaa !5
  br label %20, !llvm.loop !19

68:                                               ; preds = %24
  br label %69

69:                                               ; preds = %68
  %70 = load i32, ptr %9, align 4, !tbaa !5
  %71 = add nsw i32 %70, 1
  store i32 %71, ptr %9, align 4, !tbaa !5
  br label %14, !llvm.loop !20

72:                                               ; preds = %18
  ret void
}

; Function Attrs: nocallback nocreateundeforpoison nofree nosync nounwind speculatable willreturn memory(none)
declare float @llvm.fmuladd.f32(float, float, float) #2

; Function Attrs: minsize nounwind optsize uwtable
define dso_local i32 @classify(i32 noundef %0) #0 {
  %2 = alloca i32, align 4
  %3 = alloca i32, align 4
  store i32 %0, ptr %3, align 4, !tbaa !5
  %4 = load i32, ptr %3, align 4, !tbaa !5
  switch i32 %4, label %14 [
    i32 0, label %5
    i32 1, label %6
    i32 2, label %7
    i32 3, label %8
    i32 4, label %9
    i32 9, label %10
  ]

5:                                                ; preds = %1
  store i32 7, ptr %2, align 4
  br label %17

6:                                                ; preds = %1
  store i32 12, ptr %2, align 4
  br label %17

7:                                                ; preds = %1
  store i32 9, ptr %2, align 4
  br label %17

8:                                                ; preds = %1
  store i32 44, ptr %2, align 4
  br label %17

9:                                                ; preds = %1
  store i32 2, ptr %2, align 4
  br label %17

10:                                               ; preds = %1
  %11 = load i32, ptr @counter, align 4, !tbaa !5
  %12 = add nsw i32 %11, 1
  store i32 %12, ptr @counter, align 4, !tbaa !5
  %13 = call i32 @sum(ptr noundef @table, i32 noundef 16) #8
  store i32 %13, ptr %2, align 4
  br label %17

14:                                               ; preds = %1
  %15 = load i32, ptr %3, align 4, !tbaa !5
  %16 = call i32 @clamp(i32 noundef %15, i32 noundef -5, i32 noundef 100) #8
  store i32 %16, ptr %2, align 4
  br label %17

17:                                               ; preds = %14, %10, %9, %8, %7, %6, %5
  %18 = load i32, ptr %2, align 4
  ret i32 %18
}

; Function Attrs: minsize nounwind optsize uwtable
define internal i32 @clamp(i32 noundef %0, i32 noundef %1, i32 noundef %2) #0 {
  %4 = alloca i32, align 4
  %5 = alloca i32, align 4
  %6 = alloca i32, align 4
  store i32 %0, ptr %4, align 4, !tbaa !5
  store i32 %1, ptr %5, align 4, !tbaa !5
  store i32 %2, ptr %6, align 4, !tbaa !5
  %7 = load i32, ptr %4, align 4, !tbaa !5
  %8 = load i32, ptr %5, align 4, !tbaa !5
  %9 = icmp slt i32 %7, %8
  br i1 %9, label %10, label %12

10:                                               ; preds = %3
  %11 = load i32, ptr %5, align 4, !tbaa !5
  br label %22

12:                                               ; preds = %3
  %13 = load i32, ptr %4, align 4, !tbaa !5
  %14 = load i32, ptr %6, align 4, !tbaa !5
  %15 = icmp sgt i32 %13, %14
  br i1 %15, label %16, label %18

16:                                               ; preds = %12
  %17 = load i32, ptr %6, align 4, !tbaa !5
  br label %20

18:                                               ; preds = %12
  %19 = load i32, ptr %4, align 4, !tbaa !5
  br label %20

20:                                               ; preds = %18, %16
  %21 = phi i32 [ %17, %16 ], [ %19, %18 ]
  br label %22

22:                                               ; preds = %20, %10
  %23 = phi i32 [ %11, %10 ], [ %21, %20 ]
  ret i32 %23
}

; Function Attrs: minsize nounwind optsize uwtable
define dso_local ptr @reverse(ptr noundef %0) #0 {
  %2 = alloca ptr, align 8
  %3 = alloca ptr, align 8
  %4 = alloca ptr, align 8
  store ptr %0, ptr %2, align 8, !tbaa !21
  call void @llvm.lifetime.start.p0(ptr %3) #7
  store ptr null, ptr %3, align 8, !tbaa !21
  br label %5

5:                                                ; preds = %8, %1
  %6 = load ptr, ptr %2, align 8, !tbaa !21
  %7 = icmp ne ptr %6, null
  br i1 %7, label %8, label %17

8:                                                ; preds = %5
  call void @llvm.lifetime.start.p0(ptr %4) #7
  %9 = load ptr, ptr %2, align 8, !tbaa !21
  %10 = getelementptr inbounds nuw %struct.point, ptr %9, i32 0, i32 2
  %11 = load ptr, ptr %10, align 8, !tbaa !23
  store ptr %11, ptr %4, align 8, !tbaa !21
  %12 = load ptr, ptr %3, align 8, !tbaa !21
  %13 = load ptr, ptr %2, align 8, !tbaa !21
  %14 = getelementptr inbounds nuw %struct.point, ptr %13, i32 0, i32 2
  store ptr %12, ptr %14, align 8, !tbaa !23
  %15 = load ptr, ptr %2, align 8, !tbaa !21
  store ptr %15, ptr %3, align 8, !tbaa !21
  %16 = load ptr, ptr %4, align 8, !tbaa !21
  store ptr %16, ptr %2, align 8, !tbaa !21
  call void @llvm.lifetime.end.p0(ptr %4) #7
  br label %5, !llvm.loop !25

17:                                               ; preds = %5
  %18 = load ptr, ptr %3, align 8, !tbaa !21
  call void @llvm.lifetime.end.p0(ptr %3) #7
  ret ptr %18
}

; Function Attrs: minsize nounwind optsize uwtable
define dso_local i64 @copy_name(ptr noundef %0, i32 noundef %1) #0 {
  %3 = alloca ptr, align 8
  %4 = alloca i32, align 4
  %5 = alloca ptr, align 8
  %6 = alloca i64, align 8
  %7 = alloca i64, align 8
  store ptr %0, ptr %3, align 8, !tbaa !26
  store i32 %1, ptr %4, align 4, !tbaa !5
  call void @llvm.lifetime.start.p0(ptr %5) #7
  %8 = load i32, ptr %4, align 4, !tbaa !5
  %9 = and i32 %8, 3
  %10 = sext i32 %9 to i64
  %11 = getelementptr inbounds [4 x ptr], ptr @names, i64 0, i64 %10
  %12 = load ptr, ptr %11, align 8, !tbaa !26
  store ptr %12, ptr %5, align 8, !tbaa !26
  call void @llvm.lifetime.start.p0(ptr %6) #7
  %13 = load ptr, ptr %5, align 8, !tbaa !26
  %14 = call i64 @strlen(ptr noundef %13) #9
  store i64 %14, ptr %6, align 8, !tbaa !28
  %15 = load ptr, ptr %3, align 8, !tbaa !26
  %16 = load ptr, ptr %5, align 8, !tbaa !26
  %17 = load i64, ptr %6, align 8, !tbaa !28
  %18 = add i64 %17, 1
  call void @llvm.memcpy.p0.p0.i64(ptr align 1 %15, ptr align 1 %16, i64 %18, i1 false)
  call void @llvm.lifetime.start.p0(ptr %7) #7
  store i64 0, ptr %7, align 8, !tbaa !28
  br label %19

19:                                               ; preds = %32, %2
  %20 = load i64, ptr %7, align 8, !tbaa !28
  %21 = load i64, ptr %6, align 8, !tbaa !28
  %22 = icmp ult i64 %20, %21
  br i1 %22, label %24, label %23

23:                                               ; preds = %19
  call void @llvm.lifetime.end.p0(ptr %7) #7
  br label %35

24:                                               ; preds = %19
  %25 = load ptr, ptr %3, align 8, !tbaa !26
  %26 = load i64, ptr %7, align 8, !tbaa !28
  %27 = getelementptr inbounds nuw i8, ptr %25, i64 %26
  %28 = load i8, ptr %27, align 1, !tbaa !30
  %29 = sext i8 %28 to i32
  %30 = xor i32 %29, 32
  %31 = trunc i32 %30 to i8
  store i8 %31, ptr %27, align 1, !tbaa !30
  br label %32

32:                                               ; preds = %24
  %33 = load i64, ptr %7, align 8, !tbaa !28
  %34 = add i64 %33, 1
  store i64 %34, ptr %7, align 8, !tbaa !28
  br label %19, !llvm.loop !31

35:                                               ; preds = %23
  %36 = load i64, ptr %6, align 8, !tbaa !28
  call void @llvm.lifetime.end.p0(ptr %6) #7
  call void @llvm.lifetime.end.p0(ptr %5) #7
  ret i64 %36
}

; Function Attrs: minsize nounwind optsize
declare i64 @strlen(ptr noundef) #3

; Function Attrs: nocallback nofree nounwind willreturn memory(argmem: readwrite)
declare void @llvm.memcpy.p0.p0.i64(ptr noalias writeonly captures(none), ptr noalias readonly captures(none), i64, i1 immarg) #4

; Function Attrs: minsize nounwind optsize uwtable
define dso_local i32 @search(ptr noundef %0, i32 noundef %1, i32 noundef %2) #0 {
  %4 = alloca i32, align 4
  %5 = alloca ptr, align 8
  %6 = alloca i32, align 4
  %7 = alloca i32, align 4
  %8 = alloca i32, align 4
  %9 = alloca i32, align 4
  %10 = alloca i32, align 4
  %11 = alloca i32, align 4
  store ptr %0, ptr %5, align 8, !tbaa !9
  store i32 %1, ptr %6, align 4, !tbaa !5
  store i32 %2, ptr %7, align 4, !tbaa !5
  call void @llvm.lifetime.start.p0(ptr %8) #7
  store i32 0, ptr %8, align 4, !tbaa !5
  call void @llvm.lifetime.start.p0(ptr %9) #7
  %12 = load i32, ptr %6, align 4, !tbaa !5
  %13 = sub nsw i32 %12, 1
  store i32 %13, ptr %9, align 4, !tbaa !5
  br label %14

14:                                               ; preds = %51, %3
  %15 = load i32, ptr %8, align 4, !tbaa !5
  %16 = load i32, ptr %9, align 4, !tbaa !5
  %17 = icmp sle i32 %15, %16
  br i1 %17, label %18, label %52

18:                                               ; preds = %14
  call void @llvm.lifetime.start.p0(ptr %10) #7
  %19 = load i32, ptr %8, align 4, !tbaa !5
  %20 = load i32, ptr %9, align 4, !tbaa !5
  %21 = load i32, ptr %8, align 4, !tbaa !5
  %22 = sub nsw i32 %20, %21
  %23 = sdiv i32 %22, 2
  %24 = add nsw i32 %19, %23
  store i32 %24, ptr %10, align 4, !tbaa !5
  %25 = load ptr, ptr %5, align 8, !tbaa !9
  %26 = load i32, ptr %10, align 4, !tbaa !5
  %27 = sext i32 %26 to i64
  %28 = getelementptr inbounds i32, ptr %25, i64 %27
  %29 = load i32, ptr %28, align 4, !tbaa !5
  %30 = load i32, ptr %7, align 4, !tbaa !5
  %31 = icmp eq i32 %29, %30
  br i1 %31, label %32, label %34

32:                                               ; preds = %18
  %33 = load i32, ptr %10, align 4, !tbaa !5
  store i32 %33, ptr %4, align 4
  store i32 1, ptr %11, align 4
  br label %49

34:                                               ; preds = %18
  %35 = load ptr, ptr %5, align 8, !tbaa !9
  %36 = load i32, ptr %10, align 4, !tbaa !5
  %37 = sext i32 %36 to i64
  %38 = getelementptr inbounds i32, ptr %35, i64 %37
  %39 = load i32, ptr %38, align 4, !tbaa !5
  %40 = load i32, ptr %7, align 4, !tbaa !5
  %41 = icmp slt i32 %39, %40
  br i1 %41, label %42, label %45

42:                                               ; preds = %34
  %43 = load i32, ptr %10, align 4, !tbaa !5
  %44 = add nsw i32 %43, 1
  store i32 %44, ptr %8, align 4, !tbaa !5
  br label %48

45:                                               ; preds = %34
  %46 = load i32, ptr %10, align 4, !tbaa !5
  %47 = sub nsw i32 %46, 1
  store i32 %47, ptr %9, align 4, !tbaa !5
  br label %48

48:                                               ; preds = %45, %42
  store i32 0, ptr %11, align 4
  br label %49

49:                                               ; preds = %48, %32
  call void @llvm.lifetime.end.p0(ptr %10) #7
  %50 = load i32, ptr %11, align 4
  switch i32 %50, label %53 [
    i32 0, label %51
  ]

51:                                               ; preds = %49
  br label %14, !llvm.loop !32

52:                                               ; preds = %14
  store i32 -1, ptr %4, align 4
  store i32 1, ptr %11, align 4
  br label %53

53:                                               ; preds = %52, %49
  call void @llvm.lifetime.end.p0(ptr %9) #7
  call void @llvm.lifetime.end.p0(ptr %8) #7
  %54 = load i32, ptr %4, align 4
  ret i32 %54
}

; Function Attrs: minsize nounwind optsize uwtable
define dso_local i32 @main(i32 noundef %0, ptr noundef %1) #0 {
  %3 = alloca i32, align 4
  %4 = alloca i32, align 4
  %5 = alloca ptr, align 8
  %6 = alloca [64 x i32], align 16
  %7 = alloca double, align 8
  %8 = alloca i32, align 4
  %9 = alloca i32, align 4
  store i32 0, ptr %3, align 4
  store i32 %0, ptr %4, align 4, !tbaa !5
  store ptr %1, ptr %5, align 8, !tbaa !33
  call void @llvm.lifetime.start.p0(ptr %6) #7
  call void @llvm.lifetime.start.p0(ptr %7) #7
  %10 = load i32, ptr %4, align 4, !tbaa !5
  %11 = sitofp i32 %10 to double
  store double %11, ptr %7, align 8, !tbaa !36
  %12 = getelementptr inbounds [64 x i32], ptr %6, i64 0, i64 0
  call void @llvm.memset.p0.i64(ptr align 16 %12, i8 0, i64 256, i1 false)
  call void @llvm.lifetime.start.p0(ptr %8) #7
  store i32 0, ptr %8, align 4, !tbaa !5
  br label %13

13:                                               ; preds = %29, %2
  %14 = load i32, ptr %8, align 4, !tbaa !5
  %15 = icmp slt i32 %14, 64
  br i1 %15, label %17, label %16

16:                                               ; preds = %13
  call void @llvm.lifetime.end.p0(ptr %8) #7
  br label %32

17:                                               ; preds = %13
  %18 = load i32, ptr %8, align 4, !tbaa !5
  %19 = mul nsw i32 %18, 7
  %20 = load i32, ptr %4, align 4, !tbaa !5
  %21 = sub nsw i32 %19, %20
  %22 = call i32 @clamp_too(i32 noundef %21, i32 noundef 0, i32 noundef 300) #8
  %23 = load i32, ptr %8, align 4, !tbaa !5
  %24 = call i32 @gcd(i32 noundef %23, i32 noundef 12) #8
  %25 = add nsw i32 %22, %24
  %26 = load i32, ptr %8, align 4, !tbaa !5
  %27 = sext i32 %26 to i64
  %28 = getelementptr inbounds [64 x i32], ptr %6, i64 0, i64 %27
  store i32 %25, ptr %28, align 4, !tbaa !5
  br label %29

29:                                               ; preds = %17
  %30 = load i32, ptr %8, align 4, !tbaa !5
  %31 = add nsw i32 %30, 1
  store i32 %31, ptr %8, align 4, !tbaa !5
  br label %13, !llvm.loop !38

32:                                               ; preds = %16
  call void @llvm.lifetime.start.p0(ptr %9) #7
  store i32 0, ptr %9, align 4, !tbaa !5
  br label %33

33:                                               ; preds = %45, %32
  %34 = load i32, ptr %9, align 4, !tbaa !5
  %35 = icmp slt i32 %34, 4
  br i1 %35, label %37, label %36

36:                                               ; preds = %33
  call void @llvm.lifetime.end.p0(ptr %9) #7
  br label %48

37:                                               ; preds = %33
  %38 = load double, ptr %7, align 8, !tbaa !36
  %39 = load i32, ptr %9, align 4, !tbaa !5
  %40 = sitofp i32 %39 to double
  %41 = fmul double %38, %40
  %42 = call double @sqrt(double noundef %41) #9, !tbaa !5
  %43 = load double, ptr %7, align 8, !tbaa !36
  %44 = fadd double %43, %42
  store double %44, ptr %7, align 8, !tbaa !36
  br label %45

45:                                               ; preds = %37
  %46 = load i32, ptr %9, align 4, !tbaa !5
  %47 = add nsw i32 %46, 1
  store i32 %47, ptr %9, align 4, !tbaa !5
  br label %33, !llvm.loop !39

48:                                               ; preds = %36
  %49 = getelementptr inbounds [64 x i32], ptr %6, i64 0, i64 0
  %50 = call i32 @sum(ptr noundef %49, i32 noundef 64) #8
  %51 = getelementptr inbounds [64 x i32], ptr %6, i64 0, i64 0
  %52 = call i32 @search(ptr noundef %51, i32 noundef 64, i32 noundef 21) #8
  %53 = load i32, ptr %4, align 4, !tbaa !5
  %54 = call i32 @classify(i32 noundef %53) #8
  %55 = load double, ptr %7, align 8, !tbaa !36
  %56 = load ptr, ptr %5, align 8, !tbaa !33
  %57 = getelementptr inbounds ptr, ptr %56, i64 0
  %58 = load ptr, ptr %57, align 8, !tbaa !26
  %59 = call i32 (ptr, ...) @printf(ptr noundef @.str, i32 noundef %50, i32 noundef %52, i32 noundef %54, double noundef %55, ptr noundef %58) #8
  %60 = load i32, ptr @counter, align 4, !tbaa !5
  call void @llvm.lifetime.end.p0(ptr %7) #7
  call void @llvm.lifetime.end.p0(ptr %6) #7
  ret i32 %60
}

; Function Attrs: nocallback nofree nounwind willreturn memory(argmem: write)
declare void @llvm.memset.p0.i64(ptr writeonly captures(none), i8, i64, i1 immarg) #5

; Function Attrs: minsize nounwind optsize uwtable
define internal i32 @clamp_too(i32 noundef %0, i32 noundef %1, i32 noundef %2) #0 {
  %4 = alloca i32, align 4
  %5 = alloca i32, align 4
  %6 = alloca i32, align 4
  store i32 %0, ptr %4, align 4, !tbaa !5
  store i32 %1, ptr %5, align 4, !tbaa !5
  store i32 %2, ptr %6, align 4, !tbaa !5
  %7 = load i32, ptr %4, align 4, !tbaa !5
  %8 = load i32, ptr %5, align 4, !tbaa !5
  %9 = icmp slt i32 %7, %8
  br i1 %9, label %10, label %12

10:                                               ; preds = %3
  %11 = load i32, ptr %5, align 4, !tbaa !5
  br label %22

12:                                               ; preds = %3
  %13 = load i32, ptr %4, align 4, !tbaa !5
  %14 = load i32, ptr %6, align 4, !tbaa !5
  %15 = icmp sgt i32 %13, %14
  br i1 %15, label %16, label %18

16:                                               ; preds = %12
  %17 = load i32, ptr %6, align 4, !tbaa !5
  br label %20

18:                                               ; preds = %12
  %19 = load i32, ptr %4, align 4, !tbaa !5
  br label %20

20:                                               ; preds = %18, %16
  %21 = phi i32 [ %17, %16 ], [ %19, %18 ]
  br label %22

22:                                               ; preds = %20, %10
  %23 = phi i32 [ %11, %10 ], [ %21, %20 ]
  ret i32 %23
}

; Function Attrs: minsize nounwind optsize uwtable
define internal i32 @gcd(i32 noundef %0, i32 noundef %1) #0 {
  %3 = alloca i32, align 4
  %4 = alloca i32, align 4
  store i32 %0, ptr %3, align 4, !tbaa !5
  store i32 %1, ptr %4, align 4, !tbaa !5
  %5 = load i32, ptr %4, align 4, !tbaa !5
  %6 = icmp ne i32 %5, 0
  br i1 %6, label %7, label %13

7:                                                ; preds = %2
  %8 = load i32, ptr %4, align 4, !tbaa !5
  %9 = load i32, ptr %3, align 4, !tbaa !5
  %10 = load i32, ptr %4, align 4, !tbaa !5
  %11 = urem i32 %9, %10
  %12 = call i32 @gcd(i32 noundef %8, i32 noundef %11) #8
  br label %15

13:                                               ; preds = %2
  %14 = load i32, ptr %3, align 4, !tbaa !5
  br label %15

15:                                               ; preds = %13, %7
  %16 = phi i32 [ %12, %7 ], [ %14, %13 ]
  ret i32 %16
}

; Function Attrs: minsize nounwind optsize
declare double @sqrt(double noundef) #3

; Function Attrs: minsize optsize
declare i32 @printf(ptr noundef, ...) #6

attributes #0 = { minsize nounwind optsize uwtable "min-legal-vector-width"="0" "no-trapping-math"="true" }
attributes #1 = { nocallback nofree nosync nounwind willreturn memory(argmem: readwrite) }
attributes #2 = { nocallback nocreateundeforpoison nofree nosync nounwind speculatable willreturn memory(none) }
attributes #3 = { minsize nounwind optsize "no-trapping-math"="true" }
attributes #4 = { nocallback nofree nounwind willreturn memory(argmem: readwrite) }
attributes #5 = { nocallback nofree nounwind willreturn memory(argmem: write) }
attributes #6 = { minsize optsize "no-trapping-math"="true" }
attributes #7 = { nounwind }
attributes #8 = { minsize optsize }
attributes #9 = { minsize nounwind optsize }

!llvm.module.flags = !{!0, !1, !2, !3}
!llvm.errno.tbaa = !{!5}

!0 = !{i32 1, !"wchar_size", i32 4}
!1 = !{i32 8, !"PIC Level", i32 2}
!2 = !{i32 7, !"PIE Level", i32 2}
!3 = !{i32 7, !"uwtable", i32 2}
!4 = !{!"clang version 22.1.8"}
!5 = !{!6, !6, i64 0}
!6 = !{!"int", !7, i64 0}
!7 = !{!"omnipotent char", !8, i64 0}
!8 = !{!"Simple C/C++ TBAA"}
!9 = !{!10, !10, i64 0}
!10 = !{!"p1 int", !11, i64 0}
!11 = !{!"any pointer", !7, i64 0}
!12 = distinct !{!12, !13}
!13 = !{!"llvm.loop.mustprogress"}
!14 = !{!15, !15, i64 0}
!15 = !{!"p1 float", !11, i64 0}
!16 = !{!17, !17, i64 0}
!17 = !{!"float", !7, i64 0}
!18 = distinct !{!18, !13}
!19 = distinct !{!19, !13}
!20 = distinct !{!20, !13}
!21 = !{!22, !22, i64 0}
!22 = !{!"p1 _ZTS5point", !11, i64 0}
!23 = !{!24, !22, i64 8}
!24 = !{!"point", !6, i64 0, !6, i64 4, !22, i64 8}
!25 = distinct !{!25, !13}
!26 = !{!27, !27, i64 0}
!27 = !{!"p1 omnipotent char", !11, i64 0}
!28 = !{!29, !29, i64 0}
!29 = !{!"long", !7, i64 0}
!30 = !{!7, !7, i64 0}
!31 = distinct !{!31, !13}
!32 = distinct !{!32, !13}
!33 = !{!34, !34, i64 0}
!34 = !{!"p2 omnipotent char", !35, i64 0}
!35 = !{!"any p2 pointer", !11, i64 0}
!36 = !{!37, !37, i64 0}
!37 = !{!"double", !7, i64 0}
!38 = distinct !{!38, !13}
!39 = distinct !{!39, !13}
