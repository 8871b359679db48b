// Package stores is what a store uses in addition to package db: it follows items of one kind
// (Stream, Follow, FollowAll), removes items by retention (Pruning, Prune), and handles owners.
// What lies below db is in internal/txn, a transaction as a store uses it, and in internal/paging,
// the pages of a list.
package stores
