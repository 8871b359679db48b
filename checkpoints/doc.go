// Package checkpoints keeps paused workflows: the state of a run that waits for a person, until
// exactly one process claims it and resumes the run.
//
//	store := checkpoints.NewStore(d, checkpoints.Options{})
//	err := store.Save(ctx, paused)                   // the run waits
//	claim, ok, err := store.Claim(ctx, paused.RunID) // one process resumes it
//	err = claim.Complete(ctx)                        // and is done with it
//
// It promises that a claim has one winner, among any number of processes and tries; that what is
// claimed is either completed or can be claimed again after [Store.Recover], whatever died in
// between; that a claim which was taken away can't complete the one that followed
// ([db.ErrLeaseLost]); and that a document comes back byte for byte.
//
// A run may pause again while its claim is still open: then a document waits beside the claimed
// one, and claiming it ends the older claim for good. To leave no moment for that, save and
// complete in one transaction, with [Store.SaveTx] and [Claim.CompleteTx].
//
// # Caveats
//
// Exactly once is about the claim, not about what the resumed run does: a process that dies after
// an effect and before Complete leaves a claim that recovery makes claimable again. Pass
// [Claim.Epoch], which grows with every claim, to systems that can refuse an older one.
//
// A claim belongs to its process, not to a goroutine or a Store: [Store.Complete] and
// [Store.RecoverOrphaned] treat all claims of the process alike, also those that are being worked
// on; RecoverOrphaned is for a program that starts. [Store.Recover] takes what only the dead held,
// at any time. Claims of other living processes are safe from both, also while those are stopped;
// with Options.ClaimTTL only until that has passed without a [Claim.Renew].
//
// A document that can't be read is kept, listed, exported and never handed out: Load and Claim answer
// [db.ErrCorrupt]. Only an import brings one in.
package checkpoints
