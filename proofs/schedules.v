(* The general theorems behind schedules: split, reorder and fuse keep what a nest computes.

   A loop is a left fold over 0 .. n-1 with any state and any body, so that the theorems hold for
   every element type, with floating-point rounding: nothing is assumed of the operations but where
   it says so. Checked by coqc 8.16: `coqc proofs/schedules.v`. *)

Require Import Arith Lia List.

Section Loops.

Variable S : Type.

(* `loop n f s`: for i in 0 .. n-1, in order: s := f i s *)
Fixpoint loop (n : nat) (f : nat -> S -> S) (s : S) : S :=
  match n with
  | 0 => s
  | Datatypes.S m => f m (loop m f s)
  end.

Lemma loop_ext : forall n f g s,
  (forall i, i < n -> forall x, f i x = g i x) -> loop n f s = loop n g s.
Proof.
  induction n; intros f g s same; simpl; auto.
  rewrite (IHn f g) by (intros; apply same; lia).
  apply same; lia.
Qed.

Lemma loop_add : forall m n f s,
  loop (m + n) f s = loop n (fun i => f (m + i)) (loop m f s).
Proof.
  intros m n; induction n; intros f s; simpl.
  - now rewrite Nat.add_0_r.
  - now rewrite Nat.add_succ_r; simpl; rewrite IHn.
Qed.

(* split: an axis is walked in blocks of `step`; order is kept, so nothing is asked of the body. *)
Theorem split_exact : forall blocks step f s,
  loop (blocks * step) f s =
  loop blocks (fun b => loop step (fun i => f (b * step + i))) s.
Proof.
  induction blocks; intros step f s; simpl; auto.
  rewrite Nat.add_comm, loop_add, IHblocks; reflexivity.
Qed.

(* split where the length is no multiple: the last block is shorter, at length n - b * step. *)
Theorem split_tail : forall blocks step rest f s,
  loop (blocks * step + rest) f s =
  loop rest (fun i => f (blocks * step + i))
    (loop blocks (fun b => loop step (fun i => f (b * step + i))) s).
Proof.
  intros; rewrite loop_add, split_exact; reflexivity.
Qed.

(* The same as the loop tree says it: every block has the length min(step, n - b * step). *)
Theorem split_min : forall blocks step rest f s, rest < step ->
  loop (blocks * step + rest) f s =
  loop (Datatypes.S blocks)
    (fun b => loop (Nat.min step (blocks * step + rest - b * step)) (fun i => f (b * step + i))) s.
Proof.
  intros blocks step rest f s less; rewrite split_tail; simpl.
  replace (Nat.min step (blocks * step + rest - blocks * step)) with rest by lia.
  f_equal; apply loop_ext; intros b below x.
  replace (Nat.min step (blocks * step + rest - b * step)) with step; [reflexivity|].
  assert (b * step + step <= blocks * step) by nia. lia.
Qed.

(* What reorder and fuse ask: the two bodies do not disturb one another. Accesses to different
   elements do; so does a reduction whose operation is exact, commutative and associative. *)
Definition commute (f g : S -> S) : Prop := forall s, f (g s) = g (f s).

Lemma commute_loop : forall n f g,
  (forall i, i < n -> commute (f i) g) -> commute (loop n f) g.
Proof.
  unfold commute; induction n; intros f g apart s; simpl; auto.
  rewrite IHn by (intros i ?; apply apart; lia).
  apply apart; lia.
Qed.

(* fuse: the rounds of a producer move to those of the consumer. Asked: a consumer's round does
   not disturb a later round of the producer. *)
Theorem fuse : forall n f g s,
  (forall i j, i < n -> j < i -> commute (f i) (g j)) ->
  loop n g (loop n f s) = loop n (fun i x => g i (f i x)) s.
Proof.
  induction n; intros f g s apart; simpl; auto.
  rewrite <- (IHn f g) by (intros i j ? ?; apply apart; lia).
  assert (moved : commute (loop n g) (f n)).
  { apply commute_loop. intros i below x. symmetry. apply (apart n i); lia. }
  rewrite moved; reflexivity.
Qed.

(* reorder: two loops are exchanged. Asked: a round (i, j) does not disturb (i', j') where the two
   orders differ, that is for i < i' and j' < j. *)
Theorem reorder : forall m n f s,
  (forall i j i' j', i < i' -> i' < m -> j' < j -> j < n -> commute (f i j) (f i' j')) ->
  loop m (fun i => loop n (f i)) s = loop n (fun j => loop m (fun i => f i j)) s.
Proof.
  intros m n; revert m; induction n; intros m f s apart; simpl.
  - clear apart; induction m; simpl; auto.
  - rewrite <- IHn by (intros i j i' j' ? ? ? ?; apply apart; lia).
    symmetry; apply (fuse m (fun i => loop n (f i)) (fun i => f i n)).
    intros i j below less. apply commute_loop. intros k inside x.
    symmetry. apply (apart j n i k); lia.
Qed.

(* split_reduction: sums in parts, joined afterwards. Asked: an associative operation with a unit.
   Floating-point addition is none, hence the step needs permission. *)
Section Reduction.

Variable op : S -> S -> S.
Variable unit : S.
Hypothesis associative : forall a b c, op a (op b c) = op (op a b) c.
Hypothesis unit_left : forall a, op unit a = a.
Hypothesis unit_right : forall a, op a unit = a.

Lemma sum_start : forall n (v : nat -> S) s,
  loop n (fun i x => op x (v i)) s = op s (loop n (fun i x => op x (v i)) unit).
Proof.
  induction n; intros v s; simpl.
  - now rewrite unit_right.
  - now rewrite (IHn v s), associative.
Qed.

Theorem split_reduction : forall parts size (v : nat -> S),
  loop (parts * size) (fun i x => op x (v i)) unit =
  loop parts (fun p x => op x (loop size (fun i y => op y (v (p * size + i))) unit)) unit.
Proof.
  intros; rewrite split_exact; apply loop_ext; intros b below x.
  apply (sum_start size (fun i => v (b * size + i))).
Qed.

End Reduction.

End Loops.
