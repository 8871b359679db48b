// Package stores is what the author of a store needs besides package db, and above it: how one kind of
// item is followed (Stream, Follow, FollowAll), how retention removes items (Pruning, Prune), and
// owners. What lies below db is in internal/txn, a transaction as a store uses it, and in
// internal/paging, the pages of a list.
package stores
