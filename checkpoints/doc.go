// Package checkpoints keeps paused workflows: the state of a run that waits for a person, until
// exactly one process claims it and resumes the run.
//
//	store := checkpoints.NewStore(d, checkpoints.Options{})
//	err := store.Save(ctx, paused)                   // the run waits
//	claim, ok, err := store.Claim(ctx, paused.RunID) // one process resumes it
//	err = claim.Complete(ctx)                        // and is done with it
//
// It promises that a claim has one winner, among any number of processes and tries; that a claimed
// run is either completed or can be claimed again after [Store.Recover], even after a crash; that a
// claim that was taken away can't complete the one that followed ([db.ErrLeaseLost]); and that a
// document comes back byte for byte.
//
// A run may pause again while its claim is still open: then a document waits beside the claimed
// one, and claiming it ends the older claim for good. To rule that out, save and complete in one
// transaction, with [Store.SaveTx] and [Claim.CompleteTx].
//
// Two agents may have a run of the same id if each names itself with Options.Agent. Without one, a call
// by an id that only named agents have is [db.ErrConflict].
//
// # Caveats
//
// Exactly once is about the claim, not about what the resumed run does: a process that dies after
// an effect and before Complete leaves a claim that recovery makes claimable again. Pass
// [Claim.Epoch], which grows with every claim, to systems that can refuse an older one.
//
// A claim belongs to its process, not to a goroutine or a Store: [Store.Complete] and
// [Store.RecoverOrphaned] treat all claims of the process alike, even those in use; call
// RecoverOrphaned only when a program starts. [Store.Recover] takes only claims of dead processes,
// and is safe at any time. Both leave the claims of other living processes alone, even of stopped
// ones; with Options.ClaimTTL, only until that time has passed without a [Claim.Renew].
//
// An unreadable document is kept, listed and exported, but Load and Claim return [db.ErrCorrupt].
// Only an import can add one.
package checkpoints
